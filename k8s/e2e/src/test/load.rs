//! Clients that send one request after the other, as fast as they are answered or at a fixed rate, until they are
//! stopped, and count the results.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hyper::StatusCode;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::http::Connection;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests on a connection before the client opens another, so that both new and reused
/// connections are tested.
const REQUESTS: usize = 100;

/// A number of running clients.
pub(super) struct Load {
    clients: JoinSet<()>,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    answered: Cell<usize>,
    failed: RefCell<Vec<String>>,
    stopping: Cell<bool>,
}

/// The results of the requests.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) answered: usize,
    pub(super) failed: Vec<String>,
}

impl Load {
    /// Must be called within a `LocalSet`.
    pub(super) fn start(address: SocketAddr, clients: usize) -> Self {
        Self::paced(address, clients, Duration::ZERO)
    }

    /// The same, but each client begins a request once in each interval at most: clients that send as fast as they
    /// are answered take all processors, and leave little to measure.
    pub(super) fn paced(address: SocketAddr, clients: usize, each: Duration) -> Self {
        let state = Rc::new(State::default());
        let mut set = JoinSet::new();
        for _ in 0..clients {
            set.spawn_local(run_client(address, each, Rc::clone(&state)));
        }
        Self {
            clients: set,
            state,
        }
    }

    /// Waits for this many more responses.
    pub(super) async fn until_answers(&self, more: usize) -> Result<()> {
        let wanted = self.state.answered.get() + more;
        let started = Instant::now();
        while self.state.answered.get() < wanted {
            if started.elapsed() > TIMEOUT {
                bail!("too few answers: {:?}", self.state.failed.borrow());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Lets each client finish its request.
    pub(super) async fn stop(mut self) -> Counts {
        self.state.stopping.set(true);
        while self.clients.join_next().await.is_some() {}
        Counts {
            answered: self.state.answered.get(),
            failed: self.state.failed.take(),
        }
    }
}

async fn run_client(address: SocketAddr, each: Duration, state: Rc<State>) {
    while !state.stopping.get() {
        let Err(error) = send_on_one_connection(address, each, &state).await else {
            continue;
        };
        let error = format!("{error:#}");
        state.failed.borrow_mut().push(error);
        // Limits the rate of failures.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn send_on_one_connection(address: SocketAddr, each: Duration, state: &State) -> Result<()> {
    let connecting = async {
        let stream = TcpStream::connect(address)
            .await
            .context("cannot connect")?;
        Connection::over(Box::new(stream)).await
    };
    let mut connection = in_time(connecting).await?;
    for _ in 0..REQUESTS {
        let next = Instant::now() + each;
        let answer = in_time(connection.get("shop.example.com", "/")).await?;
        ensure!(
            answer.status == StatusCode::OK,
            "{} {}",
            answer.status,
            answer.body.trim()
        );
        state.answered.set(state.answered.get() + 1);
        if answer.closes() || state.stopping.get() {
            break;
        }
        tokio::time::sleep_until(next.into()).await;
    }
    Ok(())
}

/// Of a step of a client.
async fn in_time<T>(step: impl Future<Output = Result<T>>) -> Result<T> {
    let outcome = tokio::time::timeout(TIMEOUT, step).await;
    outcome.context("no answer in time")?
}
