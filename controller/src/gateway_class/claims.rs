//! Which installation of the controller serves each GatewayClass.
//!
//! Two installations may have the same `controllerName`, by mistake or while one replaces the other. Both
//! would deploy the same Gateways and write the same statuses, for ever. So the leader of an installation
//! claims each class in an annotation, and renews the claim; another installation leaves the class alone.
//! A claim that has not changed for [`DURATION`], by the reader's own clock, is given up: then another
//! installation may take it. Writes carry the resource version that was read, so of two concurrent ones
//! one fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The claim on a class, from its annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The installation that has claimed it.
    pub holder: String,
    /// When it was renewed, by the holder's clock; only compared with itself.
    pub renewed: String,
}

/// A GatewayClass with our `controllerName`, as it is in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedClass {
    /// The claim, if any.
    pub claim: Option<Claim>,
    /// Resource version of the class.
    pub resource_version: String,
    /// UID of the class.
    pub uid: String,
}

/// The classes with our `controllerName`, and who serves them.
#[derive(Debug)]
pub struct Claims {
    /// The name of this installation. Without one, every class is served, and none is claimed.
    installation: Option<String>,
    known: Mutex<KnownClasses>,
    /// Counts changes.
    changed: watch::Sender<u64>,
    /// Counts changes of what is undecided.
    decided: watch::Sender<u64>,
    /// A class that was served, and that another installation has taken over.
    lost: watch::Sender<Option<LostClass>>,
}

/// A class that was served, and that another installation has taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "GatewayClass {class} is now served by the installation {holder}: ending, to start without it"
)]
pub struct LostClass {
    /// Name of the class.
    pub class: String,
    /// The installation that has claimed it.
    pub holder: String,
}

#[derive(Debug, Default)]
struct KnownClasses {
    classes: BTreeMap<String, ClassState>,
    /// Classes that were served when they were deleted: created again, they are served at once.
    deleted: BTreeSet<String>,
}

#[derive(Debug)]
struct ClassState {
    observed: ObservedClass,
    /// Since when the claim has been as it is.
    since: Instant,
    is_served: bool,
    /// Whether this installation has claimed it, and so may write what belongs to it.
    is_held: bool,
    /// Why the claim could not be written at the last attempt.
    failure: Option<String>,
}

/// A class that is to be claimed, or whose claim is to be renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DueClaim {
    pub(super) class: String,
    pub(super) resource_version: String,
    /// UID of the class.
    pub(super) uid: String,
    /// The installation that held it, and has not renewed it.
    pub(super) former: Option<String>,
}

/// A class of another installation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ForeignClass {
    pub(super) class: String,
    pub(super) uid: String,
    pub(super) holder: String,
}

impl Default for Claims {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Claims {
    /// The claims of this installation, or of a process that serves every class.
    #[must_use]
    pub fn new(installation: Option<String>) -> Self {
        Self {
            installation,
            known: Mutex::default(),
            changed: watch::Sender::new(0),
            decided: watch::Sender::new(0),
            lost: watch::Sender::new(None),
        }
    }

    /// Records a class as it is in the cluster now. Returns whether this installation serves it.
    ///
    /// While it starts (`is_starting`), a class without a claim counts as its own: it may have been served by
    /// an earlier version, whose proxies must not lose their configuration. Later, a class is served once it
    /// is claimed, or at once if it was served until it was deleted.
    pub fn observe(&self, class: &str, observed: ObservedClass, is_starting: bool) -> bool {
        let mut known = self.known();
        let before = known.classes.remove(class);
        let was_deleted = known.deleted.remove(class);
        let was_served = before.as_ref().map(|it| it.is_served);
        let is_served = match (&self.installation, &observed.claim) {
            (None, _) => true,
            (Some(own), Some(claim)) if claim.holder == *own => true,
            (Some(_), Some(claim)) if was_served == Some(true) => {
                let (class, holder) = (class.to_owned(), claim.holder.clone());
                self.lost.send_replace(Some(LostClass { class, holder }));
                // Until the process ends.
                true
            }
            (Some(_), Some(_)) => false,
            (Some(_), None) => was_served.unwrap_or(is_starting || was_deleted),
        };
        let unchanged = before
            .as_ref()
            .filter(|before| before.observed.claim == observed.claim);
        let holder = observed.claim.as_ref().map(|it| &it.holder);
        let was_held = before.as_ref().is_some_and(|it| it.is_held);
        let state = ClassState {
            since: unchanged.map_or_else(Instant::now, |before| before.since),
            is_served,
            // A user who removes the annotation takes nothing away.
            is_held: was_held || (holder.is_some() && holder == self.installation.as_ref()),
            failure: before.and_then(|it| it.failure),
            observed,
        };
        let is_decided = state.is_held && !was_held;
        known.classes.insert(class.to_owned(), state);
        drop(known);
        self.report_change(is_decided);
        is_served
    }

