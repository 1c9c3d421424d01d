//! The counters of all shards as metrics.
//!
//! Runs on a thread of the admin server. Label values come from the configuration and from closed
//! sets, so the number of series grows with the configuration alone. What belongs to routes,
//! listeners or endpoints that are gone is passed over.

mod configuration;
mod connections;
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
use crate::machine::driver::DriverReport;
use crate::machine::memory::MemoryUse;
use crate::observe::counters::ShardCounters;

use self::names::Names;

/// All that metrics are made of.
pub struct Scrape<'a> {
    /// The configuration in force.
    pub snapshot: &'a Snapshot,
    /// What each shard counts.
    pub shards: &'a [Arc<ShardCounters>],
    /// What each shard runs on.
    pub drivers: &'a [Option<DriverReport>],
    /// How endpoints fare.
    pub live: &'a UpstreamStats,
    /// What the configuration says.
    pub model: &'a Model,
    /// Where it comes from.
    pub source: &'a Source,
    /// Ids of the binds that are not listened on.
    pub binds_down: &'a [u32],
    /// What the process uses of its memory.
    pub memory: &'a MemoryUse,
    /// Lines of the access log that were dropped.
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
        self.authorizations(out);
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
