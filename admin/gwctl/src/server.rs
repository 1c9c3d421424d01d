//! The address of an admin server, and connecting to it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use anyhow::Result;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Address of an admin server, in the syntax of `gateway run --admin-address`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    /// `host:port`.
    Tcp(String),
    /// `unix:/path`.
    Unix(PathBuf),
}

impl Server {
    /// Parses an address; None where it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            return path.starts_with('/').then(|| Self::Unix(path.into()));
        }
        let (_, port) = text.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        Some(Self::Tcp(text.to_owned()))
    }

    /// Host without the port; `localhost` for a unix socket.
    pub(crate) fn host(&self) -> &str {
        match self {
            Self::Tcp(address) => address.rsplit_once(':').map_or("", |(host, _)| host),
            Self::Unix(_) => "localhost",
        }
    }

    /// Value of the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        match self {
            Self::Tcp(address) => address,
            Self::Unix(_) => "localhost",
        }
    }

    /// Opens a connection for one request.
    ///
    /// # Errors
    /// The connection is refused.
    pub(crate) async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>> {
        match self {
            Self::Tcp(address) => handshake(TcpStream::connect(address).await).await,
            Self::Unix(path) => handshake(UnixStream::connect(path).await).await,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

async fn handshake<S>(connected: io::Result<S>) -> Result<SendRequest<Empty<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(connected?)).await?;
    // Ends with the response, or with this process.
    tokio::spawn(connection);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::Server;

    #[test]
    fn addresses_have_the_syntax_of_the_gateway() {
        for (text, host) in [
            ("localhost:15000", Some("localhost")),
            ("[::1]:26000", Some("[::1]")),
            ("unix:/run/admin.sock", Some("localhost")),
            ("unix:run/admin.sock", None),
            ("unix:", None),
            ("localhost", None),
            ("edge:http", None),
            ("edge:65536", None),
        ] {
            let server = Server::parse(text);
            assert_eq!(server.as_ref().map(Server::host), host, "{text}");
            let printed = server.map(|server| server.to_string());
            assert_eq!(printed.as_deref(), host.map(|_| text), "{text}");
        }
    }
}
