//! The queue of objects that may need a write: a set of names, so bounded by the number of objects.
//! The status writer and the deployer have one each. Time is passed in.
//!
//! A name is taken immediately the first time, and then at most every [`SPACING`]. Repeating the
//! same write, because something keeps reverting it, is delayed more each time. Few writes are in
//! flight, fewer under throttling, and none while the API server is unavailable.
//!
//! An object that fails delays itself, more each time, and no other: it is ready again after the
//! others. All wait only while the API server does not respond, or says that it cannot serve now: who
//! creates objects that it fails at, however many, must not delay others.
//! [`Tasks`] processes the objects, and contains a panic.

mod measures;
mod outcome;
mod ready;
mod tasks;
mod window;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use translate::ObjectRef;
use xds::fast_hash::FastHashMap;

pub use measures::QueueMeasures;
pub(crate) use measures::WriterMeasures;
pub use outcome::{Outcome, outcome_of};
use ready::{Place, Ready};
pub use tasks::{Panic, Tasks};
use window::Window;

/// Names of objects that may need a write.
#[derive(Debug, Default)]
pub struct Queue {
    entries: FastHashMap<ObjectRef, QueueEntry>,
    ready: Ready,
    later: BTreeMap<(Instant, u64), ObjectRef>,
    sequence: u64,
    in_flight: usize,
    window: Window,
    /// The current pause of all writes, and how many in a row there were.
    pause: Option<Instant>,
    unavailable: u32,
    /// Number of entries whose last attempt failed.
    failing: usize,
}

/// What the queue's owner should do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextAction {
    /// Process this object, and call [`Queue::done`] afterwards.
    Take(ObjectRef),
    /// Wait until this time, or for an event.
    At(Instant),
    /// Wait for an event.
    Idle,
}

#[derive(Debug, Default)]
struct QueueEntry {
    state: EntryState,
    not_before: Option<Instant>,
    /// The last write: its content, time, and number of repetitions.
    written: Option<(u64, Instant)>,
    streak: u32,
    /// Failed attempts since the last success, and the time of the first.
    failures: Option<(u32, Instant)>,
    /// Attempts in a row that are not finished.
    unfinished: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EntryState {
    #[default]
    Idle,
    Ready(Place),
    Later {
        at: Instant,
        sequence: u64,
        wait: Wait,
    },
    InFlight {
        again: bool,
    },
}

/// What an entry waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The interval of writes to an object. Nothing shortens it.
    Spacing,
    /// The other write, after a conflict: only the watch's event shortens it.
    Watch,
    /// The next attempt after a failure: any change shortens it.
    Backoff,
}

impl Queue {
    /// Something about the object has changed.
    pub fn push(&mut self, object: &ObjectRef, now: Instant) {
        let entry = self.entries.entry(object.clone()).or_default();
        match &mut entry.state {
            EntryState::InFlight { again } => *again = true,
            EntryState::Idle => self.schedule(object, now),
            EntryState::Later {
                wait: Wait::Backoff,
                ..
            } => self.hasten(object, now),
            EntryState::Ready(_) | EntryState::Later { .. } => {}
        }
    }

    /// The watch reported the object: a conflict need not wait any longer.
    pub fn observed(&mut self, object: &ObjectRef, now: Instant) {
        let state = self.entries.get(object).map(|entry| entry.state);
        if let Some(EntryState::Later {
            wait: Wait::Watch, ..
        }) = state
        {
            self.hasten(object, now);
        } else {
            self.push(object, now);
        }
    }

    /// Compares an object again that has not changed: one that waits need not wait less.
    pub fn compare(&mut self, object: &ObjectRef, now: Instant) {
        let entry = self.entries.entry(object.clone()).or_default();
        match &mut entry.state {
            EntryState::InFlight { again } => *again = true,
            EntryState::Idle => self.schedule(object, now),
            EntryState::Ready(_) | EntryState::Later { .. } => {}
        }
    }

