//! Changes that wait for translation, by namespace.
//!
//! One tenant's thousands of changes must not delay the only one of another. So a pass takes a bounded number
//! of changes, of each namespace in turn; and those of a quiet namespace are translated almost at once, in
//! a pass of their own, while changes of busy ones are collected. A namespace is quiet until more changes
//! of it were taken than a user makes at once: the policy that protects a route arrives some milliseconds
//! after it, and must not wait when the route did not. The changes of a namespace stay in their order;
//! between namespaces, as between kinds, there is none.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use xds::fast_hash::FastHashMap;

use crate::watch::{Change, ChangeKind, Content};

/// What a pass waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// Its time.
    UntilDue,
    /// Less: it is for changes of quiet namespaces, and does not count for the pace of others.
    LessForQuiet,
}

/// The changes that wait.
#[derive(Debug, Default)]
pub(super) struct Pending {
    lines: FastHashMap<Arc<str>, VecDeque<Change>>,
    /// The namespaces that wait, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    length: usize,
    /// Until when a namespace is charged for its changes that were taken, each with [`CHARGE`] more.
    charged: FastHashMap<Arc<str>, Instant>,
    share: Share,
}

/// How many changes a pass takes at most, so that none lasts long.
#[derive(Debug)]
struct Share(usize);

impl Default for Share {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Share {
    /// Adapts to the time that a pass with so many changes took. One of few changes was not long for their
    /// number, and a smaller one would not be shorter.
    fn passed(&mut self, changes: usize, took: Duration) {
        if took > LONGEST_PASS && changes >= LEAST {
            self.0 = (self.0.min(changes) / 2).max(LEAST);
        } else if changes >= self.0 && took < LONGEST_PASS / 2 {
            self.0 = self.0.saturating_mul(2).min(MOST);
        }
    }
}

impl Pending {
    pub(super) fn push(&mut self, change: Change) {
        let namespace = namespace(&change);
        let line = self.lines.entry(Arc::clone(&namespace)).or_default();
        if line.is_empty() {
            self.turns.push_back(namespace);
        }
        line.push_back(change);
        self.length += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether no more should be received for now.
    pub(super) fn is_full(&self) -> bool {
        self.length >= MOST
    }

    /// Whether changes of a quiet namespace wait.
    pub(super) fn has_quiet(&self, now: Instant) -> bool {
        self.turns.iter().any(|it| self.is_quiet(it, now))
    }

    fn is_quiet(&self, namespace: &Arc<str>, now: Instant) -> bool {
        let charged = self.charged.get(namespace);
        charged.is_none_or(|until| until.saturating_duration_since(now) <= QUIET)
    }

    /// Charges a namespace for a change that is taken.
    fn charge(&mut self, namespace: &Arc<str>, now: Instant) {
        let until = self.charged.entry(Arc::clone(namespace)).or_insert(now);
        *until = ((*until).max(now) + CHARGE).min(now + 2 * QUIET);
    }

    /// All of them, while nothing is served. What such passes take says nothing about later ones.
    pub(super) fn take_all(&mut self) -> Vec<Change> {
        let all = std::mem::take(self);
        let mut lines = all.lines;
        let turns = all.turns.into_iter();
        turns.filter_map(|it| lines.remove(&it)).flatten().collect()
    }

    /// The changes of the next pass. Those of quiet namespaces come first. Those of others have to be due:
    /// then they take part, however many namespaces are quiet. Writes of statuses are not charged to a
    /// namespace, as `is_of_status` tells them: they are mostly this controller's own, and follow each change
    /// of a user.
    pub(super) fn take(
        &mut self,
        now: Instant,
        waited: Waited,
        is_of_status: impl Fn(&Change) -> bool,
    ) -> Vec<Change> {
        self.forget(now);
        let all = std::mem::take(&mut self.turns);
        let (mut turns, mut later): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|it| self.is_quiet(it, now));
        if waited == Waited::UntilDue {
            turns.append(&mut later);
        }
        let mut taken = Vec::new();
        while taken.len() < self.share.0
            && let Some(namespace) = turns.pop_front()
        {
            let Some(line) = self.lines.get_mut(&namespace) else {
                continue;
            };
            let Some(change) = line.pop_front() else {
                continue;
            };
            let is_last = line.is_empty();
            if !is_of_status(&change) {
                self.charge(&namespace, now);
            }
            taken.push(change);
            if is_last {
                self.lines.remove(&namespace);
            } else {
                turns.push_back(namespace);
            }
        }
        // Those that had no turn come before those that had one.
        self.turns = later;
        self.turns.append(&mut turns);
        self.length -= taken.len();
        taken
    }

