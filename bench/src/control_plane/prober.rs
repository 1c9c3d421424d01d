//! Sends a request every millisecond until a route serves, on a separate thread, so that other work
//! of the bench does not delay it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hyper::StatusCode;
use tokio::task::{JoinHandle, spawn_blocking};

use super::http::{Client, Tls};

/// Time between the starts of two requests.
const PERIOD: Duration = Duration::from_millis(1);

/// How long a route may take to serve.
const TIMEOUT: Duration = Duration::from_mins(10);

/// A probing client and its connection.
pub(crate) struct Prober {
    client: Client,
}

/// Result of a probe.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The time of the first 200.
    pub(crate) served: Instant,
    /// Responses other than 404 and 200 by status, and failures.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The longest delay of a request, caused by other work on the processors.
    pub(crate) late: Duration,
}

/// Probes in progress.
pub(crate) struct PendingProbe(JoinHandle<(Client, Result<Outcome>)>);

impl Prober {
    pub(crate) fn new(address: SocketAddr, tls: Option<Tls>) -> Result<Self> {
        let client = Client::new(address, tls)?;
        Ok(Self { client })
    }

    pub(crate) fn ask(self, host: String, path: String) -> PendingProbe {
        let mut client = self.client;
        PendingProbe(spawn_blocking(move || {
            let outcome = until_served(&mut client, &host, &path);
            (client, outcome)
        }))
    }

    /// Sends requests until the route serves.
    pub(crate) async fn until_served(self, host: &str, path: &str) -> Result<(Self, Outcome)> {
        self.ask(host.to_owned(), path.to_owned()).end().await
    }
}

impl PendingProbe {
    /// Waits for the end.
    pub(crate) async fn end(self) -> Result<(Prober, Outcome)> {
        let (client, outcome) = self.0.await.context("the prober panicked")?;
        Ok((Prober { client }, outcome?))
    }
}

fn until_served(client: &mut Client, host: &str, path: &str) -> Result<Outcome> {
    let started = Instant::now();
    let mut due = started;
    let mut late = Duration::ZERO;
    let mut errors = BTreeMap::new();
    loop {
        let error = match client.get(host, path) {
            Ok(answer) if answer.status == StatusCode::OK => {
                let served = Instant::now();
                return Ok(Outcome {
                    served,
                    errors,
                    late,
                });
            }
            Ok(answer) if answer.status == StatusCode::NOT_FOUND => None,
            Ok(answer) => Some(answer.status.as_u16().to_string()),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(error) = error {
            *errors.entry(error).or_insert(0) += 1;
        }
        if started.elapsed() > TIMEOUT {
            bail!("{host}{path} does not serve; the last responses were {errors:?} or 404");
        }
        due += PERIOD;
        match due.checked_duration_since(Instant::now()) {
            Some(rest) => {
                thread::sleep(rest);
                late = late.max(due.elapsed());
            }
            // The response took longer than that.
            None => due = Instant::now(),
        }
    }
}
