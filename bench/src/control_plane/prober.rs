//! Sends requests at short intervals until a route serves, on a separate thread, so that other work
//! of the bench does not delay them.

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

/// The same where seconds are measured, so that the requests take no processor from what is measured.
pub(crate) const LONG_PERIOD: Duration = Duration::from_millis(10);

/// How long a route may take to serve.
const TIMEOUT: Duration = Duration::from_mins(10);

/// A probing client and its connection.
pub(crate) struct Prober {
    client: Client,
    period: Duration,
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
pub(crate) struct PendingProbe(JoinHandle<(Prober, Result<Outcome>)>);

impl Prober {
    pub(crate) fn new(address: SocketAddr, tls: Option<Tls>) -> Result<Self> {
        let client = Client::new(address, tls)?;
        Ok(Self {
            client,
            period: PERIOD,
        })
    }

    /// Sets the time between the starts of two requests.
    pub(crate) fn with_period(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    pub(crate) fn ask(mut self, host: String, path: String) -> PendingProbe {
        PendingProbe(spawn_blocking(move || {
            let outcome = until_served(&mut self, &host, &path);
            (self, outcome)
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
        let (prober, outcome) = self.0.await.context("the prober panicked")?;
        Ok((prober, outcome?))
    }
}

fn until_served(prober: &mut Prober, host: &str, path: &str) -> Result<Outcome> {
    let started = Instant::now();
    let mut due = started;
    let mut late = Duration::ZERO;
    let mut errors = BTreeMap::new();
    loop {
        let error = match prober.client.get(host, path) {
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
        due += prober.period;
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
