//! What every configuration of a process is compiled with.

use std::num::NonZeroU32;

use xds::model::{self, LogFormat};

use crate::config::Place;

/// Options that apply to every configuration of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileOptions {
    /// Shards, which limits are divided by.
    pub shards: NonZeroU32,
    /// The access log without a policy.
    pub access_log: model::AccessLog,
    /// Where this proxy runs.
    pub place: Place,
}

impl CompileOptions {
    /// Options for this many shards, whose default access log is text for every request.
    #[must_use]
    pub fn new(shards: NonZeroU32) -> Self {
        Self {
            shards,
            access_log: model::AccessLog {
                off: false,
                format: LogFormat::Text,
                sample_per_million: 1_000_000,
                filter: model::AccessLogFilter::default(),
            },
            place: Place::default(),
        }
    }
}
