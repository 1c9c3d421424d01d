//! HTTP/1.1 client of an admin server. Every operation has a timeout.

use std::time::Duration;

use admin_types::ErrorAnswer;
use anyhow::{Context as _, Result, anyhow, bail};
use http::header::HOST;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout_at};

use crate::output::shown;
use crate::server::Server;

/// A client of one admin server.
#[derive(Debug)]
pub(crate) struct Client {
    server: Server,
    /// Set with `--timeout`; None for the defaults.
    timeout: Option<Duration>,
    /// None only while this is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Client {
    /// Does not wait for a pending name lookup: the resolver blocks a thread of its own, for longer
    /// than our timeout.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Creates a client of the server at `host:port` or `unix:/path`, without connecting yet.
    ///
    /// # Errors
    /// The address is invalid.
    pub(crate) fn new(address: &str, timeout: Option<Duration>) -> Result<Self> {
        let Some(server) = Server::parse(address) else {
            bail!(
                "invalid address `{address}`: expected HOST:PORT, such as localhost:15000, or unix:/PATH"
            );
        };
        Ok(Self {
            server,
            timeout,
            runtime: Some(Builder::new_current_thread().enable_all().build()?),
        })
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

    /// Host of the server, without the port.
    pub(crate) fn host(&self) -> &str {
        self.server.host()
    }

    /// Timeout for a response.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// Runs a future on the client's runtime. The future has to bound its own waits.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().expect("present until drop");
        runtime.block_on(future)
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
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::Client;

    #[test]
    fn dropping_a_client_does_not_wait_for_a_name_lookup() {
        let patience = Duration::from_secs(20);
        let client = Client::new("localhost:1", None).expect("an address");
        let (_never, answer) = mpsc::channel::<()>();
        // Name lookups run on such a thread, and may block for longer than our timeout.
        client.block_on(async {
            let (started, has_started) = tokio::sync::oneshot::channel();
            tokio::task::spawn_blocking(move || {
                let _ = started.send(());
                answer.recv_timeout(patience)
            });
            has_started.await.expect("it starts");
        });
        let started = Instant::now();
        drop(client);
        assert!(started.elapsed() < patience);
    }

    #[test]
    fn the_timeout_of_a_profile_includes_symbolization_on_a_busy_gateway() {
        let seconds = Duration::from_secs;
        let client = |timeout| Client::new("localhost:1", timeout).expect("an address");
        let patient = client(None);
        assert_eq!(patient.timeout(), seconds(30));
        assert_eq!(patient.profile_timeout(seconds(10)), seconds(310));
        let hasty = client(Some(seconds(1)));
        assert_eq!(hasty.timeout(), seconds(1));
        assert_eq!(hasty.profile_timeout(seconds(10)), seconds(11));
    }
}
