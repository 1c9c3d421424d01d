//! Accepts connections: plaintext, TLS, or either, detected by the first byte.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use rustls::ServerConfig;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{error, warn};

use super::admission::UnauthenticatedSlot;
use super::limits::ACCEPT_PAUSE;
use super::{Server, is_set};

/// The transport of proxies' connections. The TLS configuration is read for each connection, so
/// that certificates rotate without a restart; it has to offer `h2` by ALPN.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Without TLS: tokens are readable on the network.
    Plaintext,
    /// TLS only; other connections are closed.
    Tls(watch::Receiver<Arc<ServerConfig>>),
    /// Plaintext or TLS, detected by the first byte.
    Either(watch::Receiver<Arc<ServerConfig>>),
}

/// Why a connection failed.
#[derive(Debug, Error)]
enum Failure {
    #[error("timed out waiting for the first byte")]
    Silent,
    #[error("neither TLS nor HTTP/2: the first byte is {0:#04x}")]
    Unknown(u8),
    #[error("TLS handshake timed out")]
    SlowHandshake,
    #[error("TLS handshake failed: {0}")]
    Handshake(io::Error),
    #[error("it was closed: {0}")]
    Closed(#[from] io::Error),
}

/// An accepted connection, ready for HTTP/2.
enum Secured {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Server {
    /// Serves the proxies that connect to this listener, until [`Server::close`].
    pub async fn serve(self: Arc<Self>, listener: TcpListener, transport: Transport) {
        let mut connections = JoinSet::new();
        let mut closing = pin!(is_set(self.closing.subscribe()));
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((socket, address)) => {
                        let server = Arc::clone(&self);
                        let served = server.serve_connection(socket, address, transport.clone());
                        connections.spawn(served);
                    }
                    Err(error) => {
                        error!(%error, "cannot accept xDS connections; retrying");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = &mut closing => break,
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    async fn serve_connection(
        self: Arc<Self>,
        socket: TcpStream,
        address: SocketAddr,
        transport: Transport,
    ) {
        let (admitted, slot) = match self.admission.admit(address.ip()) {
            Ok(admitted) => admitted,
            Err(reason) => return self.log_failure(address, &reason),
        };
        match self.secured(socket, &transport).await {
            Ok(Secured::Plain(io)) => self.run(io, address, slot).await,
            Ok(Secured::Tls(io)) => self.run(io, address, slot).await,
            Err(failure) => self.log_failure(address, &failure),
        }
        drop(admitted);
    }

    async fn run<I>(self: Arc<Self>, io: I, address: SocketAddr, slot: UnauthenticatedSlot)
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        if let Err(error) = super::connection::run(&self, io, address, slot).await {
            self.log_failure(address, &error);
        }
    }

    async fn secured(&self, socket: TcpStream, transport: &Transport) -> Result<Secured, Failure> {
        socket.set_nodelay(true)?;
        let config = match transport {
            Transport::Plaintext => return Ok(Secured::Plain(socket)),
            Transport::Tls(config) => config,
            Transport::Either(config) => {
                if !self.begins_with_tls(&socket).await? {
                    return Ok(Secured::Plain(socket));
                }
                config
            }
        };
        let config = Arc::clone(&config.borrow());
        let handshake = TlsAcceptor::from(config).accept(socket);
        let handshake = timeout(self.limits.handshake, handshake).await;
        let handshake = handshake.map_err(|_| Failure::SlowHandshake)?;
        let stream = handshake.map_err(Failure::Handshake)?;
        Ok(Secured::Tls(Box::new(stream)))
    }

    async fn begins_with_tls(&self, socket: &TcpStream) -> Result<bool, Failure> {
        let mut first = [0];
        let peeked = timeout(self.limits.handshake, socket.peek(&mut first)).await;
        let count = peeked.map_err(|_| Failure::Silent)??;
        match first {
            _ if count == 0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            [TLS_HANDSHAKE] => Ok(true),
            [HTTP2_PREFACE] => Ok(false),
            [other] => Err(Failure::Unknown(other)),
        }
    }

    /// Logs why a connection failed, within the rate limit.
    pub(super) fn log_failure(&self, address: SocketAddr, reason: &dyn std::fmt::Display) {
        if let Some(left_out) = self.admission.may_log() {
            warn!(%address, %reason, left_out, "an xDS connection was closed");
        }
    }
}

/// The content type of a TLS record with a handshake (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// First byte of the HTTP/2 connection preface, `PRI * HTTP/2.0` (RFC 9113 section 3.4).
const HTTP2_PREFACE: u8 = b'P';
