//! The remote key sets of the configuration, their state, and when each is fetched next.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::digest;
use tracing::{info, warn};
use xds::model::JwksLocation;
use xds::secret;

use super::fetch::{FetchError, Fetched};
use crate::config::compile::RemoteKeys;
use crate::config::in_force::MissingKeys;
use crate::fair_places::FairPlaces;
use crate::limits::{
    JWKS_FETCHES, JWKS_REFRESH, JWKS_RETRY, JWKS_RETRY_MAX, JWKS_TTL, JWKS_TTL_MAX, JWKS_TTL_MIN,
};
use crate::policy::jwt::{KeySet, Provenance};

/// The key sets of a configuration.
#[derive(Debug)]
pub(super) struct KeySets {
    sets: Vec<Set>,
    next: u64,
    /// The fetches that may be in progress, which namespaces share.
    places: FairPlaces<Arc<str>>,
    /// The namespaces whose places the fetches in progress take. Those of a set that the
    /// configuration no longer has are among them.
    in_progress: HashMap<SetId, Arc<str>>,
}

/// Names a key set while it is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SetId(u64);

#[derive(Debug)]
struct Set {
    id: SetId,
    remote: RemoteKeys,
    state: State,
    /// Since the last answer.
    failures: u32,
    /// When the last fetch that succeeded ended; before the first, when the configuration began to
    /// use it.
    since: Instant,
    /// Why the last fetch failed.
    error: Option<String>,
    /// Whether a shard requested the fetch in progress.
    was_requested: bool,
    /// Requests of shards are ignored before this time.
    refetch_not_before: Instant,
    /// The keys in force, and the hash of their text, by which an unchanged text is recognised.
    keys: Option<(digest::Digest, Arc<KeySet>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be fetched at this time.
    Due(Instant),
    InProgress,
}

impl Default for KeySets {
    fn default() -> Self {
        Self {
            sets: Vec::new(),
            next: 0,
            places: FairPlaces::new(JWKS_FETCHES),
            in_progress: HashMap::new(),
        }
    }
}

impl KeySets {
    /// Takes the key sets of a configuration. New ones are due at once; others are forgotten.
    pub(super) fn set_desired(&mut self, remote: &[RemoteKeys], now: Instant) {
        let id = |remote: &RemoteKeys| remote.source.id();
        let wanted: HashMap<_, _> = remote.iter().map(|it| (id(it), it)).collect();
        self.sets
            .retain(|set| wanted.contains_key(&id(&set.remote)));
        let mut known = HashSet::new();
        for set in &mut self.sets {
            let remote = wanted[&id(&set.remote)];
            set.remote.owners.clone_from(&remote.owners);
            known.insert(id(remote));
        }
        for remote in remote {
            if !known.insert(id(remote)) {
                continue;
            }
            self.next += 1;
            self.sets.push(Set {
                id: SetId(self.next),
                remote: remote.clone(),
                state: State::Due(now),
                failures: 0,
                since: now,
                error: None,
                was_requested: false,
                refetch_not_before: now,
                keys: None,
            });
        }
    }

    /// Takes the key sets that are to be fetched now, as many as there are places for: those last whose
    /// last fetch failed, and of the others those first that have been due longest.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(SetId, JwksLocation)> {
        let due = |set: &mut Set| set.due().filter(|at| *at <= now);
        let sets = self.sets.iter_mut();
        let mut waiting: Vec<_> = sets.filter_map(|set| Some((due(set)?, set))).collect();
        waiting.sort_unstable_by_key(|(at, set)| (set.failures > 0, *at, set.id.0));
        let mut taken = Vec::new();
        for (_, set) in waiting {
            if let Some(owner) = self.places.take(&set.remote.owners) {
                self.in_progress.insert(set.id, owner);
                taken.push((set.id, set.begin_fetch()));
            }
        }
        taken
    }

    /// When the next one is to be fetched that there is a place for.
    #[must_use]
    pub(super) fn next_due(&self) -> Option<Instant> {
        let sets = self.sets.iter();
        let possible = sets.filter(|set| self.places.eligible(&set.remote.owners).is_some());
        possible.filter_map(Set::due).min()
    }

    /// Takes the result of a fetch and publishes the keys to the shards. After a failure they keep
    /// their keys. `unix_time` is in seconds.
    pub(super) fn take(
        &mut self,
        id: SetId,
        result: Result<Fetched, FetchError>,
        now: Instant,
        unix_time: i64,
    ) {
        if let Some(owner) = self.in_progress.remove(&id) {
            self.places.release(&owner);
        }
        // The configuration may no longer use the key set.
        let Some(set) = self.sets.iter_mut().find(|set| set.id == id) else {
            return;
        };
        match result {
            Ok(fetched) => set.take(&fetched, now, unix_time),
            Err(error) => set.fail(&error, now, unix_time),
        }
    }

