//! What a rule has counted: shared by all shards, and kept by changes of the configuration.

use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::table::Table;

/// The state of a rule of a policy at a target.
#[derive(Debug)]
pub struct RuleState {
    policy: Box<str>,
    name: Box<str>,
    /// `None` if all requests are refused.
    pub(super) pace: Option<Pace>,
    keys: u32,
    pub(super) table: Table,
    pub(super) seed: RandomState,
    counts: Arc<[RuleCounts]>,
}

/// What shards have counted by a rule, at all targets of its policy.
pub type SharedCounts = Arc<[RuleCounts]>;

/// Counts of this many shards.
#[must_use]
pub fn no_counts(shards: usize) -> SharedCounts {
    (0..shards).map(|_| RuleCounts::default()).collect()
}

/// What a shard has counted by a rule. Only the shard writes to it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct RuleCounts {
    allowed: AtomicU64,
    limited: AtomicU64,
    would_limit: AtomicU64,
    replaced: AtomicU64,
}

impl RuleState {
    /// The state of a rule (`kind/namespace/name` of the policy, and the name of the rule) that nothing was
    /// counted by. Without a `pace`, it refuses all requests.
    #[must_use]
    pub fn new(
        (policy, name): (&str, &str),
        pace: Option<Pace>,
        keys: u32,
        counts: SharedCounts,
    ) -> Self {
        Self {
            policy: policy.into(),
            name: name.into(),
            pace,
            keys,
            table: Table::new(keys),
            seed: RandomState::new(),
            counts,
        }
    }

    /// The state for another pace or number of keys: the same if neither has changed. What keys owe is kept,
    /// but for what shards count with the former state from now on.
    #[must_use]
    pub fn changed(self: &Arc<Self>, pace: Option<Pace>, keys: u32, since: Duration) -> Arc<Self> {
        if (self.pace, self.keys) == (pace, keys) {
            return Arc::clone(self);
        }
        let table = match (&self.pace, &pace) {
            (Some(from), Some(to)) => {
                let (now, then) = (from.at(since), to.at(since));
                self.table.changed(keys, (from, now), (to, then))
            }
            _ => Table::new(keys),
        };
        Arc::new(Self {
            policy: self.policy.clone(),
            name: self.name.clone(),
            pace,
            keys,
            table,
            seed: self.seed.clone(),
            counts: Arc::clone(&self.counts),
        })
    }

    /// `kind/namespace/name` of the policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Name of the rule.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its counts, which states of other targets of the policy share.
    #[must_use]
    pub fn shared_counts(&self) -> &SharedCounts {
        &self.counts
    }

    /// What all shards have counted, by result.
    #[must_use]
    pub fn results(&self) -> [(&'static str, u64); 4] {
        let sum = |of: fn(&RuleCounts) -> &AtomicU64| {
            let counts = self.counts.iter();
            let counts = counts.map(|counts| of(counts).load(Ordering::Relaxed));
            counts.fold(0, u64::wrapping_add)
        };
        [
            ("allowed", sum(|it| &it.allowed)),
            ("limited", sum(|it| &it.limited)),
            ("would_limit", sum(|it| &it.would_limit)),
            ("replaced", sum(|it| &it.replaced)),
        ]
    }

    pub(super) fn counts(&self, shard: usize) -> &RuleCounts {
        static UNKNOWN: LazyLock<RuleCounts> = LazyLock::new(RuleCounts::default);
        self.counts.get(shard).unwrap_or(&UNKNOWN)
    }
}

impl RuleCounts {
    pub(super) fn count_allowed(&self, replaced: bool) {
        increment(&self.allowed);
        if replaced {
            increment(&self.replaced);
        }
    }

    pub(super) fn count_limited(&self) {
        increment(&self.limited);
    }

    pub(super) fn count_would_limit(&self) {
        increment(&self.would_limit);
    }
}

/// A counter has one writer.
fn increment(counter: &AtomicU64) {
    let count = counter.load(Ordering::Relaxed).wrapping_add(1);
    counter.store(count, Ordering::Relaxed);
}

/// The time that rules count in: since the first call in this process. No change of the system's clock
/// affects it.
#[must_use]
pub fn since_start(now: Instant) -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    now.saturating_duration_since(*START)
}
