//! What a rule has counted: shared by all shards, and kept by changes of the configuration.
//!
//! Requests and snapshots hold [`RuleCounter`]s, which are small. The tables are in [`RuleState`]s, which only
//! the configuration owns: a tunnel that outlives a policy keeps none of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};

use super::headers::Balance;
use super::pace::Pace;
use super::table::{Exhausted, KeyHash, Place, Table, Taken};

/// A rule of a policy at a target, and what it has counted.
#[derive(Debug)]
pub struct RuleCounter {
    policy: Box<str>,
    name: Box<str>,
    counts: SharedCounts,
    /// `None` if the rule is not in force.
    state: ArcSwapOption<RuleState>,
}

/// The limit of a rule, and what keys have used of it.
#[derive(Debug)]
pub struct RuleState {
    /// `None` if all requests are refused.
    pace: Option<Pace>,
    keys: u32,
    table: Table,
}

/// What was found for a request that would be allowed, and the time then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked {
    found: Option<Place>,
    now: u64,
}

/// A state for the duration of one request's counting, during which nothing is awaited.
pub(super) type Reading = Guard<Option<Arc<RuleState>>>;

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

impl RuleCounter {
    /// A rule (`kind/namespace/name` of the policy, and the name of the rule) that is not in force yet.
    #[must_use]
    pub fn new((policy, name): (&str, &str), counts: SharedCounts) -> Self {
        Self {
            policy: policy.into(),
            name: name.into(),
            counts,
            state: ArcSwapOption::empty(),
        }
    }

    /// Puts the rule into force, with this pace and number of keys; without a pace, it refuses all requests.
    /// What keys owe is kept, but for what shards count while it is copied. Returns the former state if it was
    /// replaced.
    pub fn set(&self, pace: Option<Pace>, keys: u32, since: Duration) -> Option<Arc<RuleState>> {
        let state = self.state.load();
        let table = match state.as_deref() {
            Some(state) if (state.pace, state.keys) == (pace, keys) => return None,
            Some(state) => state.table_for(pace, keys, since),
            None => Table::new(keys),
        };
        self.state
            .swap(Some(Arc::new(RuleState { pace, keys, table })))
    }

    /// Ends the rule: requests of earlier snapshots pass uncounted. Returns the former state.
    pub fn end(&self) -> Option<Arc<RuleState>> {
        self.state.swap(None)
    }

    pub(super) fn state(&self) -> Reading {
        self.state.load()
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

    /// The number of keys that its table has room for: none if it is not in force.
    #[must_use]
    pub fn table_keys(&self) -> usize {
        self.state.load().as_deref().map_or(0, |it| it.table.keys())
    }

    pub(super) fn counts(&self, shard: usize) -> &RuleCounts {
        static UNKNOWN: LazyLock<RuleCounts> = LazyLock::new(RuleCounts::default);
        self.counts.get(shard).unwrap_or_else(|| &UNKNOWN)
    }
}

impl RuleState {
    /// The table for another pace or number of keys, with what keys owe.
    fn table_for(&self, pace: Option<Pace>, keys: u32, since: Duration) -> Table {
        match (&self.pace, &pace) {
            (Some(from), Some(to)) => {
                let (now, then) = (from.at(since), to.at(since));
                self.table.changed(keys, (from, now), (to, then))
            }
            _ => Table::new(keys),
        }
    }

    /// Looks whether a request would be allowed.
    pub(super) fn look(&self, key: KeyHash, since: Duration) -> Result<Looked, Exhausted> {
        let Some(pace) = &self.pace else {
            return Err(Exhausted { wait: 0 });
        };
        let now = pace.at(since);
        let found = self.table.find(key, (pace, now));
        let owed = found.map_or(0, Place::owed);
        match pace.step(owed) {
            Ok(_) => Ok(Looked { found, now }),
            Err(wait) => Err(Exhausted { wait }),
        }
    }

    /// Counts a request in the place that was found when it was looked for.
    pub(super) fn take(&self, key: KeyHash, looked: Looked) -> Result<Taken, Exhausted> {
        match &self.pace {
            Some(pace) => self.table.take((key, looked.found), pace, looked.now),
            None => Err(Exhausted { wait: 0 }),
        }
    }

    pub(super) fn give_back(&self, key: KeyHash, looked: Looked) {
        if let Some(pace) = &self.pace {
            self.table.give_back(key, pace, looked.now);
        }
    }

    /// The time until a request is allowed; `None` if none ever is.
    pub(super) fn time_until_allowed(&self, Exhausted { wait }: Exhausted) -> Option<Duration> {
        Some(self.pace.as_ref()?.time(wait))
    }

    /// What the rule of this name leaves to a key.
    pub(super) fn balance<'a>(
        &self,
        rule: &'a str,
        key: KeyHash,
        since: Duration,
    ) -> Option<Balance<'a>> {
        let pace = self.pace.as_ref()?;
        let debt = self.table.debt(key, pace, pace.at(since));
        Some(Balance {
            rule,
            limit: pace.remaining(0),
            window: pace.whole(),
            remaining: pace.remaining(debt),
            reset: pace.time(debt),
        })
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
