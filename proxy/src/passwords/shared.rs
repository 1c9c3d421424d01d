//! What shards and the threads that check passwords share. Shards only load, store and push: they never wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use crossbeam::queue::ArrayQueue;
use xds::fast_hash::FastHashMap;

use super::queue::Owner;
use super::sleepers::Sleepers;
use super::{PairKey, User};
use crate::limits::{PASSWORD_CHECKS_WAITING, VERIFIED_PASSWORD_TTL, VERIFIED_PASSWORDS};

/// What the threads and the shards share.
pub(super) struct Shared {
    /// What was submitted, and no thread has seen yet.
    pub(super) inbox: ArrayQueue<Submitted>,
    pub(super) verified: ArcSwap<Verified>,
    pub(super) sleepers: Sleepers,
    began: Instant,
}

/// The pairs that are right.
pub(super) type Verified = FastHashMap<PairKey, Arc<Known>>;

/// A pair that is right.
pub(super) struct Known {
    /// The second of its last use.
    used: AtomicU32,
    /// The namespace of the route that was asked for when it was checked.
    tenant: Arc<str>,
}

/// A pair that is to be checked.
pub(super) struct Submitted {
    pub(super) pair: PairKey,
    pub(super) user: Arc<User>,
    pub(super) password: Box<[u8]>,
    pub(super) owner: Owner,
    pub(super) check: Arc<Check>,
}

/// A check, which its requester looks at from time to time.
#[derive(Debug, Default)]
pub struct Check(AtomicU8);

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// The password is the user's.
    Right = 1,
    /// It is not, or there is no such user.
    Wrong,
    /// It was not checked: too much is waiting.
    Unchecked,
}

impl Check {
    /// The result, once there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let all = [Verdict::Right, Verdict::Wrong, Verdict::Unchecked];
        let verdict = self.0.load(Ordering::Acquire);
        all.into_iter().find(|it| *it as u8 == verdict)
    }

    pub(super) fn end(&self, verdict: Verdict) {
        self.0.store(verdict as u8, Ordering::Release);
    }
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            inbox: ArrayQueue::new(PASSWORD_CHECKS_WAITING),
            verified: ArcSwap::default(),
            sleepers: Sleepers::default(),
            began: Instant::now(),
        }
    }

    /// Publishes a pair that is right. Only one thread at a time may.
    pub(super) fn publish(&self, pair: PairKey, tenant: &Arc<str>, now: Instant) {
        let now = self.second(now);
        let mut verified = Verified::clone(&self.verified.load());
        verified.retain(|_, known| !is_over(known.used.load(Ordering::Relaxed), now));
        while verified.len() >= VERIFIED_PASSWORDS {
            let Some(oldest) = oldest_of_largest_tenant(&verified) else {
                break;
            };
            verified.remove(&oldest);
        }
        let known = Known {
            used: AtomicU32::new(now),
            tenant: Arc::clone(tenant),
        };
        verified.insert(pair, Arc::new(known));
        self.verified.store(Arc::new(verified));
    }

    /// Whether one of these pairs was right, and notes its use.
    pub(super) fn uses(&self, mut pairs: impl Iterator<Item = PairKey>, now: Instant) -> bool {
        let (verified, now) = (self.verified.load(), self.second(now));
        !verified.is_empty()
            && pairs.any(|pair| verified.get(&pair).is_some_and(|it| uses(&it.used, now)))
    }

    /// Seconds since the start.
    fn second(&self, now: Instant) -> u32 {
        let since = now.saturating_duration_since(self.began).as_secs();
        u32::try_from(since).unwrap_or(u32::MAX)
    }
}

/// The pair that gives way to a new one: the users of one tenant push out none of another that has fewer.
fn oldest_of_largest_tenant(verified: &Verified) -> Option<PairKey> {
    let mut counts = FastHashMap::<&Arc<str>, usize>::default();
    for known in verified.values() {
        let count = counts.entry(&known.tenant).or_default();
        *count = count.saturating_add(1);
    }
    let (largest, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let of_largest = verified.iter().filter(|(_, it)| it.tenant == *largest);
    let oldest = of_largest.min_by_key(|(_, it)| it.used.load(Ordering::Relaxed));
    oldest.map(|(pair, _)| *pair)
}

/// Notes a use of a pair, unless the last one is too long ago.
fn uses(last: &AtomicU32, now: u32) -> bool {
    let used = last.load(Ordering::Relaxed);
    if is_over(used, now) {
        return false;
    }
    // Written once a second: many shards have it in their caches.
    if used < now {
        last.store(now, Ordering::Relaxed);
    }
    true
}

fn is_over(used: u32, now: u32) -> bool {
    u64::from(now.saturating_sub(used)) > VERIFIED_PASSWORD_TTL.as_secs()
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("submitted", &self.inbox.len())
            .field("verified", &self.verified.load().len())
            .finish_non_exhaustive()
    }
}
