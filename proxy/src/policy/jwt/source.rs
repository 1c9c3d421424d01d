//! The keys of an issuer as the shards read them: one pointer, which the configuration thread alone
//! writes.
//!
//! It is not part of a snapshot: keys change independently of the configuration, and outlive it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};

use super::keys::KeySet;
use crate::limits::JWKS_WAIT;

/// The keys of an issuer, and a way to request newer ones.
///
/// Fetches are numbered and never overlap. A request that misses a key waits for the next fetch
/// that begins: the response of one in progress may be older than the key.
#[derive(Debug)]
pub struct KeySource {
    id: SourceId,
    current: ArcSwapOption<Current>,
    requested: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
    /// Whether the last one failed.
    is_failing: AtomicBool,
    /// No fetch is requested before this time, in seconds since 1970.
    refetch_after: AtomicI64,
    wake: Option<FetchWaker>,
}

/// Names a source of keys. Unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceId(u64);

/// The keys that a provider's tokens are verified with.
#[derive(Debug, Clone)]
pub struct ProviderKeys {
    own: Arc<KeySource>,
    /// The fetched keys of the previous version of the policy. They stay in effect until its own have been
    /// fetched for the first time: a mistyped address does not reject the tokens of every client.
    previous: Option<Arc<KeySource>>,
}

impl ProviderKeys {
    /// These keys, and until they are known, those of the previous version.
    #[must_use]
    pub fn after(own: Arc<KeySource>, previous: Option<Arc<KeySource>>) -> Self {
        Self { own, previous }
    }

    /// The keys in effect.
    pub(super) fn current(&self) -> &Arc<KeySource> {
        match &self.previous {
            Some(previous) if !self.own.was_fetched() => previous,
            _ => &self.own,
        }
    }

    /// Its own keys, whether or not they are in effect.
    pub(super) fn own(&self) -> &Arc<KeySource> {
        &self.own
    }
}

impl From<Arc<KeySource>> for ProviderKeys {
    fn from(own: Arc<KeySource>) -> Self {
        Self::after(own, None)
    }
}

/// The outcome of a request for newer keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// A fetch that began after the request has returned the current keys.
    Fetched,
    /// The keys could not be fetched.
    Failed,
    /// The keys were already replaced in the meantime.
    Changed,
    /// No such fetch has ended yet.
    Pending,
}

/// Wakes the thread that fetches keys after one was requested.
#[derive(Clone)]
pub struct FetchWaker(Arc<dyn Fn() + Send + Sync>);

impl FetchWaker {
    /// Wakes it by this call, which runs on shards: it must not lock or block.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }
}

impl fmt::Debug for FetchWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FetchWaker")
    }
}

/// Keys, and how long they are valid.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) keys: Arc<KeySet>,
    /// Seconds since 1970; `None` if they do not expire.
    good_until: Option<i64>,
}

impl KeySource {
    /// Keys that never change.
    #[must_use]
    pub fn constant(keys: KeySet) -> Self {
        let current = Current {
            keys: Arc::new(keys),
            good_until: None,
        };
        Self {
            current: ArcSwapOption::from_pointee(current),
            // A source of configured keys, which never change.
            refetch_after: AtomicI64::new(i64::MAX),
            ..Self::pending(None)
        }
    }

    /// A source of keys that are yet to be fetched. Without `wake`, the fetching thread has to poll
    /// for requests.
    #[must_use]
    pub fn pending(wake: Option<FetchWaker>) -> Self {
        Self {
            id: next_id(),
            current: ArcSwapOption::empty(),
            requested: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            refetch_after: AtomicI64::new(0),
            wake,
        }
    }

    /// Puts keys in force, until a time in seconds of Unix time.
    pub fn publish(&self, keys: Arc<KeySet>, good_until: i64) {
        self.current.store(Some(Arc::new(Current {
            keys,
            good_until: Some(good_until),
        })));
    }

    /// Whether keys have been published, even if they are no longer valid.
    #[must_use]
    pub fn was_fetched(&self) -> bool {
        self.current.load().is_some()
    }

    /// The number of the first fetch, while it is in progress.
    pub(super) fn first_fetch(&self) -> Option<u64> {
        let begun = self.begun.load(Ordering::Acquire);
        let ended = self.ended.load(Ordering::Acquire);
        ((begun, ended) == (1, 0)).then_some(1)
    }

    /// The name of this source.
    #[must_use]
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// Clears the requests so far; returns whether there were any.
    pub fn take_requested(&self) -> bool {
        self.requested.swap(false, Ordering::AcqRel)
    }

    /// Records that a fetch begins, which serves all requests so far.
    pub fn begin_fetch(&self) {
        self.take_requested();
        self.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that the fetch in progress has ended; its result must be published before. No fetch
    /// is requested before `refetch_after`, in seconds since 1970.
    pub fn end_fetch(&self, failed: bool, refetch_after: i64) {
        self.is_failing.store(failed, Ordering::Release);
        self.refetch_after.store(refetch_after, Ordering::Release);
        let begun = self.begun.load(Ordering::Acquire);
        self.ended.store(begun, Ordering::Release);
    }

    /// Whether newer keys have been requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// The version of the keys in force at a time.
    #[must_use]
    pub fn version(&self, now: i64) -> Option<u64> {
        self.load(now)?.keys().map(KeySet::version)
    }

    /// Requests newer keys, and returns the number of the fetch to wait for; `None` if none would
    /// end soon enough. Only the first of many requests wakes the thread.
    pub fn request_keys(&self, now: i64) -> Option<u64> {
        let soon = now.saturating_add(JWKS_WAIT.as_secs().cast_signed());
        if self.refetch_after.load(Ordering::Acquire) > soon {
            return None;
        }
        // Before the request: a fetch that begins between the two is new enough.
        let fetch = self.begun.load(Ordering::Acquire).saturating_add(1);
        let first =
            !self.requested.load(Ordering::Relaxed) && !self.requested.swap(true, Ordering::AcqRel);
        if let (true, Some(wake)) = (first, &self.wake) {
            (wake.0)();
        }
        Some(fetch)
    }

    /// The result of a requested fetch.
    #[must_use]
    pub fn reply(&self, fetch: u64) -> Reply {
        if self.ended.load(Ordering::Acquire) < fetch {
            Reply::Pending
        } else if self.is_failing.load(Ordering::Acquire) {
            Reply::Failed
        } else {
            Reply::Fetched
        }
    }

    /// Whether the last fetch failed, so that there may be keys that are not known here.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Acquire)
    }

    /// The keys in force at a time, if there are any.
    pub(super) fn load(&self, now: i64) -> Option<InForce> {
        let guard = self.current.load();
        let current = guard.as_ref()?;
        let good = current.good_until.is_none_or(|until| now < until);
        good.then(|| InForce(guard))
    }
}

fn next_id() -> SourceId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    SourceId(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The keys in effect while a token is verified.
pub(super) struct InForce(Guard<Option<Arc<Current>>>);

impl InForce {
    pub(super) fn keys(&self) -> Option<&KeySet> {
        self.0.as_ref().map(|current| &*current.keys)
    }
}