    /// Records how long a pass with so many changes took.
    pub(super) fn passed(&mut self, changes: usize, took: Duration) {
        self.share.passed(changes, took);
    }

    /// Drops what tells no more than a missing entry.
    fn forget(&mut self, now: Instant) {
        self.charged.retain(|_, until| *until > now);
    }
}

/// The namespace of a change; empty for what concerns the cluster.
fn namespace(change: &Change) -> Arc<str> {
    match &change.what {
        ChangeKind::Upsert(_, Content::Class { .. } | Content::Release(_))
        | ChangeKind::Absent
        | ChangeKind::Synced => "".into(),
        ChangeKind::Upsert(name, _) | ChangeKind::Replace(name, _) | ChangeKind::Delete(name) => {
            Arc::clone(&name.namespace)
        }
    }
}

/// A namespace that was busy is quiet again when no change of it was taken for so long.
const QUIET: Duration = Duration::from_millis(500);
/// What a change costs: some sixty within the time above are more than a user applies at once.
const CHARGE: Duration = Duration::from_millis(8);
/// Longest time of a pass that is aimed at: what a change of a quiet namespace waits for.
const LONGEST_PASS: Duration = Duration::from_millis(20);
/// Changes of a pass: at first, at least, and at most, which is also how many wait. With the pause after a
/// long pass, thousands of changes still take seconds even if each pass is long for another reason.
const FIRST: usize = 1_024;
const LEAST: usize = 256;
const MOST: usize = 100_000;

#[cfg(test)]
mod tests {
    use std::slice;

    use xds::model::ObjectName;

    use translate::ObjectKind;

    use super::*;

    /// As if none of them were writes of statuses.
    fn take(pending: &mut Pending, waited: Waited) -> Vec<Change> {
        pending.take(Instant::now(), waited, |_| false)
    }

    fn change(namespace: &str, name: usize) -> Change {
        let kind = ObjectKind::Gateway;
        Change {
            kind,
            received: Instant::now(),
            what: ChangeKind::Delete(ObjectName::new(namespace, &name.to_string())),
        }
    }

