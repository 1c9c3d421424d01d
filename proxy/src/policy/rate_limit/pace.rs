//! How fast the requests of a key may come: the generic cell rate algorithm (ITU-T I.371), in whole units of
//! time.
//!
//! A key has a debt of time, which passes: each request adds the time between two requests of the rate, and
//! is refused if the debt would exceed that of a whole burst. Times are counted in a unit of the rate, of
//! which the time between two requests is a power of two, so that no rate is rounded; and modulo 2^40, which
//! a debt cannot reach.

use std::time::Duration;

use xds::model::Rate;

/// The pace of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Units between two requests.
    step: u64,
    /// Units of a whole burst.
    burst: u64,
    /// The longest debt that is believed: a whole burst, and [`SKEW`]. What appears longer is an arrival of
    /// long ago.
    longest: u64,
    /// Units of a nanosecond, in units of 2^-[`FRACTION`].
    per_nano: u64,
    /// Nanoseconds of a period, and its units.
    period: (u64, u64),
}

impl Pace {
    /// The pace of a rate.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        let period = rate.per().length().as_nanos();
        let (requests, burst) = (rate.requests().get(), rate.burst().get());
        // As fine as a turn of years allows, and not finer than needed: a key that returns after most of a
        // turn would be taken for one that owes.
        let turn = u128::from(requests).saturating_mul(LONG_TURN.as_nanos());
        let steps = (period << TIME_BITS).checked_div(turn).unwrap_or_default();
        let step = 1_u128 << steps.clamp(1, FINEST_STEP).ilog2();
        let per_nano = u128::from(requests)
            .saturating_mul(step << FRACTION)
            .checked_div(period)
            .unwrap_or_default();
        let mut pace = Self {
            step: narrow(step),
            burst: narrow(step.saturating_mul(u128::from(burst))),
            longest: 0,
            per_nano: narrow(per_nano),
            period: (
                narrow(period),
                narrow(u128::from(requests).saturating_mul(step)).max(1),
            ),
        };
        pace.longest = pace.burst.saturating_add(pace.units(SKEW));
        pace
    }

    /// Units of a span of time, rounded down.
    #[must_use]
    pub fn units(&self, span: Duration) -> u64 {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        narrow(u128::from(nanos).wrapping_mul(u128::from(self.per_nano)) >> FRACTION)
    }

    /// A point in time, since some beginning of the process.
    #[must_use]
    pub(super) fn at(&self, since: Duration) -> u64 {
        self.units(since) & TIMES
    }

    /// The time of some units, to the nearest nanosecond.
    #[must_use]
    pub fn time(&self, units: u64) -> Duration {
        let (period, parts) = (u128::from(self.period.0), u128::from(self.period.1));
        let nanos = u128::from(units).saturating_mul(period);
        let nanos = nanos.saturating_add(parts >> 1).checked_div(parts);
        Duration::from_nanos(narrow(nanos.unwrap_or_default()))
    }

    /// The debt of a key whose next request was to arrive at `arrival`. Shards may see a time that is a
    /// little earlier than that of another.
    pub(super) fn debt(&self, arrival: u64, now: u64) -> u64 {
        let debt = arrival.wrapping_sub(now) & TIMES;
        if debt <= self.longest { debt } else { 0 }
    }

    /// The arrival of the next request of a key with this debt.
    pub(super) fn arrival(debt: u64, now: u64) -> u64 {
        now.wrapping_add(debt) & TIMES
    }

    /// The debt after one more request.
    ///
    /// # Errors
    /// It is refused: units until the next one is allowed.
    pub(super) fn step(&self, debt: u64) -> Result<u64, u64> {
        let after = debt.saturating_add(self.step);
        match after.checked_sub(self.burst) {
            None | Some(0) => Ok(after),
            Some(beyond) => Err(beyond),
        }
    }

    /// The time between two requests.
    pub(super) fn one_step(&self) -> u64 {
        self.step
    }

    /// The debt without one request.
    pub(super) fn step_back(&self, debt: u64) -> u64 {
        debt.saturating_sub(self.step)
    }

    /// Requests that are allowed at once with this debt.
    #[must_use]
    pub fn remaining(&self, debt: u64) -> u64 {
        let spare = self.burst.saturating_sub(debt);
        spare.checked_div(self.step).unwrap_or_default()
    }

    /// The time after which a whole burst is allowed.
    #[must_use]
    pub fn whole(&self) -> Duration {
        self.time(self.burst)
    }

    /// The debt of another pace's units, at most a whole burst.
    pub(super) fn convert(&self, debt: u64, from: &Self) -> u64 {
        self.units(from.time(debt)).min(self.burst)
    }
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Bits of a time: 40.
pub(super) const TIME_BITS: u32 = 40;
/// The times of a turn, after which they begin again.
pub(super) const TIMES: u64 = (1 << TIME_BITS) - 1;
/// Bits of fractions of units: 72. A nanosecond has at most 1/1000 units, so that all fit into 64 bits; and at
/// least 2^-37, so that no rate is off by more than 1 in 2^35.
const FRACTION: u32 = 72;
/// A turn lasts as long where units allow it: 4 years. A rule of more than 8000 requests a second has coarser
/// units than that, of the time between two requests, and a shorter turn: 12.7 days at a million. A key that
/// returns within a burst and [`SKEW`] of a whole turn may be refused for that long.
const LONG_TURN: Duration = Duration::from_hours(4 * 365 * 24);
/// Units of the time between two requests, at most: 1024.
const FINEST_STEP: u128 = 1024;
/// How far the time of one shard may be behind another's: 10 s, far more than there is between reading the
/// clock and counting.
const SKEW: Duration = Duration::from_secs(10);
