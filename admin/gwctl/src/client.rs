//! HTTP/1.1 to an admin server. Every wait ends: `gwctl` never hangs.

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

/// Talks to one admin server.
#[derive(Debug)]
pub(crate) struct Client {
    server: Server,
    /// None where the user left it to us.
    timeout: Option<Duration>,
    /// There until this is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Client {
    /// Nobody waits for a name that is still being looked up: the resolver has a thread of its own,
    /// and its own patience.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// A client of the server at `host:port` or `unix:/path`.
    ///
    /// # Errors
    /// The address is none.
    pub(crate) fn new(address: &str, timeout: Option<Duration>) -> Result<Self> {
        let Some(server) = Server::parse(address) else {
            bail!("`{address}` is neither HOST:PORT, such as localhost:15000, nor unix:/PATH");
        };
        Ok(Self {
            server,
            timeout,
            runtime: Some(Builder::new_current_thread().enable_all().build()?),
        })
    }

    /// The answer to a GET.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or takes too long.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>> {
        self.whole(Method::GET, path, self.timeout())
    }

    /// The profile that a GET asks for, and that takes so long to sample.
    ///
    /// # Errors
    /// As of [`Client::get`].
    pub(crate) fn profile(&self, path: &str, sampling: Duration) -> Result<Vec<u8>> {
        self.whole(Method::GET, path, self.profile_timeout(sampling))
    }

    fn profile_timeout(&self, sampling: Duration) -> Duration {
        let naming = self.timeout.unwrap_or(NAMING);
        naming.saturating_add(sampling)
    }

    /// The answer to a POST without a body.
    ///
    /// # Errors
    /// As of [`Client::get`].
    pub(crate) fn post(&self, path: &str) -> Result<Vec<u8>> {
        self.whole(Method::POST, path, self.timeout())
    }

    fn whole(&self, method: Method, path: &str, timeout: Duration) -> Result<Vec<u8>> {
        let until = Instant::now() + timeout;
        self.block_on(async {
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
                    "{} gave no answer within {timeout:?}; give it longer with --timeout",
                    self.server
                )
            };
            timeout_at(until, asked).await.map_err(|_| late())?
        })
    }

    /// The host that the server is on.
    pub(crate) fn host(&self) -> &str {
        self.server.host()
    }

    /// For how long an answer is waited for.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    /// Runs what asks in its own time, and bounds its waits itself.
    pub(crate) fn block_on<T>(&self, asking: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().expect("it is there until the drop");
        runtime.block_on(asking)
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
        let server = &self.server;
        let mut sender = server.connect().await.with_context(|| {
            format!("no gateway answers at {server}; is it running, and its admin server on?")
        })?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, server.authority())
            .body(Empty::<Bytes>::new())?;
        sender.send_request(request).await.with_context(|| {
            format!("{server} does not speak HTTP; is it the address of an admin server?")
        })
    }
}

/// What is at hand is told within this, or the gateway is stuck: 30 s.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// The names of a profile's functions are looked up at the lowest priority, a second's work that
/// takes a minute where requests need every core: 5 min.
const NAMING: Duration = Duration::from_mins(5);
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::Client;

    #[test]
    fn a_name_that_is_being_looked_up_is_not_waited_for() {
        let patience = Duration::from_secs(20);
        let client = Client::new("localhost:1", None).expect("an address");
        let (_never, answer) = mpsc::channel::<()>();
        // The resolver is asked in such a thread, and may wait for longer than we do.
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
    fn a_profile_is_waited_for_while_a_busy_gateway_looks_up_its_names() {
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
