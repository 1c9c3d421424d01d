//! Single requests that block: to know that a proxy is ready and right before it is measured, and
//! for the loads that open many connections and use each once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};

use crate::load::client::{FeedResult, LoadRequest, Reading};
use crate::load::grpc;
use crate::load::target::LoadTarget;
use crate::origin::http1;
use crate::scenario::ClientProtocol;
use crate::tls::{Certificate, server_name};

/// A connection of a blocking client.
#[derive(Debug)]
pub(crate) enum Channel {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Channel {
    /// Over `stream`, in TLS where there is a certificate.
    pub(crate) fn open(
        stream: TcpStream,
        certificate: Option<&Certificate>,
        resume: bool,
    ) -> Result<Self> {
        if let Some(certificate) = certificate {
            return Self::tls(stream, certificate.client(resume)?);
        }
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self::Plain(stream))
    }

    /// In TLS over `stream`. The handshake is done with the first bytes.
    pub(crate) fn tls(stream: TcpStream, config: Arc<ClientConfig>) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let connection = ClientConnection::new(config, server_name()?)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(connection, stream))))
    }

    /// The kind of the handshake that was done.
    pub(crate) fn handshake(&self) -> Option<HandshakeKind> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.conn.handshake_kind(),
        }
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// One request and its answer, verified; the answer's size in bytes, head and body.
pub(crate) fn exchange(channel: &mut Channel, exchange: &LoadRequest) -> Result<usize> {
    channel.write_all(&exchange.request)?;
    channel.flush()?;
    let mut reading = Reading::default();
    let mut buffer = [0; 16 * 1024];
    let mut size = 0;
    loop {
        let read = channel.read(&mut buffer).context("no response")?;
        ensure!(read > 0, "the connection was closed within a response");
        size += read;
        if reading.feed(buffer.get(..read).unwrap_or_default(), exchange)? != FeedResult::More {
            return Ok(size);
        }
    }
}

/// Sends one request of the case and verifies every byte of the response. Returns the size of head
/// and body in HTTP/1, and of the body in HTTP/2.
pub(crate) fn request_once(target: LoadTarget<'_>) -> Result<usize> {
    let case = target.case;
    match case.front {
        ClientProtocol::H2c | ClientProtocol::H2Tls => {
            let body = grpc::fetch(target.address, &case.path(), target.certificate)?;
            ensure!(
                body == http1::body(case.load.bytes),
                "wrong body over HTTP/2"
            );
            Ok(body.len())
        }
        ClientProtocol::Grpc => grpc::call_once(target).map(|()| case.load.bytes),
        ClientProtocol::Http1 | ClientProtocol::Tls | ClientProtocol::WebSocket => {
            let request = LoadRequest::of(case);
            let mut stream = TcpStream::connect(target.address)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            if !request.opening.is_empty() {
                upgrade(&mut stream, &request)?;
            }
            exchange(
                &mut Channel::open(stream, target.certificate, false)?,
                &request,
            )
        }
    }
}

/// Sends the opening and reads its answer, byte by byte: what follows belongs to the load.
pub(crate) fn upgrade(stream: &mut TcpStream, exchange: &LoadRequest) -> Result<()> {
    stream.write_all(&exchange.opening)?;
    let mut head = Vec::new();
    let mut byte = [0];
    while LoadRequest::opened(&head)?.is_none() {
        stream
            .read_exact(&mut byte)
            .context("no response to the upgrade")?;
        head.extend_from_slice(&byte);
    }
    Ok(())
}

/// The body of a GET in the clear: for an origin's own counters.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let answer = answer(address, "origin", path)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no response")?;
    Ok(body.to_owned())
}

/// A GET in the clear that has to be answered with 200.
pub(crate) fn serves(address: SocketAddr, host: &str, path: &str) -> Result<()> {
    let answer = answer(address, host, path)?;
    let status = answer.lines().next().unwrap_or_default();
    ensure!(
        status.starts_with("HTTP/1.1 200 "),
        "it responds with {status}"
    );
    Ok(())
}

fn answer(address: SocketAddr, host: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

const TIMEOUT: Duration = Duration::from_secs(5);
