//! The queue of objects that may need a write: a set of names, so bounded by the number of objects.
//! The status writer and the deployer have one each. Time is passed in.
//!
//! A name is taken immediately the first time, and then at most every [`SPACING`]. Repeating the
//! same write, because something keeps reverting it, is delayed more each time. Few writes are in
//! flight, fewer under throttling, and none while the API server is unavailable. Gateways come
//! before routes.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use translate::ObjectRef;
use xds::fast_hash::FastHashMap;

/// Names of objects that may need a write.
#[derive(Debug, Default)]
pub struct Queue {
    entries: FastHashMap<ObjectRef, QueueEntry>,
    ready: BTreeMap<(Rank, u64), ObjectRef>,
    later: BTreeMap<(Instant, u64), ObjectRef>,
    sequence: u64,
    in_flight: usize,
    window: Window,
    /// The current pause of all writes, and how many in a row there were.
    pause: Option<Instant>,
    failures: u32,
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

/// The result of processing an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing had to be written.
    Unchanged,
    /// A write; the number identifies its content.
    Written(u64),
    /// A conflict: the other write arrives by the watch, or has arrived already.
    Conflict {
        /// Whether it has arrived.
        is_known: bool,
    },
    /// The API server throttles requests.
    Throttled(Option<Duration>),
    /// The API server did not respond, or failed.
    Unavailable,
    /// The API server rejects this write permanently.
    Refused,
}

