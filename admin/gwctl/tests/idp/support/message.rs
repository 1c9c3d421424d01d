//! HTTP/1.1 messages, one on a connection.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A request or a response.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Message {
    /// Reads one; None where the connection ends before.
    pub(crate) fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 65_536];
        loop {
            if let Some(message) = Self::parse(&bytes, false) {
                return Some(message);
            }
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return Self::parse(&bytes, true),
                Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            }
        }
    }

    fn parse(bytes: &[u8], ended: bool) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let start = lines.next()?.to_owned();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut message = Self {
            start,
            headers,
            body: String::new(),
        };
        let length = message.header("content-length");
        message.body = match length.and_then(|length| length.parse::<usize>().ok()) {
            Some(length) if body.len() < length => return None,
            Some(length) => body[..length].to_owned(),
            None if message.header("transfer-encoding").is_some() => unchunked(body)?,
            // A response without a length ends with its connection.
            None if message.start.starts_with("HTTP/") && !message.has_no_body() && !ended => {
                return None;
            }
            None => body.to_owned(),
        };
        Some(message)
    }

    fn has_no_body(&self) -> bool {
        self.status() == 204
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let header = headers.find(|(known, _)| known == name);
        header.map(|(_, value)| value.as_str())
    }

    /// Method of a request.
    pub(crate) fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// Target of a request.
    pub(crate) fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// Status of a response.
    pub(crate) fn status(&self) -> u16 {
        let status = self.start.split(' ').nth(1);
        status.and_then(|it| it.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Its bytes, with `Connection: close`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.start);
        let left_out = ["connection", "content-length", "transfer-encoding"];
        for (name, value) in &self.headers {
            if !left_out.contains(&name.as_str()) {
                let _ = write!(text, "{name}: {value}\r\n");
            }
        }
        if !self.body.is_empty() || self.method() == "POST" {
            let _ = write!(text, "content-length: {}\r\n", self.body.len());
        }
        let _ = write!(text, "connection: close\r\n\r\n{}", self.body);
        text.into_bytes()
    }
}

fn unchunked(mut text: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, rest) = text.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(rest.get(..size)?);
        text = rest.get(size + 2..)?;
    }
}

/// Sends a request to a port of this machine and reads the response.
pub(crate) fn send(port: u16, method: &str, path: &str, lines: &[String], body: &str) -> Message {
    let mut headers = vec![("host".to_owned(), format!("127.0.0.1:{port}"))];
    headers.extend(lines.iter().map(|line| {
        let (name, value) = line.split_once(": ").expect("a header line");
        (name.to_ascii_lowercase(), value.to_owned())
    }));
    let request = Message {
        start: format!("{method} {path} HTTP/1.1"),
        headers,
        body: body.to_owned(),
    };
    exchange(port, &request).unwrap_or_else(|| panic!("no response to {method} {path}"))
}

/// Sends a request and reads the response.
pub(crate) fn exchange(port: u16, request: &Message) -> Option<Message> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_mins(1))).ok()?;
    stream.write_all(&request.bytes()).ok()?;
    Message::read(&mut stream)
}