    /// Records the response to a claim of the class at version `before`. The watch reports the same, but
    /// maybe later than the next renewal or change.
    pub(super) fn written(&self, class: &str, before: &str, observed: ObservedClass) {
        let mut known = self.known();
        // Deleted meanwhile.
        let Some(state) = known.classes.get_mut(class) else {
            return;
        };
        let is_decided = !state.is_held;
        // Otherwise the watch has reported this version already, or a later one of another writer.
        if state.observed.resource_version == before {
            state.observed = observed;
        }
        state.since = Instant::now();
        state.is_held = true;
        state.failure = None;
        drop(known);
        self.report_change(is_decided);
    }

    /// Records that the claim of a class cannot be written. Returns its UID if that is news.
    pub(crate) fn failed(&self, class: &str, why: &str) -> Option<String> {
        let mut known = self.known();
        let state = known.classes.get_mut(class)?;
        let is_news = !state.is_held && state.failure.as_deref() != Some(why);
        state.failure = Some(why.to_owned());
        let uid = state.observed.uid.clone();
        drop(known);
        self.report_change(is_news);
        is_news.then_some(uid)
    }

    fn report_change(&self, is_decisive: bool) {
        self.changed.send_modify(|count| *count += 1);
        if is_decisive {
            self.decided.send_modify(|count| *count += 1);
        }
    }

    /// Why nothing of a class may be deployed, although it seems to be served: another installation may do
    /// the same. The reason is empty until the claim has been tried.
    #[must_use]
    pub fn undecided(&self, class: &str) -> Option<String> {
        self.installation.as_ref()?;
        let known = self.known();
        let state = known.classes.get(class).filter(|it| !it.is_held)?;
        Some(state.failure.clone().unwrap_or_default())
    }

    /// Follows changes of [`Claims::undecided`].
    #[must_use]
    pub fn decisions(&self) -> watch::Receiver<u64> {
        self.decided.subscribe()
    }

    /// Whether a leader may begin to write: it holds a class, or there is none to be claimed.
    pub(super) fn may_write(&self, now: Instant) -> bool {
        let holds_one = self.known().classes.values().any(|it| it.is_held);
        holds_one || self.due(now).is_empty()
    }

    /// Forgets a class that belongs to another controller.
    pub fn forget(&self, class: &str) {
        let mut known = self.known();
        known.deleted.remove(class);
        let was_known = known.classes.remove(class).is_some();
        drop(known);
        if was_known {
            self.changed.send_modify(|count| *count += 1);
        }
    }

