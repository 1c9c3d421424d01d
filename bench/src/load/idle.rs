//! Connections that are used once and then kept open: their cost while idle.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::client::LoadRequest;
use super::target::LoadTarget;
use super::turn::{Load, LoadResult, RSS_PER_CONNECTION, ResponseCount};
use crate::probe::{self, Channel};
use crate::procfs::Usage;
use crate::stats::{count, count64};
use crate::tls::Certificate;

/// Opens connections in its turn, and closes them at the end of it.
pub(super) struct Idle {
    address: SocketAddr,
    proxy: u32,
    certificate: Option<Certificate>,
    exchange: LoadRequest,
    connections: usize,
    requests: u64,
}

impl Idle {
    /// Nothing is open yet.
    pub(super) fn new(target: LoadTarget<'_>) -> Self {
        Self {
            address: target.address,
            proxy: target.proxy,
            certificate: target.certificate.cloned(),
            exchange: LoadRequest::of(target.case),
            connections: target.case.load.connections,
            requests: 0,
        }
    }

    fn open(&self) -> Result<Channel> {
        let stream = TcpStream::connect(self.address)?;
        let mut channel = Channel::open(stream, self.certificate.as_ref(), false)?;
        probe::exchange(&mut channel, &self.exchange)?;
        Ok(channel)
    }
}

impl Load for Idle {
    /// Opens the connections, waits until the proxy's memory has settled and divides; that takes
    /// the time it takes.
    fn turn(&mut self, _duration: Duration) -> Result<LoadResult> {
        let start = Instant::now();
        let before = Usage::of_tree(self.proxy)?.rss;
        let mut channels = Vec::with_capacity(self.connections);
        for number in 0..self.connections {
            let channel = self
                .open()
                .with_context(|| format!("connection {number}"))?;
            channels.push(channel);
        }
        std::thread::sleep(SETTLE);
        let after = Usage::of_tree(self.proxy)?.rss;
        let per_connection = (count64(after) - count64(before)) / count(channels.len());
        self.requests += channels.len() as u64;
        // All must still be there, or the division was wrong.
        let every = (channels.len() / SAMPLES).max(1);
        for channel in channels.iter_mut().step_by(every) {
            probe::exchange(channel, &self.exchange).context("an idle connection was closed")?;
            self.requests += 1;
        }
        Ok(LoadResult {
            seconds: start.elapsed().as_secs_f64(),
            extra: [(RSS_PER_CONNECTION.to_owned(), per_connection)].into(),
            ..LoadResult::default()
        })
    }

    fn end(&mut self) -> Result<ResponseCount> {
        Ok(ResponseCount {
            requests: self.requests,
            unanswered: 0,
        })
    }
}

/// How many idle connections are used again to see that they live.
const SAMPLES: usize = 100;
/// Proxies release an idle connection's buffers after a while, some by a timer: the gateway frees
/// what was unused for two checks, five seconds apart. Waiting longer than this is costly.
const SETTLE: Duration = Duration::from_secs(15);
