//! One TLS handshake for each request, from a few threads: full, or resumed by ticket.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustls::{ClientConfig, HandshakeKind};

use super::client::Exchange;
use super::latency::{Basis, Collector};
use super::{Aim, Outcome};
use crate::probe::{self, Channel};

/// Runs the threads, which inherit the cores of the calling one.
pub(super) fn run(aim: Aim<'_>, duration: Duration) -> Result<Outcome> {
    let certificate = aim.certificate.context("handshakes need a certificate")?;
    let start = Instant::now();
    let (mut requests, mut collector) = (0, Collector::new(Basis::ClosedLoop));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..aim.case.load.connections)
            .map(|_| {
                // Tickets are a client's own.
                let config = certificate.client(aim.case.load.resume);
                scope.spawn(move || client(aim, &config?, start + duration))
            })
            .collect();
        for thread in threads {
            let (count, latencies) = thread
                .join()
                .map_err(|_| anyhow!("a client thread panicked"))??;
            requests += count;
            collector.add(&latencies);
        }
        anyhow::Ok(())
    })?;
    ensure!(requests > 0, "not one handshake was done");
    let seconds = start.elapsed().as_secs_f64();
    Ok(Outcome {
        requests,
        seconds,
        latency: collector.latency(),
        ..Outcome::default()
    })
}

fn client(aim: Aim<'_>, config: &Arc<ClientConfig>, end: Instant) -> Result<(u64, Collector)> {
    let exchange = Exchange::of(aim.case);
    let mut collector = Collector::new(Basis::ClosedLoop);
    let mut count = 0;
    while Instant::now() < end {
        let begun = Instant::now();
        let stream = TcpStream::connect(aim.address)?;
        let mut channel = Channel::tls(stream, Arc::clone(config))?;
        probe::exchange(&mut channel, &exchange)?;
        let kind = channel.handshake().context("no handshake was done")?;
        // The first connection of a client has no ticket yet.
        let resumed = kind == HandshakeKind::Resumed;
        let wanted = aim.case.load.resume && count > 0;
        ensure!(
            resumed == wanted,
            "a handshake was {kind:?}, resumed was {wanted}"
        );
        collector.record(begun.elapsed());
        count += 1;
    }
    Ok((count, collector))
}
