//! When to look whether the pods of workloads run: pure, time is passed in.
//!
//! A workload is looked at some seconds after something about it changed, and again while its pods do not run, less
//! and less often. All looks together have a pace, so a thousand broken Gateways cost no more than some.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::child::Child;

/// Workloads, and when each is looked at next.
#[derive(Debug, Default)]
pub(super) struct Looks {
    workloads: BTreeMap<Child, Schedule>,
    due: BTreeSet<(Instant, Child)>,
    in_progress: usize,
    /// The next look begins then at the earliest.
    not_before: Option<Instant>,
}

#[derive(Debug, Default)]
struct Schedule {
    state: State,
    /// When it was looked at last.
    last: Option<Instant>,
    /// Looks in a row after which its pods did not run.
    failures: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Due(Instant),
    InProgress {
        /// Whether it has changed since.
        is_changed: bool,
    },
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextLook {
    /// Look at this workload, and call [`Looks::done`] afterwards.
    Take(Child),
    /// Wait until this time, or for an event.
    At(Instant),
    /// Wait for an event.
    Idle,
}

impl Looks {
    /// Something about a workload, its status included, has changed.
    pub(super) fn changed(&mut self, workload: &Child, now: Instant) {
        let schedule = self.workloads.entry(workload.clone()).or_default();
        match &mut schedule.state {
            State::InProgress { is_changed } => *is_changed = true,
            State::Idle => {
                let at = schedule.at_change(now);
                self.schedule(workload, at);
            }
            State::Due(at) => {
                let (at, sooner) = (*at, schedule.at_change(now));
                if sooner < at {
                    self.due.remove(&(at, workload.clone()));
                    self.schedule(workload, sooner);
                }
            }
        }
    }

    /// The workload was deleted.
    pub(super) fn forget(&mut self, workload: &Child) {
        if let Some(schedule) = self.workloads.remove(workload) {
            match schedule.state {
                State::Due(at) => drop(self.due.remove(&(at, workload.clone()))),
                State::InProgress { .. } => self.in_progress = self.in_progress.saturating_sub(1),
                State::Idle => {}
            }
        }
    }

    /// The next workload to look at.
    pub(super) fn next(&mut self, now: Instant) -> NextLook {
        if self.in_progress >= MOST_IN_PROGRESS {
            return NextLook::Idle;
        }
        let Some((at, workload)) = self.due.first().cloned() else {
            return NextLook::Idle;
        };
        let at = self.not_before.map_or(at, |it| it.max(at));
        if at > now {
            return NextLook::At(at);
        }
        self.due.pop_first();
        if let Some(schedule) = self.workloads.get_mut(&workload) {
            schedule.state = State::InProgress { is_changed: false };
            schedule.last = Some(now);
        }
        self.in_progress += 1;
        self.not_before = Some(now + PACE);
        NextLook::Take(workload)
    }

    /// A look has ended: whether all pods run, or the workload is none any more.
    pub(super) fn done(&mut self, workload: &Child, is_well: bool, now: Instant) {
        let Some(schedule) = self.workloads.get_mut(workload) else {
            return;
        };
        let State::InProgress { is_changed } = schedule.state else {
            return;
        };
        self.in_progress = self.in_progress.saturating_sub(1);
        schedule.state = State::Idle;
        schedule.failures = if is_well { 0 } else { schedule.failures + 1 };
        let changed = is_changed.then(|| schedule.at_change(now));
        let again = (!is_well).then(|| now + schedule.pause());
        if let Some(at) = changed.into_iter().chain(again).min() {
            self.schedule(workload, at);
        }
    }

    fn schedule(&mut self, workload: &Child, at: Instant) {
        if let Some(schedule) = self.workloads.get_mut(workload) {
            schedule.state = State::Due(at);
            self.due.insert((at, workload.clone()));
        }
    }
}

impl Schedule {
    /// When to look after a change: one without a known problem needs time to start its pods, and what mends a
    /// problem is to be seen soon.
    fn at_change(&self, now: Instant) -> Instant {
        if self.failures == 0 {
            return now + REPORTED_AFTER;
        }
        let spaced = self.last.map(|it| it + SPACING);
        spaced.map_or(now, |it| it.max(now))
    }

    /// How long to wait after a look at pods that do not run.
    fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        (SPACING * (1 << doublings)).min(MAX_PAUSE)
    }
}

