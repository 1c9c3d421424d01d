//! The time that requests have for a connection which another one opens.

use std::time::Duration;

use crate::failure::{Failure, FailureKind};

/// The time of a request for getting a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// What it was when it began to wait.
    pub(super) allowed: Duration,
    /// What is left of it.
    pub(super) left: Duration,
}

/// A connection that was not open in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutOfTime {
    pub(super) kind: FailureKind,
    /// That of the request which opened it, when connecting began.
    pub(super) had: Patience,
}

/// Divisor of a request's time: the least that it connects with after another one, and the most by which
/// an attempt within the usual time is shorter, as by the time since the request began.
const PART: u32 = 8;

impl OutOfTime {
    /// Whether a request that waited for it connects again: if it has twice the time for that, or
    /// allowed more when it began and has not used most of it up. After an outage, requests that each
    /// tried with the little time they have left would not reach an endpoint farther away than that;
    /// so times double from one to the next, up to the whole of one.
    pub(super) fn may_be_repeated(&self, own: Option<Patience>) -> bool {
        own.is_none_or(|own| {
            own.left > self.had.left.saturating_mul(2)
                || own.allowed > self.had.allowed && own.left > own.allowed / PART
        })
    }

    /// The failure of a request that waited for it, and does not connect again. It says nothing about
    /// the endpoint if that had less time than usual for the request.
    pub(super) fn failure(&self, own: Option<Patience>, is_hurried: bool) -> Failure {
        let usual = |own: Patience| own.allowed / PART * (PART - 1);
        let is_early = own.is_none_or(|own| self.had.left < usual(own));
        Failure {
            is_inherited: is_hurried || is_early,
            ..self.kind.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OutOfTime, Patience};
    use crate::failure::FailureKind;
    use std::time::Duration;

    fn patience(allowed: u64, left: u64) -> Patience {
        Patience {
            allowed: Duration::from_millis(allowed),
            left: Duration::from_millis(left),
        }
    }

    fn late(allowed: u64, had: u64) -> OutOfTime {
        OutOfTime {
            kind: FailureKind::ConnectTimeout,
            had: patience(allowed, had),
        }
    }

    #[test]
    fn those_with_enough_time_connect_again() {
        for (late, own, again) in [
            // The deadline of the first one's client.
            (late(100, 100), patience(90, 40), false),
            (late(1500, 1500), patience(2000, 500), true),
            (late(1900, 1900), patience(2000, 100), false),
            // The first one had waited for another before.
            (late(2000, 100), patience(2000, 1900), true),
            (late(2000, 100), patience(2000, 101), false),
            (late(2000, 0), patience(2000, 0), false),
            // An outage longer than the timeout.
            (late(2000, 2000), patience(2000, 1999), false),
            (late(2000, 1000), patience(2000, 1999), false),
        ] {
            assert_eq!(late.may_be_repeated(Some(own)), again, "{late:?}, {own:?}");
        }
        assert!(late(100, 100).may_be_repeated(None));
    }

    #[test]
    fn only_the_usual_time_counts_against_the_endpoint() {
        for (late, own, is_hurried, is_inherited) in [
            (late(2000, 2000), patience(2000, 500), false, false),
            (late(2000, 1999), patience(2000, 500), false, false),
            (late(2000, 1000), patience(2000, 1500), false, true),
            (late(100, 100), patience(90, 40), true, true),
        ] {
            let failure = late.failure(Some(own), is_hurried);
            assert_eq!(failure.is_inherited, is_inherited, "{late:?}, {own:?}");
        }
    }
}
