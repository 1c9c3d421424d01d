//! The time that a request has to get a connection, and what it does after the attempt of another
//! request, which it waited for, has run out of time.

use std::time::{Duration, Instant};

use crate::failure::{Failure, FailureKind};
use crate::upstream::connect::{ConnectTime, left};

/// The times of a request for the two steps to a connection: a wait at a connection limit, and connecting, which
/// has its own time after the wait, as over HTTP/1.
#[derive(Debug)]
pub(super) struct StepTimes {
    time: ConnectTime,
    /// When waits at connection limits must have ended.
    wait: Option<Instant>,
    /// When connecting must have ended.
    connect: Option<Instant>,
    /// What it had for connecting when that began.
    allowed: Option<Duration>,
}

/// A step of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// When it must have ended.
    pub(super) until: Option<Instant>,
    /// What the request had for it when it began.
    had: Option<TimeBudget>,
}

impl StepTimes {
    /// Both steps may begin now.
    pub(super) fn begin(time: ConnectTime) -> Self {
        let mut times = Self {
            time,
            wait: None,
            connect: None,
            allowed: None,
        };
        times.end_wait();
        times.wait = times.connect;
        times
    }

    /// The time for connecting begins now: the request, or the one that connects for it, waited until now.
    pub(super) fn end_wait(&mut self) {
        // One moment for both: the same timeout is the same for all requests, to the nanosecond.
        let now = Instant::now();
        self.connect = self.time.end_from(now);
        self.allowed = self.connect.map(|end| end.saturating_duration_since(now));
    }

    /// A wait at a connection limit, which begins now.
    pub(super) fn wait(&self) -> Step {
        self.step(self.wait)
    }

    /// Connecting, which begins now.
    pub(super) fn connect(&self) -> Step {
        self.step(self.connect)
    }

    fn step(&self, until: Option<Instant>) -> Step {
        let budget = self.allowed.zip(left(until));
        Step {
            until,
            had: budget.map(|(allowed, left)| TimeBudget { allowed, left }),
        }
    }

    /// What is left for connecting.
    pub(super) fn budget(&self) -> Option<TimeBudget> {
        self.connect().had
    }
}

impl Step {
    /// Why it failed now, if that was because it took too long.
    pub(super) fn out_of_time(self, kind: FailureKind) -> Option<OutOfTime> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        let had = self.had.filter(|_| is_late)?;
        Some(OutOfTime { kind, had })
    }
}

/// The time of a request to get a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeBudget {
    /// What it had when it began to wait.
    pub(super) allowed: Duration,
    /// What is left of it.
    pub(super) left: Duration,
}

/// A connection that was not open in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutOfTime {
    pub(super) kind: FailureKind,
    /// The budget of the request that opened it, when it began to connect.
    pub(super) had: TimeBudget,
}

/// An eighth of what a request was allowed. With less than that left, it does not connect again; and an
/// attempt that was shorter than it by more than that says nothing about the endpoint.
const PART: u32 = 8;

impl OutOfTime {
    /// Whether a request that waited for it connects again: if it has more than twice the time that the
    /// attempt had, or was allowed more and has enough of that left. Otherwise, after an outage, each
    /// waiting request would connect with the little time that it has left, which may be too short for a
    /// distant endpoint.
    pub(super) fn may_be_repeated(&self, own: Option<TimeBudget>) -> bool {
        own.is_none_or(|own| {
            own.left > self.had.left.saturating_mul(2)
                || own.allowed > self.had.allowed && own.left > own.allowed / PART
        })
    }

    /// The failure of a request that waited for it and does not connect again. It does not count against
    /// the endpoint if the attempt had less time than this request is usually allowed, or if a deadline
    /// that the client chose makes this request's own time short.
    pub(super) fn failure(&self, own: Option<TimeBudget>, is_hurried: bool) -> Failure {
        let usual = |own: TimeBudget| own.allowed / PART * (PART - 1);
        let is_early = own.is_none_or(|own| self.had.left < usual(own));
        Failure {
            is_inherited: is_hurried || is_early,
            ..self.kind.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectTime, OutOfTime, StepTimes, TimeBudget};
    use crate::failure::FailureKind;
    use std::time::Duration;

    fn budget(allowed: u64, left: u64) -> TimeBudget {
        TimeBudget {
            allowed: Duration::from_millis(allowed),
            left: Duration::from_millis(left),
        }
    }

    fn late(allowed: u64, had: u64) -> OutOfTime {
        OutOfTime {
            kind: FailureKind::ConnectTimeout,
            had: budget(allowed, had),
        }
    }

    #[test]
    fn requests_with_the_same_timeout_were_allowed_the_same() {
        let time = ConnectTime {
            each: Some(Duration::from_secs(3)),
            until: None,
        };
        let mut times = StepTimes::begin(time);
        assert_eq!(times.budget().map(|it| it.allowed), time.each);
        times.end_wait();
        assert_eq!(times.budget().map(|it| it.allowed), time.each);
    }

    #[test]
    fn connecting_begins_anew_after_a_wait() {
        let time = ConnectTime {
            each: Some(Duration::from_secs(3)),
            until: None,
        };
        let mut times = StepTimes::begin(time);
        let before = times.wait().until;
        assert_eq!(times.connect().until, before);
        times.end_wait();
        assert_eq!(times.wait().until, before, "waits have one time together");
        assert!(times.connect().until > before);
    }

    #[test]
    fn those_with_enough_time_connect_again() {
        for (late, own, again) in [
            // The deadline of the first one's client.
            (late(100, 100), budget(90, 40), false),
            (late(1500, 1500), budget(2000, 500), true),
            (late(1900, 1900), budget(2000, 100), false),
            // The first one had waited for another before.
            (late(2000, 100), budget(2000, 1900), true),
            (late(2000, 100), budget(2000, 101), false),
            (late(2000, 0), budget(2000, 0), false),
            // An outage longer than the timeout.
            (late(2000, 2000), budget(2000, 1999), false),
            (late(2000, 1000), budget(2000, 1999), false),
        ] {
            assert_eq!(late.may_be_repeated(Some(own)), again, "{late:?}, {own:?}");
        }
        assert!(late(100, 100).may_be_repeated(None));
    }

    #[test]
    fn only_the_usual_time_counts_against_the_endpoint() {
        for (late, own, is_hurried, is_inherited) in [
            (late(2000, 2000), budget(2000, 500), false, false),
            (late(2000, 1999), budget(2000, 500), false, false),
            (late(2000, 1000), budget(2000, 1500), false, true),
            (late(100, 100), budget(90, 40), true, true),
        ] {
            let failure = late.failure(Some(own), is_hurried);
            assert_eq!(failure.is_inherited, is_inherited, "{late:?}, {own:?}");
        }
    }
}