    /// The object was deleted.
    pub fn forget(&mut self, object: &ObjectRef) {
        let Some(entry) = self.entries.get(object) else {
            return;
        };
        let has_failed = entry.failures.is_some();
        match entry.state {
            EntryState::Ready(place) => self.ready.remove(place),
            EntryState::Later { at, sequence, .. } => {
                self.later.remove(&(at, sequence));
            }
            // Until it is done.
            EntryState::InFlight { .. } => return,
            EntryState::Idle => {}
        }
        self.entries.remove(object);
        self.failing -= usize::from(has_failed);
    }

    /// The next object to process.
    pub fn next(&mut self, now: Instant) -> NextAction {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let object = entry.remove();
            self.make_ready(&object);
        }
        if self.in_flight >= self.window.size() {
            return NextAction::Idle;
        }
        if let Some(until) = self.pause.filter(|until| *until > now) {
            return NextAction::At(until);
        }
        let Some(object) = self.ready.pop() else {
            let first = self.later.first_key_value();
            return first.map_or(NextAction::Idle, |((at, _), _)| NextAction::At(*at));
        };
        self.set_state(&object, EntryState::InFlight { again: false });
        self.in_flight += 1;
        NextAction::Take(object)
    }

    /// Reports the result of processing an object.
    pub fn done(&mut self, object: &ObjectRef, outcome: Outcome, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let state = self.entries.get(object).map(|entry| entry.state);
        let Some(EntryState::InFlight { again }) = state else {
            return;
        };
        self.set_state(object, EntryState::Idle);
        let Some(entry) = self.entries.get_mut(object) else {
            return;
        };
        let had_failed = entry.failures.is_some();
        let (wait, again) = entry.settle(outcome, now, again);
        let has_failed = entry.failures.is_some();
        self.failing = (self.failing + usize::from(has_failed)) - usize::from(had_failed);
        self.adjust_pace(outcome, now);
        if again {
            self.schedule(object, now);
        } else if let Some((at, wait)) = wait {
            self.delay(object, at, wait);
        }
    }

    /// How long the attempts at an object have failed.
    #[must_use]
    pub fn failing_for(&self, object: &ObjectRef, now: Instant) -> Option<Duration> {
        let (_, since) = self.entries.get(object)?.failures?;
        Some(now.saturating_duration_since(since))
    }

    /// Number of objects whose last attempt failed.
    #[must_use]
    pub fn failing(&self) -> usize {
        self.failing
    }

    /// Number of objects queued or in flight.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.ready.len() + self.later.len() + self.in_flight
    }

    /// Whether it knows no object.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn adjust_pace(&mut self, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Unchanged | Outcome::Unfinished => {}
            Outcome::Throttled(after) => {
                self.window.shrink();
                self.pause = Some(now + after.unwrap_or(THROTTLED_PAUSE).min(MAX_PAUSE));
            }
            Outcome::Unavailable => {
                self.pause = Some(now + exponential(SPACING, self.unavailable).min(MAX_PAUSE));
                self.unavailable = self.unavailable.saturating_add(1);
            }
            Outcome::Written(_) => {
                self.unavailable = 0;
                self.window.grow();
            }
            // An API server whose storage is broken fails at all objects, each of which delays itself then.
            Outcome::Conflict { .. } | Outcome::Refused | Outcome::Failed => self.unavailable = 0,
        }
    }

    /// Ends the wait of an entry, except for the interval of writes.
    fn hasten(&mut self, object: &ObjectRef, now: Instant) {
        let state = self.entries.get(object).map(|entry| entry.state);
        if let Some(EntryState::Later { at, sequence, .. }) = state {
            self.later.remove(&(at, sequence));
            self.schedule(object, now);
        }
    }

    fn schedule(&mut self, object: &ObjectRef, now: Instant) {
        let not_before = self.entries.get(object).and_then(|entry| entry.not_before);
        match not_before.filter(|at| *at > now) {
            Some(at) => self.delay(object, at, Wait::Spacing),
            None => self.make_ready(object),
        }
    }

    fn make_ready(&mut self, object: &ObjectRef) {
        if let Some(entry) = self.entries.get_mut(object) {
            let place = self.ready.push(object, entry.failures.is_some());
            entry.state = EntryState::Ready(place);
        }
    }

    fn delay(&mut self, object: &ObjectRef, at: Instant, wait: Wait) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.set_state(object, EntryState::Later { at, sequence, wait });
        self.later.insert((at, sequence), object.clone());
    }

    fn set_state(&mut self, object: &ObjectRef, state: EntryState) {
        if let Some(entry) = self.entries.get_mut(object) {
            entry.state = state;
        }
    }
}

