//! HTTP/1.1 to an admin server. Every wait ends: `gwctl` never hangs.

use std::time::Duration;

use admin_types::ErrorAnswer;
use anyhow::{Context as _, Result, anyhow, bail};
use http::header::HOST;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout_at};

use crate::output::shown;

/// Talks to one admin server.
#[derive(Debug)]
pub(crate) struct Client {
    address: String,
    timeout: Duration,
    runtime: Runtime,
}

impl Client {
    /// A client of the server at `host:port`.
    ///
    /// # Errors
    /// The address is none.
    pub(crate) fn new(address: &str, timeout: Duration) -> Result<Self> {
        let port = address
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            bail!("`{address}` is not HOST:PORT, such as localhost:15000");
        }
        Ok(Self {
            address: address.to_owned(),
            timeout,
            runtime: Builder::new_current_thread().enable_all().build()?,
        })
    }

    /// The answer to a GET.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or takes too long.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>> {
        self.whole(Method::GET, path, Duration::ZERO)
    }

    /// As [`Client::get`], of what takes a while to make.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn get_slowly(&self, path: &str, takes: Duration) -> Result<Vec<u8>> {
        self.whole(Method::GET, path, takes)
    }

    /// The answer to a POST without a body.
    ///
    /// # Errors
    /// As of [`Client::get`].
    pub(crate) fn post(&self, path: &str) -> Result<Vec<u8>> {
        self.whole(Method::POST, path, Duration::ZERO)
    }

    fn whole(&self, method: Method, path: &str, takes: Duration) -> Result<Vec<u8>> {
        let until = Instant::now() + self.timeout + takes;
        self.runtime.block_on(async {
            let asked = async {
                let response = self.ask(method, path).await?;
                let status = response.status();
                let body = Limited::new(response.into_body(), ANSWER_BYTES)
                    .collect()
                    .await;
                let body = body.map_err(|error| {
                    anyhow!("the answer broke off, or is larger than 1 GiB: {error}")
                })?;
                let body = body.to_bytes();
                refused(status, &body)?;
                Ok(body.to_vec())
            };
            let late = || {
                anyhow!(
                    "{} gave no answer within {:?}; give it longer with --timeout",
                    self.address,
                    self.timeout + takes
                )
            };
            timeout_at(until, asked).await.map_err(|_| late())?
        })
    }

    /// The host of the server's address.
    pub(crate) fn host(&self) -> &str {
        self.address.rsplit_once(':').map_or("", |(host, _)| host)
    }

    /// For how long an answer is waited for.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Runs what asks in its own time, and bounds its waits itself.
    pub(crate) fn block_on<T>(&self, asking: impl Future<Output = T>) -> T {
        self.runtime.block_on(asking)
    }

    /// The head of the answer to a GET that goes on for longer.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses.
    pub(crate) async fn stream(&self, path: &str) -> Result<Incoming> {
        let response = self.ask(Method::GET, path).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = Limited::new(response.into_body(), REFUSAL_BYTES)
            .collect()
            .await;
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        refused(status, &body)?;
        bail!("the gateway refuses ({status})")
    }

    async fn ask(&self, method: Method, path: &str) -> Result<Response<Incoming>> {
        let address = &self.address;
        let stream = TcpStream::connect(address).await.with_context(|| {
            format!("no gateway answers at {address}; is it running, and its admin server on?")
        })?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the response, or with this process.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, address)
            .body(Empty::<Bytes>::new())?;
        sender.send_request(request).await.with_context(|| {
            format!("{address} does not speak HTTP; is it the port of an admin server?")
        })
    }
}

/// Larger than any dump: 1 GiB.
const ANSWER_BYTES: usize = 1 << 30;
/// Larger than any reason: 64 KiB.
const REFUSAL_BYTES: usize = 64 << 10;

/// What the server says where it refuses.
fn refused(status: StatusCode, body: &[u8]) -> Result<()> {
    if status.is_success() {
        return Ok(());
    }
    let said = match serde_json::from_slice::<ErrorAnswer>(body) {
        Ok(answer) => answer.error,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let said = shown(&said);
    if status == StatusCode::NOT_FOUND {
        bail!("the gateway has no such page; is it of the same version? It says: {said}");
    }
    bail!("the gateway refuses ({status}): {said}");
}
