//! Load generators. Each sends a case's requests in turns and verifies the responses; a wrong
//! response is an error, never a number.

pub(crate) mod client;
mod external;
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
use latency::Collector;

/// Target and content of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadTarget<'a> {
    pub(crate) address: SocketAddr,
    /// Its process, for loads that watch its memory.
    pub(crate) proxy: u32,
    pub(crate) case: &'a Case,
    /// Certificate of the proxy, if it uses TLS.
    pub(crate) certificate: Option<&'a Certificate>,
    /// For scripts and logs.
    pub(crate) folder: &'a Path,
    /// Bytes of a right answer: in HTTP/1 with its head.
    pub(crate) answer_size: usize,
}

/// A load on one proxy. It takes turns with the loads on others and keeps its connections.
pub(crate) trait Load {
    /// Loads for `duration`. It sends nothing more once it returns.
    fn turn(&mut self, duration: Duration) -> Result<LoadResult>;

    /// Ends it: what its clients got in all turns, as far verified as only it can.
    fn end(&mut self) -> Result<ResponseCount>;
}

/// Result of one turn of a load. The number of requests is counted by the origin.
#[derive(Debug, Default)]
pub(crate) struct LoadResult {
    /// How long it took.
    pub(crate) seconds: f64,
    /// Latencies of responses. None from a load that is suspended from outside, since its clock
    /// continues.
    pub(crate) latency: Option<Collector>,
    /// Requests whose connection failed before a response; an error unless the configuration
    /// changes.
    pub(crate) lost: u64,
    /// What only this load measures.
    pub(crate) extra: BTreeMap<String, f64>,
}

/// Responses counted by the clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ResponseCount {
    /// Requests (or messages, or handshakes) answered correctly.
    pub(crate) requests: u64,
    /// Further requests that the origin may have seen: lost, or cut off at the end.
    pub(crate) unanswered: u64,
}

/// Starts the load on `aim`. It waits for its first turn.
pub(crate) fn start(aim: LoadTarget<'_>) -> Result<Box<dyn Load>> {
    Ok(match aim.case.load.with {
        Loader::Wrk => Box::new(wrk::Wrk::start(aim)?),
        Loader::Paced => Box::new(paced::Paced::connect(aim)?),
        Loader::H2load => Box::new(h2load::H2load::start(aim)?),
        Loader::Idle => Box::new(idle::Idle::new(aim)),
        Loader::Handshake => Box::new(handshake::Handshakes::new(aim)?),
        Loader::Grpc => Box::new(grpc::Calls::connect(aim)?),
    })
}

/// The Debian package of an external load generator that is not installed.
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

/// Key in [`LoadResult::extra`]: resident bytes of the proxy per idle connection.
pub(crate) const RSS_PER_CONNECTION: &str = "rss_per_connection";
