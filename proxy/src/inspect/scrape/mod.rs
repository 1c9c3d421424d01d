//! The counters of all shards as metrics.
//!
//! Runs on a thread of the admin server. Label values come from the configuration and from closed
//! sets, so the number of series is bounded by the configuration. Counters of removed routes,
//! listeners and endpoints are skipped.

mod configuration;
mod connections;
mod health_checks;
mod names;
mod process;
mod requests;
mod table;
mod upstreams;

use std::sync::Arc;

use admin::UpstreamStats;
use admin::metrics::Exposition;
use admin_types::dump::Source;
use xds::model::Model;

use crate::config::Snapshot;
use crate::config::in_force::MissingKeys;
use crate::machine::driver::DriverReport;
use crate::machine::memory::MemoryUse;
use crate::observe::counters::ShardCounters;

use self::names::Names;

/// The inputs of a scrape.
pub struct Scrape<'a> {
    /// The configuration that names listeners, routes and backends.
    pub snapshot: &'a Snapshot,
    /// Counters of each shard.
    pub shards: &'a [Arc<ShardCounters>],
    /// I/O driver of each shard.
    pub drivers: &'a [Option<DriverReport>],
    /// State of endpoints and connection pools.
    pub live: &'a UpstreamStats,
    /// Model of the current configuration.
    pub model: &'a Model,
    /// Source of the configuration.
    pub source: &'a Source,
    /// Ids of the binds without a socket.
    pub binds_down: &'a [u32],
    /// The JWKS without current keys.
    pub missing_keys: &'a [MissingKeys],
    /// Number of objects in files whose previous version stays in effect.
    pub previous_versions: usize,
    /// Number of replaced configurations that requests still use.
    pub replaced: usize,
    /// Memory usage of the process.
    pub memory: &'a MemoryUse,
    /// Access log lines dropped.
    pub dropped_log_lines: u64,
}

impl Scrape<'_> {
    /// Writes all of them.
    pub fn write(&self, out: &mut Exposition) {
        let names = Names::of(self.snapshot);
        self.requests(&names, out);
        self.routes(&names, out);
        self.listeners(&names, out);
        self.connections(&names, out);
        self.upstreams(out);
        self.tokens(out);
        self.api_keys(out);
        self.passwords(out);
        self.authorizations(out);
        self.networks(out);
        self.hashes(out);
        self.responds(out);
        self.path_rewrites(out);
        self.error_pages(out);
        self.page_requests(out);
        self.rate_limits(out);
        self.picks(out);
        self.external_auth(out);
        self.refused(out);
        self.configuration(&names, out);
        self.process(out);
    }

    fn sum(&self, of: impl Fn(&ShardCounters) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(shard)).sum()
    }
}
