//! The turns of a load, and their results.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::latency::Collector;

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

/// Key in [`LoadResult::extra`]: resident bytes of the proxy per idle connection.
pub(crate) const RSS_PER_CONNECTION: &str = "rss_per_connection";
