//! Connections that are used once and then kept: what they cost while they wait.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::client::Exchange;
use super::{Aim, Outcome, RSS_PER_CONNECTION};
use crate::probe::{self, Channel};
use crate::procfs::Usage;
use crate::stats::{count, count64};

/// Opens the connections, waits until the proxy's memory has settled and divides.
pub(super) fn run(aim: Aim<'_>) -> Result<Outcome> {
    let start = Instant::now();
    let exchange = Exchange::of(aim.case);
    let before = Usage::of_tree(aim.proxy)?.rss;
    let mut kept = Vec::with_capacity(aim.case.load.connections);
    for number in 0..aim.case.load.connections {
        let channel = open(aim, &exchange).with_context(|| format!("connection {number}"))?;
        kept.push(channel);
    }
    // Proxies put an idle connection's buffers away after a moment, some by a timer.
    std::thread::sleep(SETTLE);
    let after = Usage::of_tree(aim.proxy)?.rss;
    let each = (count64(after) - count64(before)) / count(kept.len());
    // All must still be there, or the division was wrong.
    let every = (kept.len() / SAMPLES).max(1);
    let mut asked = 0;
    for channel in kept.iter_mut().step_by(every) {
        probe::exchange(channel, &exchange).context("an idle connection was closed")?;
        asked += 1;
    }
    let mut outcome = Outcome {
        requests: kept.len() as u64 + asked,
        seconds: start.elapsed().as_secs_f64(),
        ..Outcome::default()
    };
    outcome.extra.insert(RSS_PER_CONNECTION.to_owned(), each);
    Ok(outcome)
}

fn open(aim: Aim<'_>, exchange: &Exchange) -> Result<Channel> {
    let stream = TcpStream::connect(aim.address)?;
    let mut channel = Channel::open(stream, aim.certificate, false)?;
    probe::exchange(&mut channel, exchange)?;
    Ok(channel)
}

/// How many idle connections are used again to see that they live.
const SAMPLES: usize = 100;
const SETTLE: Duration = Duration::from_secs(3);