    /// Records that a class was deleted. It may be created again, as `kubectl replace --force` does.
    pub fn deleted(&self, class: &str) {
        let mut known = self.known();
        let Some(state) = known.classes.remove(class) else {
            return;
        };
        if state.is_served {
            known.deleted.insert(class.to_owned());
        }
        drop(known);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Waits until a class that was served is claimed by another installation. What was published of it
    /// must not be withdrawn from its proxies, so the process has to end.
    pub async fn lost(&self) -> LostClass {
        let mut lost = self.lost.subscribe();
        // Cannot fail, since the sender is ours.
        let found = lost.wait_for(Option::is_some).await.ok();
        match found.and_then(|found| found.clone()) {
            Some(lost) => lost,
            None => std::future::pending().await,
        }
    }

    /// Whether another installation of the same `controllerName` serves a class. Then entries in statuses
    /// with that name may be its.
    #[must_use]
    pub fn are_shared(&self) -> bool {
        !self.foreign().is_empty()
    }

    /// The number of classes of ours whose claim cannot be written, so that nothing of them is deployed.
    #[must_use]
    pub fn unclaimed_count(&self) -> usize {
        let known = self.known();
        let unclaimed = |it: &&ClassState| !it.is_held && it.failure.is_some();
        known.classes.values().filter(unclaimed).count()
    }

    /// The number of classes of other installations.
    #[must_use]
    pub fn foreign_count(&self) -> usize {
        self.foreign().len()
    }

    /// The classes of other installations.
    pub(super) fn foreign(&self) -> Vec<ForeignClass> {
        let Some(own) = &self.installation else {
            return Vec::new();
        };
        let known = self.known();
        let foreign = known.classes.iter().filter_map(|(class, state)| {
            let claim = state.observed.claim.as_ref()?;
            (claim.holder != *own).then(|| ForeignClass {
                class: class.clone(),
                uid: state.observed.uid.clone(),
                holder: claim.holder.clone(),
            })
        });
        foreign.collect()
    }

    /// Whether another installation serves a class, as far as is known.
    pub(super) fn is_foreign(&self, class: &str) -> bool {
        self.foreign().iter().any(|it| it.class == class)
    }

    /// The claims to write now.
    pub(super) fn due(&self, now: Instant) -> Vec<DueClaim> {
        let Some(own) = &self.installation else {
            return Vec::new();
        };
        let known = self.known();
        let due = known.classes.iter().filter_map(|(class, state)| {
            let holder = state.observed.claim.as_ref().map(|it| &it.holder);
            let age = now.saturating_duration_since(state.since);
            let is_ours = holder == Some(own);
            let is_due = match holder {
                None => true,
                Some(_) if is_ours => age >= RENEWAL,
                Some(_) => age >= DURATION,
            };
            is_due.then(|| DueClaim {
                class: class.clone(),
                resource_version: state.observed.resource_version.clone(),
                uid: state.observed.uid.clone(),
                former: holder.filter(|_| !is_ours).cloned(),
            })
        });
        due.collect()
    }

    /// The name of this installation.
    pub(super) fn installation(&self) -> Option<&str> {
        self.installation.as_deref()
    }

    /// Follows changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn known(&self) -> MutexGuard<'_, KnownClasses> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Interval of renewing a claim: 20 s. Every client that watches GatewayClasses receives each renewal.
const RENEWAL: Duration = Duration::from_secs(20);
/// Time without a change after which a claim can be taken: 90 s, four renewals and an election of the
/// leader.
pub(super) const DURATION: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(holder: Option<&str>, renewed: &str) -> ObservedClass {
        ObservedClass {
            claim: holder.map(|holder| Claim {
                holder: holder.to_owned(),
                renewed: renewed.to_owned(),
            }),
            resource_version: renewed.to_owned(),
            uid: "u".to_owned(),
        }
    }

    fn claims() -> Claims {
        Claims::new(Some("a/gateway".to_owned()))
    }

    #[test]
    fn an_unclaimed_class_is_served_from_the_start_or_once_it_is_claimed() {
        let claims = claims();
        assert!(claims.observe("old", observed(None, "1"), true));
        assert!(!claims.observe("new", observed(None, "1"), false));
        assert!(claims.observe("new", observed(Some("a/gateway"), "2"), false));
        // A user who removes the annotation takes nothing away.
        assert!(claims.observe("new", observed(None, "3"), false));
        assert!(!claims.observe("other", observed(Some("b/gateway"), "1"), true));
        assert!(claims.are_shared() && claims.is_foreign("other"));
    }

    #[test]
    fn a_class_that_is_created_again_is_served_at_once_if_it_was() {
        let claims = claims();
        claims.observe("ours", observed(Some("a/gateway"), "1"), true);
        claims.observe("theirs", observed(Some("b/gateway"), "1"), true);
        for class in ["ours", "theirs"] {
            claims.deleted(class);
        }
        assert!(!claims.observe("theirs", observed(None, "2"), false));
        assert!(claims.observe("ours", observed(None, "2"), false));
        // Not by an installation that has claimed it first.
        claims.deleted("ours");
        assert!(!claims.observe("ours", observed(Some("b/gateway"), "3"), false));
        assert_eq!(*claims.lost.borrow(), None);
        // One that got another controller's name meanwhile is a new one.
        claims.observe("other", observed(Some("a/gateway"), "1"), true);
        claims.deleted("other");
        claims.forget("other");
        assert!(!claims.observe("other", observed(None, "2"), false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_taken_when_it_did_not_change_for_its_duration() {
        let claims = claims();
        claims.observe("x", observed(Some("b/gateway"), "1"), true);
        tokio::time::advance(DURATION / 2).await;
        // By the holder's clock it may be any time.
        claims.observe("x", observed(Some("b/gateway"), "0"), true);
        tokio::time::advance(DURATION * 3 / 4).await;
        assert_eq!(claims.due(Instant::now()), []);
        // Something else of the class has changed.
        claims.observe(
            "x",
            ObservedClass {
                resource_version: "7".to_owned(),
                ..observed(Some("b/gateway"), "0")
            },
            true,
        );
        tokio::time::advance(DURATION / 4).await;
        let due = DueClaim {
            class: "x".to_owned(),
            resource_version: "7".to_owned(),
            uid: "u".to_owned(),
            former: Some("b/gateway".to_owned()),
        };
        assert_eq!(claims.due(Instant::now()), [due]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_own_claim_is_renewed() {
        let claims = claims();
        claims.observe("x", observed(Some("a/gateway"), "1"), true);
        assert_eq!(claims.due(Instant::now()), []);
        tokio::time::advance(RENEWAL).await;
        assert_eq!(claims.due(Instant::now()).len(), 1);
    }

    /// Otherwise it would be written again, with a version that is outdated.
    #[tokio::test(start_paused = true)]
    async fn a_written_claim_is_due_at_its_renewal_although_the_watch_is_late() {
        let claims = claims();
        claims.observe("x", observed(None, "1"), true);
        assert_eq!(claims.due(Instant::now()).len(), 1);
        assert_eq!(claims.undecided("x").as_deref(), Some(""));
        claims.written("x", "1", observed(Some("a/gateway"), "2"));
        assert_eq!(claims.due(Instant::now()), []);
        assert_eq!(claims.undecided("x"), None);
        tokio::time::advance(RENEWAL).await;
        let due = claims.due(Instant::now());
        assert_eq!(due.first().map(|it| &*it.resource_version), Some("2"));
    }

    /// Otherwise each renewal would name an outdated version.
    #[tokio::test(start_paused = true)]
    async fn a_response_does_not_replace_a_later_version_from_the_watch() {
        let claims = claims();
        claims.observe("x", observed(None, "1"), true);
        claims.observe("x", observed(Some("a/gateway"), "3"), true);
        claims.written("x", "1", observed(Some("a/gateway"), "2"));
        tokio::time::advance(RENEWAL).await;
        let due = claims.due(Instant::now());
        assert_eq!(due.first().map(|it| &*it.resource_version), Some("3"));
    }

    #[tokio::test]
    async fn a_served_class_that_another_installation_takes_is_lost() {
        let claims = claims();
        claims.observe("x", observed(Some("b/gateway"), "1"), true);
        assert_eq!(*claims.lost.borrow(), None, "it was never served");
        claims.observe("y", observed(Some("a/gateway"), "1"), true);
        claims.observe("y", observed(Some("b/gateway"), "2"), false);
        assert_eq!(claims.lost().await.class, "y");
    }
}
