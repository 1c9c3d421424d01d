//! Clients that request one route continuously, each on its own thread, and their results.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hyper::StatusCode;

use super::http::Client;

/// Clients at the same time.
const CLIENTS: usize = 2;

/// Time between two requests of a client: 1 000 per second in all, a low load for the machine.
const PERIOD: Duration = Duration::from_millis(2);

/// Requests on a connection before a client opens another, so that both kinds occur.
const REQUESTS: u64 = 500;

pub(crate) struct Traffic {
    stopping: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Result<Counts>>>,
}

/// The results of the requests.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Requests answered with status 200.
    pub(crate) answered: u64,
    /// Other statuses, and failures.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Responses by their body, which is the address of the endpoint, since the clients started.
    pub(crate) last_seen: BTreeMap<String, Instant>,
}

impl Traffic {
    pub(crate) fn start(address: SocketAddr, host: &str) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let (stopping, host) = (Arc::clone(&stopping), host.to_owned());
            thread::spawn(move || ask(address, &host, &stopping))
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { stopping, clients }
    }

    /// Lets each client finish its request.
    pub(crate) fn stop(self) -> Result<Counts> {
        self.stopping.store(true, Ordering::Relaxed);
        let mut sum = Counts::default();
        for client in self.clients {
            let counts = client.join().map_err(|_| anyhow!("a client panicked"))??;
            sum.answered += counts.answered;
            for (error, times) in counts.errors {
                *sum.errors.entry(error).or_insert(0) += times;
            }
            for (endpoint, at) in counts.last_seen {
                let last = sum.last_seen.entry(endpoint).or_insert(at);
                *last = at.max(*last);
            }
        }
        Ok(sum)
    }
}

fn ask(address: SocketAddr, host: &str, stopping: &AtomicBool) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut client = Client::new(address, None)?;
    let mut due = Instant::now();
    for number in 1_u64.. {
        if stopping.load(Ordering::Relaxed) {
            break;
        }
        match client.get(host, "/") {
            Ok(answer) if answer.status == StatusCode::OK => {
                counts.answered += 1;
                let endpoint = String::from_utf8_lossy(&answer.body).into_owned();
                counts.last_seen.insert(endpoint, Instant::now());
            }
            Ok(answer) => {
                let status = answer.status.as_u16().to_string();
                *counts.errors.entry(status).or_insert(0) += 1;
            }
            Err(error) => *counts.errors.entry(format!("{error:#}")).or_insert(0) += 1,
        }
        if number % REQUESTS == 0 {
            client = Client::new(address, None)?;
        }
        due += PERIOD;
        match due.checked_duration_since(Instant::now()) {
            Some(rest) => thread::sleep(rest),
            None => due = Instant::now(),
        }
    }
    Ok(counts)
}
