//! The keys of an issuer as the shards read them: one pointer, which the configuration thread alone
//! writes.
//!
//! It is no part of a snapshot: keys change without the configuration, and outlive its changes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwapOption, Guard};

use super::keys::KeySet;

/// The keys of an issuer, and a way to ask for newer ones.
#[derive(Debug)]
pub struct KeySource {
    current: ArcSwapOption<Current>,
    asked: AtomicBool,
    wake: Option<Wake>,
}

/// Tells the thread that fetches keys that some are asked for.
#[derive(Clone)]
pub struct Wake(Arc<dyn Fn() + Send + Sync>);

impl Wake {
    /// Tells it by this call, which is made on shards: it may neither lock nor block.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

/// Keys, and for how long they are believed.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) keys: Arc<KeySet>,
    /// In seconds of Unix time; `None` for ever.
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
            asked: AtomicBool::new(false),
            wake: None,
        }
    }

    /// Keys that are still to come. Without `wake`, whoever fetches them has to look for questions.
    #[must_use]
    pub fn pending(wake: Option<Wake>) -> Self {
        Self {
            current: ArcSwapOption::empty(),
            asked: AtomicBool::new(false),
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

    /// Takes the request for newer keys, if there is one.
    pub fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::AcqRel)
    }

    /// Whether newer keys are asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// The version of the keys in force at a time.
    #[must_use]
    pub fn version(&self, now: i64) -> Option<u64> {
        self.load(now)?.keys().map(KeySet::version)
    }

    /// Asks for newer keys. Only the first of many wakes anybody.
    pub fn ask(&self) {
        let first = !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::AcqRel);
        if let (true, Some(wake)) = (first, &self.wake) {
            (wake.0)();
        }
    }

    /// The keys in force at a time, if there are any.
    pub(super) fn load(&self, now: i64) -> Option<InForce> {
        let guard = self.current.load();
        let current = guard.as_ref()?;
        let good = current.good_until.is_none_or(|until| now < until);
        good.then(|| InForce(guard))
    }
}

/// Keys that are in force while a token is looked at.
pub(super) struct InForce(Guard<Option<Arc<Current>>>);

impl InForce {
    /// The keys.
    pub(super) fn keys(&self) -> Option<&KeySet> {
        self.0.as_ref().map(|current| &*current.keys)
    }
}
