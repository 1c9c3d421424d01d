use std::time::{Duration, Instant};

use super::{EndpointStates, EndpointUse, Outcome};
use crate::config::EndpointSet;
use crate::failure::{Blame, FailureKind};
use crate::limits::EJECTION;
use crate::names::Interned;
use crate::upstream::balance::tests::{endpoint, set_of};

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    upstreams: EndpointStates,
    set: EndpointSet,
    now: Instant,
}

impl Fixture {
    fn new(endpoints: u32) -> Self {
        Self {
            upstreams: EndpointStates::default(),
            set: set_of(&vec![1; endpoints as usize]),
            now: Instant::now(),
        }
    }

    fn start(&self, index: u32) -> EndpointUse {
        self.upstreams.start(&self.set, endpoint(index))
    }

    fn report(&self, index: u32, outcome: Outcome) {
        self.start(index)
            .report(&self.upstreams, &self.set, outcome, self.now);
    }

    fn fail(&self, index: u32, times: u32) {
        for _ in 0..times {
            self.report(index, Outcome::Failure);
        }
    }

    fn ejected_for(&self, index: u32) -> Option<Duration> {
        self.upstreams
            .endpoint(endpoint(index))
            .report(self.now)
            .ejected_for
    }
}

#[test]
fn health_and_latency_are_decaying_averages() {
    let fixture = Fixture::new(1);
    let report = || fixture.upstreams.endpoint(endpoint(0)).report(fixture.now);
    assert!((report().health - 1.0).abs() < 1e-9);
    assert_eq!(report().latency, None);
    fixture.report(0, Outcome::Success(SECOND));
    assert_eq!(report().latency, Some(SECOND));
    fixture.report(0, Outcome::BadAnswer(2 * SECOND));
    assert!((report().health - 0.7).abs() < 1e-9);
    assert_eq!(report().latency, Some(Duration::from_millis(1300)));
    fixture.report(0, Outcome::Success(SECOND));
    assert!((report().health - 0.79).abs() < 1e-9);
    assert_eq!(report().consecutive_failures, 0);
    assert_eq!(report().requests, 3);
}

#[test]
fn a_new_endpoint_starts_from_the_mean_of_its_service() {
    let fixture = Fixture::new(2);
    fixture.report(0, Outcome::Success(SECOND));
    fixture.report(1, Outcome::Success(11 * SECOND));
    let report = fixture.upstreams.endpoint(endpoint(1)).report(fixture.now);
    assert_eq!(report.latency, Some(4 * SECOND));
}

#[test]
fn a_request_is_in_flight_until_it_is_dropped_even_by_a_panic() {
    let fixture = Fixture::new(1);
    let in_flight = || {
        fixture
            .upstreams
            .endpoint(endpoint(0))
            .report(fixture.now)
            .in_flight
    };
    let exchange = fixture.start(0);
    exchange.report(
        &fixture.upstreams,
        &fixture.set,
        Outcome::Success(SECOND),
        fixture.now,
    );
    assert_eq!(in_flight(), 1);
    drop(exchange);
    assert_eq!(in_flight(), 0);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _exchange = fixture.start(0);
        panic!("the connection's task");
    }));
    assert!(panicked.is_err());
    assert_eq!(in_flight(), 0);
}

#[test]
fn repeated_ejections_last_longer_each_time() {
    let mut fixture = Fixture::new(2);
    fixture.fail(0, 4);
    fixture.report(0, Outcome::Success(SECOND));
    fixture.fail(0, 4);
    assert_eq!(fixture.ejected_for(0), None);
    fixture.fail(0, 1);
    assert_eq!(fixture.ejected_for(0), Some(EJECTION.base));
    // Failures of requests in flight during the ejection change nothing.
    fixture.fail(0, 3);
    fixture.now += 29 * SECOND;
    assert_eq!(fixture.ejected_for(0), Some(SECOND));
    for times in 2..20 {
        fixture.now += fixture.ejected_for(0).expect("still ejected");
        assert_eq!(fixture.ejected_for(0), None, "back at the end of its time");
        fixture.fail(0, 1);
        let expected = (EJECTION.base * times).min(EJECTION.max);
        assert_eq!(fixture.ejected_for(0), Some(expected), "time {times}");
    }
}

#[test]
fn the_ejection_time_is_reset_after_a_calm_period() {
    let mut fixture = Fixture::new(2);
    for (pause, expected) in [(Duration::ZERO, 1), (SECOND, 2), (EJECTION.max + SECOND, 1)] {
        fixture.now += fixture.ejected_for(0).unwrap_or_default() + pause;
        fixture.report(0, Outcome::Success(SECOND));
        fixture.fail(0, 5);
        assert_eq!(
            fixture.ejected_for(0),
            Some(EJECTION.base * expected),
            "after {pause:?}"
        );
    }
}

