//! The origin behind the proxies: how it is started, and how its request counts are read.

pub(crate) mod http1;
pub(crate) mod http2;
mod response;
pub(crate) mod server;
pub(crate) mod websocket;

mod nginx;

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::load::grpc::fetch as fetch_h2c;
use crate::process::ChildProcess;
use crate::scenario::{Case, ClientProtocol, Upstream};
use crate::{net, probe};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Our own, on glommio over io_uring.
    Glommio,
    /// nginx, where io_uring is refused or to check the first.
    Nginx,
}

impl Kind {
    /// Why it cannot answer this case, if so.
    pub(crate) fn unable(self, case: &Case) -> Option<&'static str> {
        let ours_alone = case.load.echo || case.front == ClientProtocol::WebSocket;
        (self == Self::Nginx && ours_alone && case.upstream == Upstream::Http1)
            .then_some("nginx as an origin does not echo: use --origin glommio")
    }

    /// Its name in a report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Glommio => "glommio",
            Self::Nginx => "nginx",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Origin {
    running: ChildProcess,
    address: SocketAddr,
    kind: Kind,
    upstream: Upstream,
    /// Questions for its counts so far, which nginx counts too.
    stats_requests: Cell<u64>,
}

impl Origin {
    /// Starts one on `cores` and waits until it answers.
    pub(crate) fn start(kind: Kind, case: &Case, cores: &[usize], folder: &Path) -> Result<Self> {
        let address = net::free_address()?;
        let command = match kind {
            Kind::Nginx if case.upstream == Upstream::Http1 => {
                nginx::command(address, case.load.bytes, folder)?
            }
            Kind::Nginx | Kind::Glommio => own(address, case.upstream)?,
        };
        let running = ChildProcess::start(command, cores, folder, "origin")?;
        let upstream = case.upstream;
        let mut origin = Self {
            running,
            address,
            kind,
            upstream,
            stats_requests: Cell::new(0),
        };
        let deadline = Instant::now() + TIMEOUT;
        while let Err(error) = origin.counted() {
            origin
                .running
                .check_alive()
                .context("the origin does not start")?;
            ensure!(
                Instant::now() < deadline,
                "the origin does not respond: {error:#}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(origin)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of requests it has answered, without those to `/stats`.
    pub(crate) fn counted(&self) -> Result<u64> {
        #[derive(Deserialize)]
        struct Stats {
            requests: u64,
        }
        let text = match (self.upstream, self.kind) {
            (Upstream::H2c, _) => String::from_utf8(fetch_h2c(self.address, "/stats", None)?)?,
            (Upstream::Http1, Kind::Glommio) => probe::get(self.address, "/stats")?,
            (Upstream::Http1, Kind::Nginx) => {
                let counted = nginx::counted(&probe::get(self.address, "/stats")?)?;
                return Ok(counted
                    .saturating_sub(self.stats_requests.replace(self.stats_requests.get() + 1)));
            }
        };
        Ok(serde_json::from_str::<Stats>(&text)?.requests)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// An error if it is no longer there.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        self.running.check_alive().context("the origin is gone")
    }
}

/// This very binary, as `bench origin`.
fn own(listen: SocketAddr, upstream: Upstream) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["origin", "--listen", &listen.to_string()]);
    if upstream == Upstream::H2c {
        command.args(["--protocol", "http2"]);
    }
    Ok(command)
}

const TIMEOUT: Duration = Duration::from_secs(10);
