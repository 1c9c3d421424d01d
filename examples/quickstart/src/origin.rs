//! A minimal HTTP/1.1 origin. Every response contains the origin's name and the request head as received.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// Starts serving on a loopback port, until the process exits.
///
/// # Errors
/// The port is in use.
pub(crate) fn start(name: &'static str, port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Errors of a connection end that connection only.
            thread::spawn(move || drop(serve(name, &stream)));
        }
    });
    Ok(())
}

fn serve(name: &str, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let head = read_head(&mut reader)?;
        if head.is_empty() {
            return Ok(());
        }
        let received = read_body(&mut reader, &head)?;
        let text = format!("{name} got {received} bytes with\n{head}");
        let length = text.len();
        let body = if head.starts_with("HEAD ") { "" } else { &text };
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut writer = stream;
        writer.write_all(response.as_bytes())?;
    }
}

/// The request line and header lines; empty at the end of the connection.
fn read_head(reader: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while reader.read_line(&mut head)? > "\r\n".len() {}
    Ok(head.trim_end().replace("\r\n", "\n") + if head.is_empty() { "" } else { "\n" })
}

/// Reads and discards a body with either framing; returns its length.
fn read_body(reader: &mut impl BufRead, head: &str) -> io::Result<u64> {
    if let Some(length) = field(head, "content-length") {
        return skip(reader, length.parse().map_err(io::Error::other)?);
    }
    let mut received = 0;
    while field(head, "transfer-encoding").is_some() {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim_end(), 16).map_err(io::Error::other)?;
        received += skip(reader, size)?;
        // The line end after a chunk; the gateway sends no trailers.
        reader.read_line(&mut String::new())?;
        if size == 0 {
            break;
        }
    }
    Ok(received)
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

fn skip(reader: &mut impl Read, length: u64) -> io::Result<u64> {
    io::copy(&mut reader.take(length), &mut io::sink())
}
