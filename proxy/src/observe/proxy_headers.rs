//! Why connections of a shard were closed over their PROXY protocol header.

use super::counters::Counter;

/// Connections closed over their PROXY protocol header.
#[derive(Debug, Default)]
pub struct ProxyHeaders([Counter; ProxyHeaderFailure::ALL.len()]);

/// Why a connection was closed over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeaderFailure {
    /// One is required, and does not come.
    Missing,
    /// It is none that could be read.
    Malformed,
    /// One is required, and this peer's is not believed.
    Untrusted,
    /// It took too long.
    Timeout,
    /// The connection ended within it.
    Broken,
}

impl ProxyHeaderFailure {
    /// Every cause.
    pub const ALL: [Self; 5] = [
        Self::Missing,
        Self::Malformed,
        Self::Untrusted,
        Self::Timeout,
        Self::Broken,
    ];

    /// Its name in metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Untrusted => "untrusted",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
        }
    }
}

impl ProxyHeaders {
    /// Counts a connection that was closed.
    pub fn count_failure(&self, why: ProxyHeaderFailure) {
        if let Some(counter) = self.0.get(why as usize) {
            counter.increment();
        }
    }

    /// The causes and how many were closed for each.
    pub fn iter(&self) -> impl Iterator<Item = (ProxyHeaderFailure, u64)> {
        ProxyHeaderFailure::ALL
            .iter()
            .copied()
            .zip(self.0.iter().map(Counter::value))
    }
}