    fn names(changes: &[Change]) -> Vec<String> {
        let names = changes.iter().map(|change| match &change.what {
            ChangeKind::Delete(name) => name.to_string(),
            _ => String::new(),
        });
        names.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_namespace_waits_for_no_busy_one() {
        let mut pending = Pending::default();
        for number in 0..FIRST * 3 {
            pending.push(change("busy", number));
        }
        let now = Instant::now();
        assert_eq!(take(&mut pending, Waited::UntilDue).len(), FIRST);
        assert!(!pending.has_quiet(now));
        // The third is the policy of a route that arrived before it.
        for (waiting, expected) in [
            (&[1, 2][..], &["quiet/1", "quiet/2"][..]),
            (&[3], &["quiet/3"]),
        ] {
            for number in waiting {
                pending.push(change("quiet", *number));
            }
            assert!(pending.has_quiet(now));
            let taken = take(&mut pending, Waited::LessForQuiet);
            assert_eq!(names(&taken), expected, "and none of the busy one");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_quiet_until_it_had_a_burst_of_changes() {
        let mut pending = Pending::default();
        let mut taken = 0;
        while taken < FIRST {
            pending.push(change("a", taken));
            if !pending.has_quiet(Instant::now()) {
                break;
            }
            taken += take(&mut pending, Waited::LessForQuiet).len();
        }
        assert_eq!(taken, 63);
        assert_eq!(take(&mut pending, Waited::LessForQuiet).len(), 0);
        assert_eq!(take(&mut pending, Waited::UntilDue).len(), 1);
        // However many there were.
        for number in 0..FIRST {
            pending.push(change("a", number));
        }
        take(&mut pending, Waited::UntilDue);
        pending.push(change("a", 1));
        let shortly_before = QUIET.saturating_sub(Duration::from_millis(1));
        tokio::time::advance(shortly_before).await;
        assert!(!pending.has_quiet(Instant::now()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(pending.has_quiet(Instant::now()));
    }

    /// Each change of a user is followed by some, at each parent of a route.
    #[tokio::test(start_paused = true)]
    async fn writes_of_statuses_do_not_make_a_namespace_busy() {
        let mut pending = Pending::default();
        let now = Instant::now();
        let is_of_status = |change: &Change| !names(slice::from_ref(change))[0].ends_with("/0");
        for number in 0..FIRST {
            pending.push(change("a", number));
        }
        let taken = pending.take(now, Waited::UntilDue, is_of_status);
        assert_eq!(taken.len(), FIRST);
        pending.push(change("a", 0));
        assert!(pending.has_quiet(now), "only the first was a change");
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_namespaces_are_first_and_keep_no_busy_one_away_that_is_due() {
        let mut pending = Pending::default();
        for number in 0..FIRST * 3 {
            pending.push(change("busy", number));
        }
        take(&mut pending, Waited::UntilDue);
        for number in 0..10 {
            pending.push(change(&format!("quiet-{number}"), 1));
        }
        let taken = names(&take(&mut pending, Waited::UntilDue));
        assert_eq!(taken.len(), FIRST);
        let are_quiet =
            |names: &[String]| names.iter().filter(|it| it.starts_with("quiet")).count();
        assert_eq!((are_quiet(&taken), are_quiet(&taken[..10])), (10, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_a_namespace_stay_in_order_and_none_is_lost() {
        let mut pending = Pending::default();
        let mut expected = [0; 3];
        for number in 0..FIRST * 4 {
            pending.push(change(&(number % 3).to_string(), number / 3));
        }
        let mut taken = 0;
        while !pending.is_empty() {
            for name in names(&take(&mut pending, Waited::UntilDue)) {
                let (namespace, number) = name.split_once('/').expect("both");
                let next = &mut expected[namespace.parse::<usize>().expect("a number")];
                assert_eq!(number.parse::<usize>(), Ok(*next));
                *next += 1;
                taken += 1;
            }
        }
        assert_eq!(taken, FIRST * 4);
        for number in 0..5 {
            pending.push(change("a", number));
        }
        assert_eq!(pending.take_all().len(), 5);
        assert!(pending.is_empty());
    }

    #[test]
    fn long_passes_become_smaller_and_short_ones_larger() {
        let mut share = Share::default();
        share.passed(1, LONGEST_PASS * 10);
        share.passed(LEAST - 1, LONGEST_PASS * 10);
        assert_eq!(share.0, FIRST, "it was not long for the number of changes");
        share.passed(FIRST, LONGEST_PASS * 10);
        assert_eq!(share.0, FIRST / 2);
        for _ in 0..20 {
            share.passed(share.0, LONGEST_PASS * 10);
        }
        assert_eq!(share.0, LEAST);
        share.passed(1, Duration::ZERO);
        assert_eq!(share.0, LEAST, "it did not need more");
        for _ in 0..20 {
            share.passed(share.0, Duration::ZERO);
        }
        assert_eq!(share.0, MOST);
    }

    #[test]
    fn passes_before_anything_is_served_do_not_make_later_ones_larger() {
        let mut pending = Pending::default();
        for _ in 0..5 {
            pending.passed(MOST, Duration::ZERO);
        }
        pending.take_all();
        assert_eq!(pending.share.0, FIRST);
    }
}