#[derive(Debug)]
struct QueueEntry {
    state: EntryState,
    not_before: Option<Instant>,
    /// The last write: its content, time, and number of repetitions.
    written: Option<(u64, Instant)>,
    streak: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryState {
    Idle,
    Ready(Rank, u64),
    Later {
        at: Instant,
        sequence: u64,
        until_observed: bool,
    },
    InFlight {
        again: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Class,
    Gateway,
    ListenerSet,
    Other,
}

impl Rank {
    fn of(object: &ObjectRef) -> Self {
        match &*object.kind {
            "GatewayClass" => Self::Class,
            "Gateway" => Self::Gateway,
            "ListenerSet" => Self::ListenerSet,
            _ => Self::Other,
        }
    }
}

impl Queue {
    /// Something about the object has changed.
    pub fn push(&mut self, object: &ObjectRef, now: Instant) {
        let entry = self.entries.entry(object.clone()).or_default();
        match &mut entry.state {
            EntryState::InFlight { again } => *again = true,
            EntryState::Idle => self.schedule(object, now),
            EntryState::Ready(..) | EntryState::Later { .. } => {}
        }
    }

    /// The watch reported the object: a conflict need not wait any longer.
    pub fn observed(&mut self, object: &ObjectRef, now: Instant) {
        let state = self.entries.get(object).map(|entry| entry.state);
        if let Some(EntryState::Later {
            at,
            sequence,
            until_observed: true,
        }) = state
        {
            self.later.remove(&(at, sequence));
            self.schedule(object, now);
        } else {
            self.push(object, now);
        }
    }

    /// The object was deleted.
    pub fn forget(&mut self, object: &ObjectRef) {
        match self.entries.get(object).map(|entry| entry.state) {
            Some(EntryState::Ready(rank, sequence)) => {
                self.ready.remove(&(rank, sequence));
            }
            Some(EntryState::Later { at, sequence, .. }) => {
                self.later.remove(&(at, sequence));
            }
            // Until it is done.
            Some(EntryState::InFlight { .. }) => return,
            Some(EntryState::Idle) | None => {}
        }
        self.entries.remove(object);
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
        let Some((_, object)) = self.ready.pop_first() else {
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
        self.adjust_pace(outcome, now);
        let Some(entry) = self.entries.get_mut(object) else {
            return;
        };
        let again = match outcome {
            Outcome::Unchanged => again,
            Outcome::Written(what) => {
                entry.wrote(what, now);
                again
            }
            Outcome::Conflict { is_known: true } => {
                entry.not_before = Some(now + SPACING);
                true
            }
            Outcome::Conflict { is_known: false } => {
                return self.delay(object, now + WATCH_TIMEOUT, true);
            }
            Outcome::Throttled(_) | Outcome::Unavailable => true,
            Outcome::Refused => return self.delay(object, now + REFUSED_PAUSE, true),
        };
        if again {
            self.schedule(object, now);
        }
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
            Outcome::Unchanged => {}
            Outcome::Throttled(after) => {
                self.window.shrink();
                self.pause = Some(now + after.unwrap_or(THROTTLED_PAUSE).min(MAX_PAUSE));
            }
            Outcome::Unavailable => {
                self.pause = Some(now + exponential(SPACING, self.failures).min(MAX_PAUSE));
                self.failures = self.failures.saturating_add(1);
            }
            Outcome::Written(_) => {
                self.failures = 0;
                self.window.grow();
            }
            Outcome::Conflict { .. } | Outcome::Refused => self.failures = 0,
        }
    }

    fn schedule(&mut self, object: &ObjectRef, now: Instant) {
        let not_before = self.entries.get(object).and_then(|entry| entry.not_before);
        match not_before.filter(|at| *at > now) {
            Some(at) => self.delay(object, at, false),
            None => self.make_ready(object),
        }
    }

    fn make_ready(&mut self, object: &ObjectRef) {
        self.sequence += 1;
        let (rank, sequence) = (Rank::of(object), self.sequence);
        self.set_state(object, EntryState::Ready(rank, sequence));
        self.ready.insert((rank, sequence), object.clone());
    }

    fn delay(&mut self, object: &ObjectRef, at: Instant, until_observed: bool) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.set_state(
            object,
            EntryState::Later {
                at,
                sequence,
                until_observed,
            },
        );
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

/// The outcome of a write for an error of the API server.
#[must_use]
pub fn outcome_of(error: &kube::Error) -> Outcome {
    let kube::Error::Api(status) = error else {
        return Outcome::Unavailable;
    };
    match status.code {
        // The watch will report a deletion.
        404 | 409 => Outcome::Conflict { is_known: false },
        429 => {
            let details = status.details.as_ref();
            let seconds = details.map_or(0, |it| it.retry_after_seconds);
            let after = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
            Outcome::Throttled(after)
        }
        400..500 => Outcome::Refused,
        _ => Outcome::Unavailable,
    }
}

impl Default for QueueEntry {
    fn default() -> Self {
        Self {
            state: EntryState::Idle,
            not_before: None,
            written: None,
            streak: 0,
        }
    }
}

impl QueueEntry {
    fn wrote(&mut self, what: u64, now: Instant) {
        let is_repeated = self
            .written
            .is_some_and(|(last, at)| last == what && now.saturating_duration_since(at) < QUIET);
        self.streak = if is_repeated { self.streak + 1 } else { 0 };
        self.written = Some((what, now));
        self.not_before = Some(now + exponential(SPACING, self.streak).min(MAX_SPACING));
    }
}

/// The limit of writes in flight: halved on throttling, increased by one after as many writes as
/// its size.
#[derive(Debug)]
struct Window {
    size: usize,
    successes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            size: MAX_IN_FLIGHT,
            successes: 0,
        }
    }
}

impl Window {
    fn size(&self) -> usize {
        self.size
    }

    fn shrink(&mut self) {
        self.size = (self.size / 2).max(1);
        self.successes = 0;
    }

    fn grow(&mut self) {
        self.successes += 1;
        if self.successes >= self.size && self.size < MAX_IN_FLIGHT {
            self.size += 1;
            self.successes = 0;
        }
    }
}

fn exponential(base: Duration, times: u32) -> Duration {
    base.saturating_mul(1 << times.min(16))
}

/// Most writes in flight: 8.
pub const MAX_IN_FLIGHT: usize = 8;
/// Interval of writes to one object: 500 ms.
pub const SPACING: Duration = Duration::from_millis(500);
/// Longest interval of repeated writes of the same content to one object: 60 s.
const MAX_SPACING: Duration = Duration::from_mins(1);
/// Time after which a repeated write counts as a first one: 3 min.
const QUIET: Duration = Duration::from_mins(3);
/// Time for a conflicting write to arrive by the watch: 60 s, in which a dead watch ends.
const WATCH_TIMEOUT: Duration = Duration::from_mins(1);
/// Pause after a permanently rejected write: 10 min, unless the object changes.
const REFUSED_PAUSE: Duration = Duration::from_mins(10);
/// Pause after a 429 without `Retry-After`: 1 s.
const THROTTLED_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause of all writes: 30 s.
const MAX_PAUSE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
