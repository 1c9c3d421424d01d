//! Load generators. Each sends what a case describes for a while, verifies what comes back and
//! returns an [`Outcome`]; a wrong answer is an error, never a number.

pub(crate) mod client;
mod grpc;
mod h2load;
mod handshake;
mod idle;
pub(crate) mod latency;
mod paced;
mod pacing;
mod wrk;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::scenario::{Case, Loader};
use crate::tls::Certificate;
pub(crate) use grpc::{call_once, fetch as fetch_h2c};
use latency::Latency;

/// Where the load goes, and what it consists of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim<'a> {
    /// The proxy.
    pub(crate) address: SocketAddr,
    /// Its process, for loads that watch its memory.
    pub(crate) proxy: u32,
    /// What to send.
    pub(crate) case: &'a Case,
    /// What the proxy shows, where it speaks TLS.
    pub(crate) certificate: Option<&'a Certificate>,
    /// For scripts and logs.
    pub(crate) folder: &'a Path,
}

/// What a load came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// Requests (or messages, or handshakes) that were answered rightly.
    pub(crate) requests: u64,
    /// How long it took.
    pub(crate) seconds: f64,
    /// How long answers took.
    pub(crate) latency: Option<Latency>,
    /// Requests whose connection broke before an answer; an error unless configuration changes.
    pub(crate) lost: u64,
    /// Requests the origin may have seen beyond those: cut off at the end.
    pub(crate) in_flight: u64,
    /// What only this load measures.
    pub(crate) extra: BTreeMap<String, f64>,
}

/// Loads `aim` for `duration`.
pub(crate) fn run(aim: Aim<'_>, duration: Duration) -> Result<Outcome> {
    match aim.case.load.with {
        Loader::Wrk => wrk::run(aim, duration),
        Loader::Paced => paced::run(aim, duration),
        Loader::H2load => h2load::run(aim, duration),
        Loader::Idle => idle::run(aim),
        Loader::Handshake => handshake::run(aim, duration),
        Loader::Grpc => grpc::run(aim, duration),
    }
}

/// The Debian package of a load generator that is not ours and not installed.
pub(crate) fn missing(loader: Loader) -> Option<&'static str> {
    let (program, hint) = match loader {
        Loader::Wrk => ("wrk", "wrk is not installed: apt-get install wrk"),
        Loader::H2load => (
            "h2load",
            "h2load is not installed: apt-get install nghttp2-client",
        ),
        Loader::Paced | Loader::Idle | Loader::Handshake | Loader::Grpc => return None,
    };
    crate::process::output(program, &["--version"])
        .err()
        .map(|_| hint)
}

/// Key in [`Outcome::extra`]: resident bytes of the proxy per idle connection.
pub(crate) const RSS_PER_CONNECTION: &str = "rss_per_connection";
