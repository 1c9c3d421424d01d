//! One TLS handshake for each request, from a few threads: full, or resumed by ticket.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustls::{ClientConfig, HandshakeKind};

use super::client::LoadRequest;
use super::latency::{Collector, LatencyBasis};
use super::target::LoadTarget;
use super::turn::{Load, LoadResult, ResponseCount};
use crate::probe::{self, Channel};

/// The clients, which keep their tickets from turn to turn.
pub(super) struct Handshakes {
    clients: Vec<Client>,
}

impl Handshakes {
    /// Clients that have not connected yet.
    pub(super) fn new(target: LoadTarget<'_>) -> Result<Self> {
        let certificate = target
            .certificate
            .context("handshakes need a certificate")?;
        let client = |_| {
            Ok(Client {
                address: target.address,
                exchange: LoadRequest::of(target.case),
                resume: target.case.load.resume,
                config: certificate.client(target.case.load.resume)?,
                done: 0,
            })
        };
        let clients = (0..target.case.load.connections).map(client);
        Ok(Self {
            clients: clients.collect::<Result<_>>()?,
        })
    }

    fn done(&self) -> u64 {
        self.clients.iter().map(|client| client.done).sum()
    }
}

impl Load for Handshakes {
    /// In threads, which inherit the cores of the calling one.
    fn turn(&mut self, duration: Duration) -> Result<LoadResult> {
        let start = Instant::now();
        let before = self.done();
        let mut latency = Collector::new(LatencyBasis::ClosedLoop);
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .clients
                .iter_mut()
                .map(|client| scope.spawn(move || client.run(start + duration)))
                .collect();
            for thread in threads {
                let latencies = thread
                    .join()
                    .map_err(|_| anyhow!("a client thread panicked"))??;
                latency.add(&latencies);
            }
            anyhow::Ok(())
        })?;
        ensure!(self.done() > before, "no handshake completed");
        Ok(LoadResult {
            seconds: start.elapsed().as_secs_f64(),
            latency: Some(latency),
            ..LoadResult::default()
        })
    }

    fn end(&mut self) -> Result<ResponseCount> {
        Ok(ResponseCount {
            requests: self.done(),
            unanswered: 0,
        })
    }
}

struct Client {
    address: SocketAddr,
    exchange: LoadRequest,
    resume: bool,
    /// Holds its tickets, which are its own.
    config: Arc<ClientConfig>,
    done: u64,
}

impl Client {
    fn run(&mut self, end: Instant) -> Result<Collector> {
        let mut collector = Collector::new(LatencyBasis::ClosedLoop);
        while Instant::now() < end {
            let started = Instant::now();
            let stream = TcpStream::connect(self.address)?;
            let mut channel = Channel::tls(stream, Arc::clone(&self.config))?;
            probe::exchange(&mut channel, &self.exchange)?;
            let kind = channel.handshake().context("no handshake completed")?;
            // The first connection of a client has no ticket yet.
            let resumed = kind == HandshakeKind::Resumed;
            let wanted = self.resume && self.done > 0;
            ensure!(
                resumed == wanted,
                "expected resumed to be {wanted}, but a handshake was {kind:?}"
            );
            collector.record(started.elapsed());
            self.done += 1;
        }
        Ok(collector)
    }
}
