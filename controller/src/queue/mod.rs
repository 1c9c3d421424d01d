//! Which objects are to be looked at for something to write, and when: a set of names, so bounded by
//! the objects there are. The status writer and the deployer have one each. Time is passed in.
//!
//! A name is taken at once the first time, and then at most every [`SPACING`]. Writing the same thing
//! again, because somebody keeps replacing it, takes longer each time. Few writes are in flight, fewer
//! when the API server asks for it, none while it is away. Gateways come before routes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use translate::ObjectRef;

/// Names of objects for which something may have to be written.
#[derive(Debug, Default)]
pub struct Queue {
    slots: HashMap<ObjectRef, Slot>,
    ready: BTreeMap<(Rank, u64), ObjectRef>,
    later: BTreeMap<(Instant, u64), ObjectRef>,
    sequence: u64,
    in_flight: usize,
    window: Window,
    /// Until when nothing is taken, and how often in a row that came about.
    pause: Option<Instant>,
    failures: u32,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Look at this object; [`Queue::done`] has to follow.
    Take(ObjectRef),
    /// Nothing before this time, unless something happens.
    At(Instant),
    /// Nothing, unless something happens.
    Idle,
}

/// What became of an object that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to write.
    Unchanged,
    /// Something was written; the number tells what was wanted.
    Written(u64),
    /// Somebody else was faster: what they wrote comes by the watch, or has come meanwhile.
    Conflict {
        /// Whether it has come.
        is_known: bool,
    },
    /// The API server asks for patience.
    Throttled(Option<Duration>),
    /// The API server did not answer, or with an error of its own.
    Unavailable,
    /// The API server refuses this write and will refuse it again.
    Refused,
}

#[derive(Debug)]
struct Slot {
    place: Place,
    not_before: Option<Instant>,
    /// What was written last, when, and how often in a row.
    written: Option<(u64, Instant)>,
    streak: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
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
        let slot = self.slots.entry(object.clone()).or_default();
        match &mut slot.place {
            Place::InFlight { again } => *again = true,
            Place::Idle => self.schedule(object, now),
            Place::Ready(..) | Place::Later { .. } => {}
        }
    }

    /// The watch told of the object: whoever waits for that need not wait longer.
    pub fn observed(&mut self, object: &ObjectRef, now: Instant) {
        let place = self.slots.get(object).map(|slot| slot.place);
        if let Some(Place::Later {
            at,
            sequence,
            until_observed: true,
        }) = place
        {
            self.later.remove(&(at, sequence));
            self.schedule(object, now);
        } else {
            self.push(object, now);
        }
    }

    /// The object is gone.
    pub fn forget(&mut self, object: &ObjectRef) {
        match self.slots.get(object).map(|slot| slot.place) {
            Some(Place::Ready(rank, sequence)) => {
                self.ready.remove(&(rank, sequence));
            }
            Some(Place::Later { at, sequence, .. }) => {
                self.later.remove(&(at, sequence));
            }
            // Until it is done.
            Some(Place::InFlight { .. }) => return,
            Some(Place::Idle) | None => {}
        }
        self.slots.remove(object);
    }

    /// What to look at now.
    pub fn next(&mut self, now: Instant) -> Next {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let object = entry.remove();
            self.make_ready(&object);
        }
        if self.in_flight >= self.window.size() {
            return Next::Idle;
        }
        if let Some(until) = self.pause.filter(|until| *until > now) {
            return Next::At(until);
        }
        let Some((_, object)) = self.ready.pop_first() else {
            let first = self.later.first_key_value();
            return first.map_or(Next::Idle, |((at, _), _)| Next::At(*at));
        };
        self.place(&object, Place::InFlight { again: false });
        self.in_flight += 1;
        Next::Take(object)
    }

    /// What became of an object that was taken.
    pub fn done(&mut self, object: &ObjectRef, outcome: Outcome, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let place = self.slots.get(object).map(|slot| slot.place);
        let Some(Place::InFlight { again }) = place else {
            return;
        };
        self.place(object, Place::Idle);
        self.learn(outcome, now);
        let Some(slot) = self.slots.get_mut(object) else {
            return;
        };
        let again = match outcome {
            Outcome::Unchanged => again,
            Outcome::Written(what) => {
                slot.wrote(what, now);
                again
            }
            Outcome::Conflict { is_known: true } => {
                slot.not_before = Some(now + SPACING);
                true
            }
            Outcome::Conflict { is_known: false } => {
                return self.delay(object, now + WATCH_PATIENCE, true);
            }
            Outcome::Throttled(_) | Outcome::Unavailable => true,
            Outcome::Refused => return self.delay(object, now + REFUSED_PAUSE, true),
        };
        if again {
            self.schedule(object, now);
        }
    }

    /// How many objects are to be looked at or are being written.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.ready.len() + self.later.len() + self.in_flight
    }

    fn learn(&mut self, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Unchanged => {}
            Outcome::Throttled(after) => {
                self.window.shrink();
                self.pause = Some(now + after.unwrap_or(THROTTLED_PAUSE).min(MAX_PAUSE));
            }
            Outcome::Unavailable => {
                self.pause = Some(now + doubled(SPACING, self.failures).min(MAX_PAUSE));
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
        let not_before = self.slots.get(object).and_then(|slot| slot.not_before);
        match not_before.filter(|at| *at > now) {
            Some(at) => self.delay(object, at, false),
            None => self.make_ready(object),
        }
    }

    fn make_ready(&mut self, object: &ObjectRef) {
        self.sequence += 1;
        let (rank, sequence) = (Rank::of(object), self.sequence);
        self.place(object, Place::Ready(rank, sequence));
        self.ready.insert((rank, sequence), object.clone());
    }

    fn delay(&mut self, object: &ObjectRef, at: Instant, until_observed: bool) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.place(
            object,
            Place::Later {
                at,
                sequence,
                until_observed,
            },
        );
        self.later.insert((at, sequence), object.clone());
    }

    fn place(&mut self, object: &ObjectRef, place: Place) {
        if let Some(slot) = self.slots.get_mut(object) {
            slot.place = place;
        }
    }
}

