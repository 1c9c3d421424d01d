//! Where an admin server or a listener of a gateway is, and connecting to it.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::cluster::PodPort;

/// Address of a server.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    /// An address `host:port`.
    Tcp(String),
    /// The path of a unix socket.
    Unix(PathBuf),
    /// A port of a pod, through the API server of its cluster.
    Pod(Box<PodPort>),
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Server {
    /// Parses an address in the syntax of `gateway run --admin-address`; None where it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            return path.starts_with('/').then(|| Self::Unix(path.into()));
        }
        let (_, port) = text.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        Some(Self::Tcp(text.to_owned()))
    }

    /// Another port of the same gateway.
    pub(crate) fn with_port(&self, port: u16) -> Self {
        match self {
            Self::Tcp(address) => {
                let host = address.rsplit_once(':').map_or("", |(host, _)| host);
                Self::Tcp(format!("{host}:{port}"))
            }
            Self::Unix(_) => Self::Tcp(format!("localhost:{port}")),
            Self::Pod(pod) => Self::Pod(Box::new(pod.with_port(port))),
        }
    }

    /// Value of the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        match self {
            Self::Tcp(address) => address,
            Self::Unix(_) | Self::Pod(_) => "localhost",
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The connection is refused.
    pub(crate) async fn open(&self) -> Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(address) => Box::new(TcpStream::connect(address).await?),
            Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Self::Pod(pod) => Box::new(pod.open().await?),
        })
    }

    /// Opens a connection for one request without a body.
    ///
    /// # Errors
    /// As of [`Server::open`].
    pub(crate) async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>> {
        let stream = self.open().await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the response, or with this process.
        tokio::spawn(connection);
        Ok(sender)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Pod(pod) => write!(f, "{pod}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Server;

    #[test]
    fn server_addresses_are_validated_and_printed_as_given() {
        for (text, listener) in [
            ("localhost:15000", Some("localhost:80")),
            ("[::1]:26000", Some("[::1]:80")),
            ("unix:/run/admin.sock", Some("localhost:80")),
            ("unix:run/admin.sock", None),
            ("unix:", None),
            ("localhost", None),
            ("edge:http", None),
            ("edge:65536", None),
        ] {
            let server = Server::parse(text);
            let other = server.as_ref().map(|it| it.with_port(80).to_string());
            assert_eq!(other.as_deref(), listener, "{text}");
            let printed = server.map(|server| server.to_string());
            assert_eq!(printed.as_deref(), listener.map(|_| text), "{text}");
        }
    }
}
