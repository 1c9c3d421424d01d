//! Lowers the limit of retries of an XBackendTrafficPolicy.

use std::num::NonZeroU32;
use std::time::Duration;

use xds::model::{RetryConstraint, RetryRate};

use super::api;
use crate::route::rule::duration;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers a constraint, with the defaults of Gateway API.
pub(crate) fn lower(spec: &api::RetryConstraint) -> Result<RetryConstraint, Problem> {
    let api::RetryConstraint {
        budget,
        min_retry_rate,
    } = spec;
    let percent = budget.percent.unwrap_or(PERCENT);
    if percent > 100 {
        let message = format!("{percent} is too large: use 100 or less");
        return Err(Problem::new(Reason::Invalid, "budget.percent", message));
    }
    let time = |text: &Option<String>, field, bounds, default| match text {
        Some(text) => interval(text, field, bounds),
        None => Ok(default),
    };
    let (every, least) = (&budget.interval, &min_retry_rate.interval);
    Ok(RetryConstraint {
        percent,
        interval: time(every, "budget.interval", BUDGET_INTERVALS, INTERVAL)?,
        min_rate: RetryRate {
            count: min_retry_rate.count.unwrap_or(RATE_COUNT),
            interval: time(
                least,
                "minRetryRate.interval",
                RATE_INTERVALS,
                RATE_INTERVAL,
            )?,
        },
    })
}

/// Parses an interval within bounds.
pub(crate) fn interval(
    text: &str,
    field: &str,
    (shortest, longest): (Duration, Duration),
) -> Result<Duration, Problem> {
    let invalid = |problem: Problem| Problem {
        reason: Reason::Invalid,
        ..problem
    };
    let interval = duration(text, field).map_err(invalid)?.0;
    if (shortest..=longest).contains(&interval) {
        return Ok(interval);
    }
    let message = format!(
        "{text} is out of bounds: use {shortest:?} to {}m",
        longest.as_secs() / 60
    );
    Err(Problem::new(Reason::Invalid, field, message))
}

/// Bounds of the budget's interval.
pub(crate) const BUDGET_INTERVALS: (Duration, Duration) = (Duration::from_secs(1), HOUR);
/// Bounds of the interval of the least rate.
pub(crate) const RATE_INTERVALS: (Duration, Duration) = (Duration::from_millis(1), HOUR);
const HOUR: Duration = Duration::from_hours(1);
const PERCENT: u32 = 20;
const INTERVAL: Duration = Duration::from_secs(10);
const RATE_COUNT: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
const RATE_INTERVAL: Duration = Duration::from_secs(1);