/// Waits until something is due; forever if nothing is.
pub async fn until(due: Option<Instant>) {
    match due {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl QueueEntry {
    /// Records a result. Returns what to wait for, and whether to go on regardless: the object has
    /// changed meanwhile.
    fn settle(
        &mut self,
        outcome: Outcome,
        now: Instant,
        again: bool,
    ) -> (Option<(Instant, Wait)>, bool) {
        let unfinished = std::mem::take(&mut self.unfinished);
        match outcome {
            Outcome::Unchanged => {
                self.failures = None;
                (None, again)
            }
            Outcome::Written(what) => {
                self.failures = None;
                self.wrote(what, now);
                (None, again)
            }
            Outcome::Unfinished => {
                self.failures = None;
                self.not_before = Some(now + SPACING);
                let pause = exponential(UNFINISHED_PAUSE, unfinished).min(MAX_UNFINISHED_PAUSE);
                self.unfinished = unfinished.saturating_add(1);
                (Some((now + pause, Wait::Backoff)), again)
            }
            Outcome::Conflict { is_known: true } => {
                self.not_before = Some(now + SPACING);
                (None, true)
            }
            Outcome::Conflict { is_known: false } => {
                (Some((now + WATCH_TIMEOUT, Wait::Watch)), false)
            }
            Outcome::Throttled(_) => (None, true),
            Outcome::Unavailable => {
                let pause = exponential(SPACING, self.failed(now)).min(MAX_PAUSE);
                (Some((now + pause, Wait::Backoff)), again)
            }
            Outcome::Failed | Outcome::Refused => {
                let pause = exponential(FAILURE_PAUSE, self.failed(now)).min(MAX_FAILURE_PAUSE);
                (Some((now + pause, Wait::Backoff)), again)
            }
        }
    }

    /// Counts a failure. Returns the number of failures before it.
    fn failed(&mut self, now: Instant) -> u32 {
        let (count, since) = self.failures.unwrap_or((0, now));
        self.failures = Some((count.saturating_add(1), since));
        self.not_before = Some(now + SPACING);
        count
    }

    fn wrote(&mut self, what: u64, now: Instant) {
        let is_repeated = self
            .written
            .is_some_and(|(last, at)| last == what && now.saturating_duration_since(at) < QUIET);
        self.streak = if is_repeated { self.streak + 1 } else { 0 };
        self.written = Some((what, now));
        self.not_before = Some(now + exponential(SPACING, self.streak).min(MAX_SPACING));
    }
}

fn exponential(base: Duration, times: u32) -> Duration {
    base.saturating_mul(1 << times.min(16))
}

/// Interval of writes to one object: 500 ms.
pub const SPACING: Duration = Duration::from_millis(500);
/// Longest interval of repeated writes of the same content to one object: 60 s.
const MAX_SPACING: Duration = Duration::from_mins(1);
/// Time after which a repeated write counts as a first one: 3 min.
const QUIET: Duration = Duration::from_mins(3);
/// Time for a conflicting write to arrive by the watch: 60 s, in which a dead watch ends.
const WATCH_TIMEOUT: Duration = Duration::from_mins(1);
/// Pause of an object after its first failure: 1 s, doubled with each. So an object never waits
/// longer than it has been failing.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause of an object that fails: 5 min, unless it changes. A thousand of them then cause
/// three or four attempts a second.
const MAX_FAILURE_PAUSE: Duration = Duration::from_mins(5);
/// First interval of attempts at an object that waits for something in the cluster: 5 s, doubled with each.
const UNFINISHED_PAUSE: Duration = Duration::from_secs(5);
/// Longest such interval: 1 min. What it waits for may never come, as with a broken node.
const MAX_UNFINISHED_PAUSE: Duration = Duration::from_mins(1);
/// Pause after a 429 without `Retry-After`: 1 s.
const THROTTLED_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause of all writes: 30 s.
const MAX_PAUSE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