#[test]
fn at_most_half_of_a_service_is_ejected() {
    for (endpoints, max) in [(1, 0), (2, 1), (3, 1), (4, 2), (9, 4)] {
        let fixture = Fixture::new(endpoints);
        for index in 0..endpoints {
            fixture.fail(index, 9);
        }
        assert_eq!(
            fixture.upstreams.ejected(&fixture.set, fixture.now),
            max,
            "of {endpoints}"
        );
    }
}

#[test]
fn a_reused_index_starts_with_fresh_health() {
    let fixture = Fixture::new(2);
    fixture.fail(0, 9);
    let next = Interned {
        generation: 1,
        ..endpoint(0)
    };
    let report = fixture.upstreams.endpoint(next).report(fixture.now);
    assert_eq!(report.ejected_for, None);
    assert_eq!(report.requests, 0);
}

#[test]
fn only_failures_of_the_endpoint_count_against_it() {
    for kind in FailureKind::ALL {
        let judged = Outcome::failed((*kind).into()).is_some();
        let innocent = matches!(kind, FailureKind::NoEndpoint | FailureKind::RequestTimeout);
        assert_eq!(
            judged,
            kind.blame() == Blame::Upstream && !innocent,
            "{kind:?}"
        );
    }
    for status in [200, 404, 500, 501, 505] {
        assert_eq!(
            Outcome::of_response(status, SECOND),
            Outcome::Success(SECOND),
            "{status}"
        );
    }
    for status in 502..=504 {
        assert_eq!(
            Outcome::of_response(status, SECOND),
            Outcome::BadAnswer(SECOND),
            "{status}"
        );
    }
}

#[test]
fn old_latency_measurements_lose_weight() {
    let mut fixture = Fixture::new(2);
    fixture.report(0, Outcome::Success(SECOND));
    fixture.report(1, Outcome::Success(9 * SECOND));
    let endpoint = fixture.upstreams.endpoint(endpoint(1));
    let mean = 1.0;
    let fresh = endpoint.expected_latency(mean, fixture.now);
    fixture.now += 20 * SECOND;
    let stale = endpoint.expected_latency(mean, fixture.now);
    assert!(fresh > 2.0, "{fresh}");
    assert!((stale - mean).abs() < 0.001, "{stale}");
}

/// Whether requests of a route with a timeout of 10 s have waited for that long, after another that waits
/// from and to these seconds.
fn waited(fixture: &Fixture, start: Instant, from: u32, to: u32) -> bool {
    let times = (start + SECOND * from, start + SECOND * to);
    fixture
        .start(0)
        .went_unanswered(&fixture.set, times, 10 * SECOND)
}

#[test]
fn unanswered_time_counts_once_and_until_the_next_answer() {
    let mut fixture = Fixture::new(1);
    let start = fixture.now;
    for (from, to) in [(0, 4), (0, 4), (1, 3), (2, 6)] {
        assert!(!waited(&fixture, start, from, to), "{to} s");
    }
    assert!(
        !waited(&fixture, start, 100, 103),
        "the pause does not count"
    );
    fixture.now = start + 200 * SECOND;
    fixture.report(0, Outcome::Failure);
    assert!(
        waited(&fixture, start, 199, 200),
        "a failure is no response"
    );
    fixture.report(0, Outcome::BadAnswer(SECOND));
    assert!(!waited(&fixture, start, 191, 209), "since the response");
    assert!(waited(&fixture, start, 209, 210));
}

#[test]
fn unanswered_time_is_forgotten_after_an_ejection_or_a_long_pause() {
    let mut fixture = Fixture::new(2);
    let start = fixture.now;
    assert!(waited(&fixture, start, 0, 10));
    fixture.now = start + 11 * SECOND;
    fixture.fail(0, EJECTION.consecutive_failures.get());
    assert_eq!(fixture.ejected_for(0), Some(EJECTION.base));
    assert!(!waited(&fixture, start, 5, 12), "from before the ejection");
    assert!(!waited(&fixture, start, 50, 51), "it is back");
    assert!(waited(&fixture, start, 51, 59), "it hangs again");
    assert!(
        !waited(&fixture, start, 10_000, 10_001),
        "after a long pause"
    );
}

#[test]
fn unanswered_time_counts_as_a_part_of_the_routes_timeout() {
    let fixture = Fixture::new(1);
    let start = fixture.now;
    let is_over = |from: u32, to: u32, timeout| {
        let times = (start + SECOND * from, start + SECOND * to);
        fixture
            .start(0)
            .went_unanswered(&fixture.set, times, timeout)
    };
    assert!(!is_over(0, 60, 3600 * SECOND));
    assert!(!is_over(60, 61, 10 * SECOND), "of a quicker route");
    assert!(is_over(61, 70, 10 * SECOND));
}