/// Waits until something is due; for ever where nothing is.
pub async fn until(due: Option<Instant>) {
    match due {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What an error of the API server means for a write.
#[must_use]
pub fn outcome_of(error: &kube::Error) -> Outcome {
    let kube::Error::Api(status) = error else {
        return Outcome::Unavailable;
    };
    match status.code {
        // One that is gone, the watch will tell of.
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

impl Default for Slot {
    fn default() -> Self {
        Self {
            place: Place::Idle,
            not_before: None,
            written: None,
            streak: 0,
        }
    }
}

impl Slot {
    fn wrote(&mut self, what: u64, now: Instant) {
        let is_repeated = self
            .written
            .is_some_and(|(last, at)| last == what && now.saturating_duration_since(at) < QUIET);
        self.streak = if is_repeated { self.streak + 1 } else { 0 };
        self.written = Some((what, now));
        self.not_before = Some(now + doubled(SPACING, self.streak).min(MAX_SPACING));
    }
}

/// How many writes may be in flight: halved when the API server says that it is too much, one more
/// after as many writes as there are places.
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

fn doubled(base: Duration, times: u32) -> Duration {
    base.saturating_mul(1 << times.min(16))
}

/// Writes in flight at once: 8.
pub const MAX_IN_FLIGHT: usize = 8;
/// Between two writes of one object: 500 ms.
pub const SPACING: Duration = Duration::from_millis(500);
/// Between two writes of the same to one object, where somebody keeps replacing it: up to 60 s.
const MAX_SPACING: Duration = Duration::from_mins(1);
/// After which a repeated write counts as a first one: 3 min.
const QUIET: Duration = Duration::from_mins(3);
/// For what a conflicting write has to come by the watch: 60 s, in which a watch that has died ends.
const WATCH_PATIENCE: Duration = Duration::from_mins(1);
/// After a write that the API server refuses for good: 10 min, unless the object changes.
const REFUSED_PAUSE: Duration = Duration::from_mins(10);
/// After an answer 429 that does not say for how long: 1 s.
const THROTTLED_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause of all writes: 30 s.
const MAX_PAUSE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