    /// Whether the first fetch of every set has ended.
    #[must_use]
    pub(super) fn settled(&self) -> bool {
        let mut sets = self.sets.iter();
        sets.all(|set| set.keys.is_some() || set.failures > 0)
    }

    /// The key sets whose current keys are not known.
    pub(super) fn missing(&self) -> Vec<MissingKeys> {
        let sets = self.sets.iter();
        let missing = sets.filter(|set| set.keys.is_none() || set.failures > 0);
        let missing = missing.map(|set| MissingKeys {
            location: set.remote.location.clone(),
            from: place(&set.remote.location),
            since: set.since,
            failures: set.failures,
            was_fetched: set.keys.is_some(),
            error: set.error.clone(),
        });
        missing.collect()
    }
}

impl Set {
    /// When to fetch: on schedule, or when a shard requests it. After a failure the retry schedule
    /// applies, whatever shards request.
    fn due(&self) -> Option<Instant> {
        let State::Due(at) = self.state else {
            return None;
        };
        let requested = self.failures == 0 && self.remote.source.is_requested();
        Some(if requested {
            at.min(self.refetch_not_before)
        } else {
            at
        })
    }

    fn begin_fetch(&mut self) -> JwksLocation {
        self.was_requested = self.remote.source.is_requested();
        self.remote.source.begin_fetch();
        self.state = State::InProgress;
        self.remote.location.clone()
    }

    fn take(&mut self, fetched: &Fetched, now: Instant, unix_time: i64) {
        let hash = digest::digest(&digest::SHA256, &fetched.body);
        let known = self.keys.as_ref();
        let known = known.filter(|(known, _)| known.as_ref() == hash.as_ref());
        let keys = match known {
            Some((_, keys)) => Arc::clone(keys),
            None => match KeySet::parse(&fetched.body, Provenance::Fetched) {
                Ok(keys) => Arc::new(keys),
                Err(error) => return self.fail(&error, now, unix_time),
            },
        };
        if known.is_none() || self.failures > 0 {
            let (number, unusable) = (keys.len(), keys.unusable());
            let from = place(&self.remote.location);
            info!(from, keys = number, unusable, "JWKS fetched");
        }
        let keys_max_age = i64::try_from(JWKS_TTL_MAX.as_secs()).unwrap_or(i64::MAX);
        let good_until = unix_time.saturating_add(keys_max_age);
        self.remote.source.publish(Arc::clone(&keys), good_until);
        let is_new = known.is_none();
        self.keys = Some((hash, keys));
        self.failures = 0;
        self.error = None;
        self.since = now;
        let ttl = self.remote.cache.or(fetched.max_age).unwrap_or(JWKS_TTL);
        self.state = State::Due(now + ttl.clamp(JWKS_TTL_MIN, JWKS_TTL_MAX));
        if is_new {
            // A shard that still misses a key requests another fetch.
            self.remote.source.take_requested();
        }
        if std::mem::take(&mut self.was_requested) {
            self.refetch_not_before = now + JWKS_REFRESH;
        }
        let wait = self.refetch_not_before.saturating_duration_since(now);
        self.end_fetch(false, wait, unix_time);
    }

    fn fail(&mut self, error: &dyn std::error::Error, now: Instant, unix_time: i64) {
        if self.failures == 0 {
            let advice = if self.keys.is_some() {
                "cannot fetch keys; the known keys stay in use for a day, and it is \
                 tried again"
            } else {
                "cannot fetch keys, so that tokens cannot be verified and requests get 503; \
                 check that the address answers GET with a JWKS. It is tried again"
            };
            let from = place(&self.remote.location);
            warn!(from, %error, "{advice}");
        }
        self.error = Some(error.to_string());
        let doubled = JWKS_RETRY.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        let wait = doubled.min(JWKS_RETRY_MAX);
        self.state = State::Due(now + wait);
        self.end_fetch(true, wait, unix_time);
    }

    fn end_fetch(&self, failed: bool, wait: Duration, unix_time: i64) {
        let whole_seconds = wait.as_secs().saturating_add(1).cast_signed();
        let refetch_after = unix_time.saturating_add(whole_seconds);
        self.remote.source.end_fetch(failed, refetch_after);
    }
}

/// A location as the log names it: without credentials.
fn place(location: &JwksLocation) -> String {
    match location {
        JwksLocation::Url(url) => secret::url(url),
        JwksLocation::Backend { target, path } => format!("{target} {}", secret::target(path)),
    }
}

#[cfg(test)]
mod tests;
