use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use xds::model::{Retry, RetryConstraint, RetryRate};

use super::{AttemptOutcome, NoRetryReason, Replay, RequestInFlight, backoff, may_retry};
use crate::config::RetryLimit;
use crate::failure::FailureKind;
use crate::limits::{RETRY_BACKOFF, RETRY_BACKOFF_MAX, RETRY_BUDGET};
use crate::upstream::health::ServiceState;

const BUDGET: RetryLimit = RetryLimit::InFlight(RETRY_BUDGET);

fn policy(attempts: u32, codes: &[u16], backoff: Option<Duration>) -> Retry {
    let code = |code: &u16| StatusCode::from_u16(*code).expect("a status");
    Retry {
        attempts,
        codes: codes.iter().map(code).collect(),
        backoff,
    }
}

fn decide(policy: Option<&Retry>, ending: AttemptOutcome, retries: u32) -> Option<NoRetryReason> {
    let service = Rc::new(ServiceState::default());
    may_retry(policy, ending, retries, Replay::Possible, &service, &BUDGET).err()
}

#[test]
fn retry_statuses_and_attempts_come_from_the_route() {
    let policy = policy(2, &[500, 503], None);
    for (status, retries, expected) in [
        (500, 0, None),
        (503, 1, None),
        (500, 2, Some(NoRetryReason::Exhausted)),
        (502, 0, Some(NoRetryReason::NotConfigured)),
        (200, 0, Some(NoRetryReason::NotConfigured)),
    ] {
        let decided = decide(Some(&policy), AttemptOutcome::Answered(status), retries);
        assert_eq!(decided, expected, "{status} after {retries}");
    }
    assert_eq!(
        decide(None, AttemptOutcome::Answered(503), 0),
        Some(NoRetryReason::NotConfigured)
    );
}

#[test]
fn under_a_policy_broken_connections_are_always_retried() {
    let policy = policy(1, &[], None);
    for kind in [
        FailureKind::ConnectFailed,
        FailureKind::UpstreamReset,
        FailureKind::UpstreamTimeout,
    ] {
        assert_eq!(
            decide(Some(&policy), AttemptOutcome::Failed(kind), 0),
            None,
            "{kind:?}"
        );
    }
    let garbage = AttemptOutcome::Failed(FailureKind::UpstreamGarbage);
    assert_eq!(
        decide(Some(&policy), garbage, 0),
        Some(NoRetryReason::NotConfigured)
    );
}

#[test]
fn without_a_policy_only_unsent_requests_are_retried_once() {
    let refused = AttemptOutcome::Failed(FailureKind::ConnectFailed);
    assert_eq!(decide(None, refused, 0), None);
    assert_eq!(decide(None, refused, 1), Some(NoRetryReason::Exhausted));
    let reset = AttemptOutcome::Failed(FailureKind::UpstreamReset);
    assert_eq!(decide(None, reset, 0), Some(NoRetryReason::NotConfigured));
    let none = policy(0, &[503], None);
    assert_eq!(
        decide(Some(&none), refused, 0),
        Some(NoRetryReason::NotConfigured)
    );
}

#[test]
fn a_request_without_a_replayable_body_is_not_retried() {
    let service = Rc::new(ServiceState::default());
    let refused = AttemptOutcome::Failed(FailureKind::ConnectFailed);
    let gone = may_retry(None, refused, 0, Replay::Impossible, &service, &BUDGET);
    assert_eq!(gone.err(), Some(NoRetryReason::BodyNotKept));
}

#[test]
fn retries_in_flight_stay_within_the_budget() {
    let service = Rc::new(ServiceState::default());
    let policy = policy(1, &[503], None);
    let retry = || {
        let ending = AttemptOutcome::Answered(503);
        may_retry(
            Some(&policy),
            ending,
            0,
            Replay::Possible,
            &service,
            &BUDGET,
        )
    };
    let mut retries: Vec<_> = (0..10).map(|_| retry().expect("the floor")).collect();
    assert_eq!(retry().err(), Some(NoRetryReason::OverBudget));
    let requests: Vec<_> = (0..100)
        .map(|_| RequestInFlight::begin(&service, &BUDGET))
        .collect();
    retries.extend((0..10).map(|_| retry().expect("a fifth of a hundred")));
    assert_eq!(retry().err(), Some(NoRetryReason::OverBudget));
    retries.pop();
    retries.push(retry().expect("one has ended"));
    drop(requests);
    assert_eq!(retry().err(), Some(NoRetryReason::OverBudget));
    drop(retries);
    assert!(retry().is_ok());
}

#[test]
fn a_retry_constraint_limits_the_rate_regardless_of_retries_in_flight() {
    let service = Rc::new(ServiceState::default());
    let policy = policy(1, &[503], None);
    let constraint = |interval| {
        RetryLimit::Rate(Arc::new(RetryConstraint {
            percent: 50,
            interval,
            min_rate: RetryRate {
                count: NonZeroU32::MIN,
                interval: Duration::from_hours(1),
            },
        }))
    };
    let limit = constraint(Duration::from_hours(1));
    let retry = |limit: &RetryLimit| {
        let ending = AttemptOutcome::Answered(503);
        may_retry(Some(&policy), ending, 0, Replay::Possible, &service, limit).err()
    };
    for _ in 0..4 {
        drop(RequestInFlight::begin(&service, &limit));
    }
    let ends: Vec<_> = (0..6).map(|_| retry(&limit)).collect();
    assert_eq!(ends[..4], [None; 4], "half of eight attempts");
    assert_eq!(ends[4..], [Some(NoRetryReason::OverRate); 2]);
    let other = constraint(Duration::from_mins(30));
    assert_eq!(retry(&other), None, "another interval is counted anew");
    assert_eq!(retry(&other), Some(NoRetryReason::OverRate));
}

#[test]
fn the_default_backoff_is_random_and_exponential() {
    let mut rng = SmallRng::seed_from_u64(1);
    for retry in 1..=80 {
        let doubled = RETRY_BACKOFF.saturating_mul(2_u32.saturating_pow(retry - 1));
        assert!(backoff(None, retry, &mut rng) <= doubled.min(RETRY_BACKOFF_MAX));
    }
    let mean: Duration = (0..1000)
        .map(|_| backoff(None, 1, &mut rng))
        .sum::<Duration>()
        / 1000;
    assert!(
        mean.abs_diff(RETRY_BACKOFF / 2) < RETRY_BACKOFF / 20,
        "{mean:?}"
    );
}

#[test]
fn a_configured_backoff_is_the_minimum_delay() {
    let mut rng = SmallRng::seed_from_u64(1);
    for base in [Duration::from_millis(100), Duration::from_secs(5)] {
        let policy = policy(9, &[], Some(base));
        for retry in 1..9 {
            let wait = backoff(Some(&policy), retry, &mut rng);
            assert!(
                wait >= base && wait <= base + base.max(RETRY_BACKOFF_MAX),
                "{wait:?}"
            );
        }
    }
}
