//! A client of the data plane, for one thread: one connection, kept open as long as possible.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a request may take before it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// TLS settings of a client.
pub(crate) type Tls = (ServerName<'static>, Arc<ClientConfig>);

type Sender = SendRequest<Empty<Bytes>>;

/// A client of one address.
pub(crate) struct Client {
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
    address: SocketAddr,
    tls: Option<Tls>,
    connection: Option<Sender>,
}

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, tls: Option<Tls>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            address,
            tls,
            connection: None,
        })
    }

    /// Sends a request, and blocks until the response is complete.
    pub(crate) fn get(&mut self, host: &str, path: &str) -> Result<HttpResponse> {
        let Self {
            runtime,
            address,
            tls,
            connection,
        } = self;
        let exchange = async {
            let answer = get(connection, *address, tls.as_ref(), host, path);
            timeout(TIMEOUT, answer)
                .await
                .context("no answer in time")?
        };
        let runtime = runtime.as_ref().context("the client is being dropped")?;
        let answer = runtime.block_on(exchange);
        if answer.is_err() {
            *connection = None;
        }
        answer
    }
}

impl Drop for Client {
    /// This may run in any runtime, where blocking is not allowed.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn get(
    connection: &mut Option<Sender>,
    address: SocketAddr,
    tls: Option<&Tls>,
    host: &str,
    path: &str,
) -> Result<HttpResponse> {
    let request = || Request::get(path).header(HOST, host).body(Empty::new());
    if let Some(sender) = connection
        && sender.ready().await.is_ok()
    {
        match sender.send_request(request()?).await {
            Ok(answer) => return whole(answer).await,
            // The connection was closed before anything was sent on it, which is allowed.
            Err(error) if error.is_canceled() => {}
            Err(error) => return Err(error).context("no answer"),
        }
    }
    let sender = connection.insert(connect(address, tls).await?);
    let answer = sender.send_request(request()?).await.context("no answer")?;
    whole(answer).await
}

async fn whole(answer: hyper::Response<hyper::body::Incoming>) -> Result<HttpResponse> {
    let status = answer.status();
    let body = answer.into_body().collect().await;
    let body = body.context("the answer broke off")?.to_bytes();
    Ok(HttpResponse { status, body })
}

async fn connect(address: SocketAddr, tls: Option<&Tls>) -> Result<Sender> {
    let stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    let Some((name, config)) = tls else {
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        return Ok(sender);
    };
    let connector = TlsConnector::from(Arc::clone(config));
    let stream = connector
        .connect(name.clone(), stream)
        .await
        .context("the TLS handshake failed")?;
    let (sender, driver) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    Ok(sender)
}
