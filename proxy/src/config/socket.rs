//! Connections of the configuration's own threads, which are no shards.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::Address;

/// A connection of any kind.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Connects to an address.
pub(super) async fn open(address: &Address) -> io::Result<Box<dyn Socket>> {
    Ok(match address {
        Address::Tcp(address) => Box::new(TcpStream::connect(address).await?),
        Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

/// Completes a TLS handshake.
pub(super) async fn secure(
    socket: Box<dyn Socket>,
    config: &Arc<ClientConfig>,
    name: &ServerName<'static>,
) -> io::Result<Box<dyn Socket>> {
    let connector = TlsConnector::from(Arc::clone(config));
    Ok(Box::new(connector.connect(name.clone(), socket).await?))
}
