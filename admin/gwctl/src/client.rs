//! HTTP/1.1 client of an admin server. Every operation has a timeout.

use std::time::Duration;

use admin_types::ErrorAnswer;
use anyhow::{Context as _, Result, anyhow, bail};
use http::header::HOST;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use tokio::time::{Instant, timeout_at};

use crate::output::shown;
use crate::runtime::Blocking;
use crate::server::Server;

/// A client of one admin server.
#[derive(Debug)]
pub(crate) struct Client {
    server: Server,
    /// Set with `--timeout`; None for the defaults.
    timeout: Option<Duration>,
    runtime: Blocking,
}

impl Client {
    /// A client of a server, which is not connected to yet.
    pub(crate) fn new(server: Server, timeout: Option<Duration>, runtime: Blocking) -> Self {
        Self {
            server,
            timeout,
            runtime,
        }
    }

    /// The same with a shorter timeout, unless one was set.
    pub(crate) fn limited(self, timeout: Duration) -> Self {
        Self {
            timeout: self.timeout.or(Some(timeout)),
            ..self
        }
    }

    /// Sends a GET and returns the response body.
    ///
    /// # Errors
    /// The server is unreachable, responds with an error, or times out.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>> {
        self.fetch(Method::GET, path, self.timeout())
    }

    /// Fetches a profile that takes `sampling` to record.
    ///
    /// # Errors
    /// As of [`Client::get`].
    pub(crate) fn profile(&self, path: &str, sampling: Duration) -> Result<Vec<u8>> {
        self.fetch(Method::GET, path, self.profile_timeout(sampling))
    }

    fn profile_timeout(&self, sampling: Duration) -> Duration {
        let symbolization = self.timeout.unwrap_or(SYMBOLIZATION_TIMEOUT);
        symbolization.saturating_add(sampling)
    }

    /// Sends a POST without a body and returns the response body.
    ///
    /// # Errors
    /// As of [`Client::get`].
    pub(crate) fn post(&self, path: &str) -> Result<Vec<u8>> {
        self.fetch(Method::POST, path, self.timeout())
    }

    fn fetch(&self, method: Method, path: &str, timeout: Duration) -> Result<Vec<u8>> {
        let deadline = Instant::now() + timeout;
        self.block_on(async {
            let exchange = async {
                let response = self.send(method, path).await?;
                let status = response.status();
                let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES)
                    .collect()
                    .await;
                let body = body.map_err(|error| {
                    anyhow!("the response was cut short, or is larger than 1 GiB: {error}")
                })?;
                let body = body.to_bytes();
                check_status(status, &body)?;
                Ok(body.to_vec())
            };
            let timed_out = || {
                anyhow!(
                    "no response from {} within {timeout:?}; set a longer one with --timeout",
                    self.server
                )
            };
            timeout_at(deadline, exchange)
                .await
                .map_err(|_| timed_out())?
        })
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Timeout for a response.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// Runs a future on the client's runtime. The future must have timeouts of its own.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Sends a GET and returns the body as a stream. The caller applies the timeout.
    ///
    /// # Errors
    /// The server is unreachable or responds with an error.
    pub(crate) async fn stream(&self, path: &str) -> Result<Incoming> {
        let response = self.send(Method::GET, path).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = Limited::new(response.into_body(), MAX_ERROR_BYTES)
            .collect()
            .await;
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        check_status(status, &body)?;
        bail!("the gateway responded with {status}")
    }

    async fn send(&self, method: Method, path: &str) -> Result<Response<Incoming>> {
        let server = &self.server;
        let mut sender = server.connect().await.with_context(|| {
            format!(
                "cannot connect to {server}; is the gateway running, with its admin server enabled?"
            )
        })?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, server.authority())
            .body(Empty::<Bytes>::new())?;
        sender.send_request(request).await.with_context(|| {
            format!("no HTTP response from {server}; is it the address of an admin server?")
        })
    }
}

/// Default timeout for a response: 30 s.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Default time to symbolize a profile: 5 min. It is a second of CPU time, but at the lowest priority,
/// so it takes a minute where requests use every core.
const SYMBOLIZATION_TIMEOUT: Duration = Duration::from_mins(5);
/// Limit of a response body: 1 GiB, larger than any dump.
const MAX_RESPONSE_BYTES: usize = 1 << 30;
/// Limit of an error message: 64 KiB.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Turns an error response into an error with the server's message.
fn check_status(status: StatusCode, body: &[u8]) -> Result<()> {
    if status.is_success() {
        return Ok(());
    }
    let message = match serde_json::from_slice::<ErrorAnswer>(body) {
        Ok(answer) => answer.error,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let message = shown(&message);
    if status == StatusCode::NOT_FOUND {
        bail!(
            "the gateway has no such endpoint; is it of the same version as gwctl? It responded: {message}"
        );
    }
    bail!("the gateway responded with {status}: {message}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Client;
    use crate::runtime::Blocking;
    use crate::server::Server;

    #[test]
    fn the_timeout_of_a_profile_includes_symbolization_on_a_busy_gateway() {
        let seconds = Duration::from_secs;
        let client = |timeout| {
            let server = Server::parse("localhost:1").expect("an address");
            Client::new(server, timeout, Blocking::new().expect("a runtime"))
        };
        let patient = client(None);
        assert_eq!(patient.timeout(), seconds(30));
        assert_eq!(patient.profile_timeout(seconds(10)), seconds(310));
        let hasty = client(Some(seconds(1)));
        assert_eq!(hasty.timeout(), seconds(1));
        assert_eq!(hasty.profile_timeout(seconds(10)), seconds(11));
    }
}