/// How long the pods of a changed workload may take before they are looked at: 5 s.
const REPORTED_AFTER: Duration = Duration::from_secs(5);
/// Shortest interval of looks at one workload: 2 s. It is doubled with each look after which its pods do not run.
const SPACING: Duration = Duration::from_secs(2);
/// Longest interval of looks at a workload whose pods do not run: 2 min. Changes of its status shorten it; what only
/// pods show, such as an image that can be pulled at last, ends with such a change.
const MAX_PAUSE: Duration = Duration::from_mins(2);
/// Shortest interval of all looks: 50 ms, so that they cost the API server 40 reads a second at most, also after a
/// start with a thousand Gateways.
const PACE: Duration = Duration::from_millis(50);
/// Looks at the same time: 4, so that one to which the API server does not respond does not keep others waiting.
const MOST_IN_PROGRESS: usize = 4;

#[cfg(test)]
mod tests {
    use xds::model::ObjectName;

    use super::super::child::ChildKind;
    use super::*;

    fn workload(name: &str) -> Child {
        Child {
            kind: ChildKind::Deployment,
            name: ObjectName::new("infra", name),
        }
    }

    /// Takes every look until a time, and tells when each began.
    fn run(looks: &mut Looks, now: &mut Instant, until: Instant, is_well: bool) -> Vec<Instant> {
        let mut taken = Vec::new();
        loop {
            match looks.next(*now) {
                NextLook::Take(child) => {
                    taken.push(*now);
                    looks.done(&child, is_well, *now);
                }
                NextLook::At(at) if at <= until => *now = at,
                NextLook::At(_) | NextLook::Idle => return taken,
            }
        }
    }

    #[test]
    fn a_workload_is_looked_at_until_its_pods_run() {
        let (start, mut looks, edge) = (Instant::now(), Looks::default(), workload("edge"));
        let mut now = start;
        assert_eq!(looks.next(now), NextLook::Idle);
        // The rollout changes its status again and again.
        for _ in 0..10 {
            looks.changed(&edge, now);
            now += Duration::from_millis(100);
        }
        let hour = start + Duration::from_hours(1);
        let taken = run(&mut looks, &mut now, hour, false);
        let seconds = taken.iter().map(|it| (*it - start).as_secs());
        let seconds: Vec<u64> = seconds.take(8).collect();
        assert_eq!(seconds, [5, 7, 11, 19, 35, 67, 131, 251]);
        assert!(taken.len() < 40, "{}", taken.len());
        // What mends it is seen at once, and then it is quiet.
        now = hour;
        looks.changed(&edge, now);
        let after = hour + Duration::from_hours(1);
        let taken = run(&mut looks, &mut now, after, true);
        assert_eq!(taken, [hour]);
        looks.changed(&edge, now);
        looks.forget(&edge);
        assert_eq!(looks.next(after), NextLook::Idle);
    }

    #[test]
    fn many_workloads_take_turns() {
        let (start, mut looks) = (Instant::now(), Looks::default());
        for number in 0..1_000 {
            looks.changed(&workload(&number.to_string()), start);
        }
        let mut now = start;
        let minute = start + Duration::from_mins(1);
        let taken = run(&mut looks, &mut now, minute, false);
        assert!((1_000..=1_200).contains(&taken.len()), "{}", taken.len());
        let hour = start + Duration::from_hours(1);
        let taken = run(&mut looks, &mut now, hour, false);
        assert!(taken.len() < 60_000, "{}", taken.len());
    }

    #[test]
    fn few_looks_are_in_progress() {
        let (mut now, mut looks) = (Instant::now(), Looks::default());
        for number in 0..10 {
            looks.changed(&workload(&number.to_string()), now);
        }
        now += Duration::from_secs(10);
        let mut taken = Vec::new();
        while taken.len() < MOST_IN_PROGRESS {
            match looks.next(now) {
                NextLook::Take(child) => taken.push(child),
                NextLook::At(at) => now = at,
                NextLook::Idle => panic!("there are more"),
            }
        }
        assert_eq!(looks.next(now + PACE), NextLook::Idle);
        // One that changes meanwhile is looked at again; a deleted one makes room, too.
        looks.changed(&taken[0], now);
        looks.done(&taken[0], true, now);
        looks.forget(&taken[1]);
        assert!(matches!(looks.next(now + PACE), NextLook::Take(_)));
    }
}
