//! The decision to retry a request, and the backoff.
//!
//! A retry must be allowed by the failure, the route, the body and the service's budget, in this
//! order. The budget bounds retries by a share of the requests, so that retries cannot turn a brief
//! failure into an outage: retries in flight by requests in flight, or where a retry constraint says
//! so, their rates.

mod rate;
mod window;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt};
use xds::model::{Retry, RetryBudget, RetryConstraint};

use super::health::ServiceState;
use crate::config::RetryLimit;
use crate::failure::{self, FailureKind};
use crate::limits::{DEFAULT_RETRIES, RETRY_BACKOFF, RETRY_BACKOFF_MAX};

use self::rate::Rate;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// With a failure, without a response.
    Failed(FailureKind),
    /// With a response of this status.
    Answered(u16),
}

/// Whether the request can be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Yes: it has no body, or all that was sent is kept.
    Possible,
    /// No: part of the body that was sent is not kept.
    Impossible,
}

/// Why a request is not retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRetryReason {
    /// A retry would not help, or the route does not allow one.
    NotConfigured,
    /// The number of attempts is exhausted.
    Exhausted,
    /// The body was not kept.
    BodyNotKept,
    /// The service's retry budget is exhausted.
    OverBudget,
    /// The service's retry constraint does not allow it, and the client receives 503.
    OverRate,
}

impl NoRetryReason {
    /// The description in traces.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotConfigured => "not_asked",
            Self::Exhausted => "exhausted",
            Self::BodyNotKept => "body_gone",
            Self::OverBudget => "over_budget",
            Self::OverRate => "over_rate",
        }
    }

    /// The failure that takes the place of the attempt's ending (GEP-3388).
    pub(crate) fn failure(self) -> Option<FailureKind> {
        (self == Self::OverRate).then_some(FailureKind::RetriesOverBudget)
    }
}

/// Decides on a retry after `retries` of them, and registers it with the service. Keep the returned
/// value while the retry is in flight.
///
/// # Errors
///
/// The request must not be retried.
pub fn may_retry(
    policy: Option<&Retry>,
    ending: AttemptOutcome,
    retries: u32,
    replay: Replay,
    service: &Rc<ServiceState>,
    limit: &RetryLimit,
) -> Result<RetryInFlight, NoRetryReason> {
    let max = max_retries(policy, ending);
    if max == 0 {
        return Err(NoRetryReason::NotConfigured);
    }
    if retries >= max {
        return Err(NoRetryReason::Exhausted);
    }
    if replay == Replay::Impossible {
        return Err(NoRetryReason::BodyNotKept);
    }
    match limit {
        RetryLimit::InFlight(budget) => {
            RetryInFlight::within(service, *budget).ok_or(NoRetryReason::OverBudget)
        }
        RetryLimit::Rate(constraint) => {
            let allowed = service
                .load
                .with_rate(constraint, |rate, now| rate.retry(constraint, now));
            let retry = allowed.then(|| RetryInFlight::begin(service));
            retry.ok_or(NoRetryReason::OverRate)
        }
    }
}

/// Most retries in total for this ending.
fn max_retries(policy: Option<&Retry>, ending: AttemptOutcome) -> u32 {
    match (ending, policy) {
        (AttemptOutcome::Answered(status), Some(policy)) => {
            let listed = policy.codes.iter().any(|code| code.as_u16() == status);
            if listed { policy.attempts } else { 0 }
        }
        (AttemptOutcome::Answered(_), None) => 0,
        (AttemptOutcome::Failed(kind), policy) => match (kind.retry(), policy) {
            (failure::Retry::Safe | failure::Retry::Policy, Some(policy)) => policy.attempts,
            (failure::Retry::Safe, None) => DEFAULT_RETRIES,
            _ => 0,
        },
    }
}

/// The wait before retry number `retry` (from 1): full jitter over a base that doubles. A route's
/// backoff is the base, and also the least wait (GEP-1731).
pub fn backoff(policy: Option<&Retry>, retry: u32, rng: &mut impl Rng) -> Duration {
    let named = policy.and_then(|policy| policy.backoff);
    let base = named.unwrap_or(RETRY_BACKOFF);
    let doubled = base.saturating_mul(2_u32.saturating_pow(retry.saturating_sub(1)));
    let spread = doubled.min(RETRY_BACKOFF_MAX.max(base));
    let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
    let jitter = Duration::from_nanos(rng.random_range(0..=nanos));
    named.unwrap_or_default().saturating_add(jitter)
}

/// Requests and retries of a service in flight on this shard.
#[derive(Debug, Default)]
pub(super) struct Load {
    requests: Cell<u32>,
    retries: Cell<u32>,
    /// Recent retries, where a constraint bounds their rate.
    rate: RefCell<Option<Box<Rate>>>,
}

impl Load {
    fn with_rate<R>(
        &self,
        constraint: &RetryConstraint,
        count: impl FnOnce(&mut Rate, Instant) -> R,
    ) -> R {
        let now = Instant::now();
        let mut rate = self.rate.borrow_mut();
        let kept = rate.take().filter(|rate| rate.fits(constraint));
        let rate = rate.insert(kept.unwrap_or_else(|| Box::new(Rate::new(constraint, now))));
        count(rate, now)
    }
}

/// A request in flight to a service, including its retries, or a TCP connection until it is connected.
#[derive(Debug)]
pub struct RequestInFlight(Rc<ServiceState>);

impl RequestInFlight {
    /// Registers a request with its service.
    #[must_use]
    pub fn begin(service: &Rc<ServiceState>, limit: &RetryLimit) -> Self {
        let requests = &service.load.requests;
        requests.set(requests.get().saturating_add(1));
        if let RetryLimit::Rate(constraint) = limit {
            service.load.with_rate(constraint, Rate::request);
        }
        Self(Rc::clone(service))
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        let requests = &self.0.load.requests;
        requests.set(requests.get().saturating_sub(1));
    }
}

/// A retry in flight to a service.
#[derive(Debug)]
pub struct RetryInFlight(Rc<ServiceState>);

impl RetryInFlight {
    fn within(service: &Rc<ServiceState>, budget: RetryBudget) -> Option<Self> {
        let (requests, retries) = (service.load.requests.get(), service.load.retries.get());
        let share = u64::from(requests) * u64::from(budget.percent) / 100;
        let is_within = u64::from(retries) < share.max(u64::from(budget.floor));
        is_within.then(|| Self::begin(service))
    }

    fn begin(service: &Rc<ServiceState>) -> Self {
        let retries = &service.load.retries;
        retries.set(retries.get().saturating_add(1));
        Self(Rc::clone(service))
    }
}

impl Drop for RetryInFlight {
    fn drop(&mut self) {
        let retries = &self.0.load.retries;
        retries.set(retries.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
