use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use xds::model::{Ejection, Health, SlowStart};

use crate::config::{CheckedEndpoints, EndpointIdentity, EndpointRef, EndpointSet, Standing};
use crate::limits::EJECTION;
use crate::names::Interned;
use crate::upstream::health::{EndpointStates, EndpointUse, Outcome};

const MS: Duration = Duration::from_millis(1);

pub(in crate::upstream) fn endpoint(index: u32) -> Interned {
    Interned {
        index,
        generation: 0,
    }
}

fn member(index: u32, weight: u32, health: Health) -> (EndpointRef, Health, EndpointIdentity) {
    let endpoint = EndpointRef {
        id: endpoint(index),
        weight: NonZeroU32::new(weight).expect("not zero"),
    };
    (
        endpoint,
        health,
        EndpointIdentity::new("s", &index.to_string()),
    )
}

pub(in crate::upstream) fn set_of(weights: &[u32]) -> EndpointSet {
    set_with(weights, EJECTION)
}

fn set_with(weights: &[u32], ejection: Ejection) -> EndpointSet {
    let members: Vec<_> = (0..)
        .zip(weights)
        .map(|(index, weight)| member(index, *weight, Health::Ready))
        .collect();
    EndpointSet::new(endpoint(0), ejection, &members)
}

/// Sends requests through a service and counts them by endpoint.
struct Fixture {
    upstreams: EndpointStates,
    set: EndpointSet,
    now: Instant,
    rng: SmallRng,
}

impl Fixture {
    fn new(set: EndpointSet) -> Self {
        Self {
            upstreams: EndpointStates::default(),
            set,
            now: Instant::now(),
            rng: SmallRng::seed_from_u64(7),
        }
    }

    fn choose(&mut self, tried: &[Interned]) -> Option<u32> {
        let choice = self
            .upstreams
            .choose(&self.set, tried, self.now, &mut self.rng);
        choice.map(|id| id.index)
    }

    fn report(&self, index: u32, outcome: Outcome) {
        let exchange = self.upstreams.start(&self.set, endpoint(index));
        exchange.report(&self.upstreams, &self.set, outcome, self.now);
    }

    fn fail(&self, index: u32) {
        for _ in 0..EJECTION.consecutive_failures.get() {
            self.report(index, Outcome::Failure);
        }
    }

    /// The share of each endpoint in `requests`, of which `concurrency` are in flight. `serve` is
    /// the outcome for each endpoint; `None` means that it never responds.
    fn shares(
        &mut self,
        requests: u32,
        concurrency: usize,
        mut serve: impl FnMut(u32) -> Option<Outcome>,
    ) -> Vec<f64> {
        let mut counts = vec![0_u32; self.set.serving().len()];
        let mut in_flight: VecDeque<EndpointUse> = VecDeque::new();
        let mut stuck = Vec::new();
        for _ in 0..requests {
            let index = self.choose(&[]).expect("there are endpoints");
            counts[index as usize] += 1;
            let exchange = self.upstreams.start(&self.set, endpoint(index));
            let Some(outcome) = serve(index) else {
                stuck.push(exchange);
                continue;
            };
            exchange.report(&self.upstreams, &self.set, outcome, self.now);
            in_flight.push_back(exchange);
            if in_flight.len() >= concurrency {
                in_flight.pop_front();
            }
        }
        let share = |count: &u32| f64::from(*count) / f64::from(requests);
        counts.iter().map(share).collect()
    }
}

fn assert_shares(shares: &[f64], expected: &[f64], what: &str) {
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() < 0.05, "{what}: {shares:?}");
    }
}

const GOOD: Outcome = Outcome::Success(MS);
const SLOW: Outcome = Outcome::Success(Duration::from_millis(50));

#[test]
fn equal_endpoints_are_chosen_by_weight_at_any_load() {
    for (weights, expected) in [
        (&[1, 1][..], &[0.5, 0.5][..]),
        (&[1, 3], &[0.25, 0.75]),
        (&[1, 1, 2], &[0.25, 0.25, 0.5]),
        (&[1, 9], &[0.1, 0.9]),
        (&[1, 1, 1, 1], &[0.25; 4]),
    ] {
        for concurrency in [1, 20] {
            let mut fixture = Fixture::new(set_of(weights));
            let mut noise = (8..13).cycle();
            let shares = fixture.shares(20_000, concurrency, |_| {
                noise.next().map(|ms| Outcome::Success(MS * ms))
            });
            assert_shares(&shares, expected, &format!("{weights:?} × {concurrency}"));
        }
    }
}

#[test]
fn a_slow_endpoint_gets_fewer_requests_and_recovers() {
    let mut fixture = Fixture::new(set_of(&[1, 1, 1]));
    let shares = fixture.shares(5_000, 1, |index| Some(if index == 0 { SLOW } else { GOOD }));
    assert!(shares[0] < 0.03 && shares[0] > 0.002, "{shares:?}");
    fixture.shares(2_000, 1, |_| Some(GOOD));
    let shares = fixture.shares(5_000, 1, |_| Some(GOOD));
    assert_shares(&shares, &[1.0 / 3.0; 3], "it recovers");
}

/// An endpoint of a set that has just become ready, after another one.
fn newcomer(others: u32, now: Instant) -> EndpointSet {
    let slow = SlowStart::new(Duration::from_secs(100), 10, 100).expect("in range");
    let set = |number| {
        let members: Vec<_> = (0..number).map(|i| member(i, 1, Health::Ready)).collect();
        EndpointSet::new(endpoint(0), EJECTION, &members)
    };
    let before = set(others).with_slow_start(slow, None, now);
    set(others + 1).with_slow_start(slow, Some(&before), now)
}

#[test]
fn a_new_endpoint_gets_its_share_slowly_at_any_load() {
    for (others, concurrency) in [(1, 1), (1, 20), (9, 1), (9, 50)] {
        let now = Instant::now();
        let mut fixture = Fixture::new(newcomer(others, now));
        for (age, part) in [(0, 0.1), (50, 0.5), (100, 1.0)] {
            fixture.now = now + Duration::from_secs(age);
            let shares = fixture.shares(20_000, concurrency, |_| Some(GOOD));
            let expected = part / (f64::from(others) + part);
            let share = shares[others as usize];
            // Under load, the one that is drawn second is preferred if it has less to do.
            let most = if concurrency == 1 { 1.25 } else { 2.1 };
            assert!(
                share > expected * 0.75 && share < expected * most,
                "{others} × {concurrency} after {age} s: {share} instead of {expected}"
            );
        }
    }
}

#[test]
fn an_endpoint_that_was_ejected_gets_half_of_its_share_at_first() {
    let now = Instant::now();
    let slow = SlowStart::new(Duration::from_secs(100), 10, 100).expect("in range");
    let set = set_of(&[1, 1, 1]).with_slow_start(slow, None, now);
    let mut fixture = Fixture::new(set);
    fixture.fail(1);
    fixture.now += EJECTION.base;
    // Its health is that of one that fails, which counts less than its part.
    for _ in 0..100 {
        fixture.report(1, GOOD);
    }
    let shares = fixture.shares(20_000, 1, |_| Some(GOOD));
    assert_shares(&shares, &[0.4, 0.2, 0.4], "half");
    fixture.now += Duration::from_secs(50);
    let shares = fixture.shares(20_000, 1, |_| Some(GOOD));
    assert_shares(&shares, &[1.0 / 3.0; 3], "all of it");
}

#[test]
fn an_endpoint_that_never_responds_gets_no_more_requests() {
    let mut fixture = Fixture::new(set_of(&[1, 1]));
    let shares = fixture.shares(1_000, 1, |index| if index == 0 { None } else { Some(GOOD) });
    assert!(shares[0] <= 0.002, "{shares:?}");
}

#[test]
fn a_failing_endpoint_is_ejected_for_the_ejection_time() {
    let mut fixture = Fixture::new(set_of(&[1, 1, 1]));
    fixture.fail(1);
    let shares = fixture.shares(1_000, 1, |_| Some(GOOD));
    assert_shares(&shares, &[0.5, 0.0, 0.5], "ejected");
    fixture.now += EJECTION.base;
    let shares = fixture.shares(10_000, 1, |_| Some(GOOD));
    assert!(shares[1] > 0.25, "it recovers: {shares:?}");
}

#[test]
fn ejection_is_ignored_when_less_than_half_remain() {
    let all = Ejection {
        max_percent: 100,
        ..EJECTION
    };
    let mut fixture = Fixture::new(set_with(&[1, 1, 1, 1], all));
    fixture.fail(0);
    fixture.fail(1);
    let shares = fixture.shares(1_000, 1, |_| Some(GOOD));
    assert_shares(&shares, &[0.0, 0.0, 0.5, 0.5], "half are left");
    fixture.fail(2);
    fixture.fail(3);
    for index in 0..4 {
        assert!(
            (0..1_000).any(|_| fixture.choose(&[]) == Some(index)),
            "panic uses {index}"
        );
    }
}

#[test]
fn retries_go_to_other_endpoints_first() {
    let mut fixture = Fixture::new(set_of(&[1, 100, 100]));
    for _ in 0..200 {
        assert_eq!(fixture.choose(&[endpoint(1), endpoint(2)]), Some(0));
    }
    fixture.fail(0);
    // The untried endpoint is ejected, so the one that failed once is chosen.
    assert_ne!(fixture.choose(&[endpoint(1), endpoint(2)]), Some(0));
    let everyone = [endpoint(0), endpoint(1), endpoint(2)];
    assert!(fixture.choose(&everyone).is_some());
}

#[test]
fn a_single_failing_endpoint_is_still_chosen() {
    let mut fixture = Fixture::new(set_of(&[1]));
    fixture.fail(0);
    assert_eq!(fixture.choose(&[endpoint(0)]), Some(0));
    assert_eq!(Fixture::new(set_of(&[])).choose(&[]), None);
}

#[test]
fn draining_endpoints_are_used_if_none_is_ready() {
    let set = |healths: &[Health]| {
        let members: Vec<_> = (0..).zip(healths).map(|(i, h)| member(i, 1, *h)).collect();
        EndpointSet::new(endpoint(0), EJECTION, &members)
    };
    let mut fixture = Fixture::new(set(&[Health::Draining, Health::Ready, Health::NotReady]));
    assert!((0..100).all(|_| fixture.choose(&[]) == Some(1)));
    let mut fixture = Fixture::new(set(&[Health::Draining, Health::NotReady]));
    assert_eq!(fixture.choose(&[]), Some(0));
    assert_eq!(Fixture::new(set(&[Health::NotReady])).choose(&[]), None);
}

#[test]
fn a_session_keeps_its_endpoint_while_it_is_serving() {
    let members = [
        member(0, 1, Health::Ready),
        member(1, 1, Health::Draining),
        member(2, 1, Health::NotReady),
    ];
    let set = EndpointSet::new(endpoint(0), EJECTION, &members);
    assert_eq!(set.find(EndpointIdentity::new("s", "0")), Some(endpoint(0)));
    assert_eq!(set.find(EndpointIdentity::new("s", "1")), Some(endpoint(1)));
    assert_eq!(set.find(EndpointIdentity::new("s", "2")), None);
    assert_eq!(set.find(EndpointIdentity::new("t", "0")), None);
    let fixture = Fixture::new(set_of(&[1, 1]));
    fixture.fail(0);
    assert!(!fixture.upstreams.in_service(endpoint(0), fixture.now));
    assert!(fixture.upstreams.in_service(endpoint(1), fixture.now));
}

/// A set of as many endpoints as there are standings.
fn checked(standings: &[Standing], panic_percent: u32) -> (EndpointSet, Arc<CheckedEndpoints>) {
    let endpoints = CheckedEndpoints::of_standings(standings, panic_percent);
    let endpoints = Arc::new(endpoints);
    let set = set_of(&vec![1; standings.len()]);
    (set.checked(Arc::clone(&endpoints)), endpoints)
}

#[test]
fn an_endpoint_whose_probes_fail_gets_nothing() {
    let standings = [Standing::Healthy, Standing::Unhealthy, Standing::Untried];
    let (set, _) = checked(&standings, 30);
    let shares = Fixture::new(set).shares(3_000, 4, |_| Some(Outcome::Success(MS)));
    assert!(
        shares[1] == 0.0 && shares[0] > 0.4 && shares[2] > 0.4,
        "{shares:?}"
    );
}

#[test]
fn retries_and_ejection_stay_within_those_that_probes_leave() {
    let standings = [Standing::Healthy, Standing::Unhealthy, Standing::Healthy];
    let (set, _) = checked(&standings, 30);
    let mut fixture = Fixture::new(set);
    assert_eq!(
        fixture
            .choose(&[endpoint(0), endpoint(2)])
            .map(|it| it != 1),
        Some(true)
    );
    fixture.fail(0);
    for _ in 0..100 {
        assert_eq!(
            fixture.choose(&[]),
            Some(2),
            "0 is ejected: one of two may be"
        );
    }
    fixture.fail(2);
    for _ in 0..100 {
        assert_ne!(fixture.choose(&[]), Some(1));
    }
}

#[test]
fn without_panic_nothing_is_chosen_if_all_probes_fail() {
    for count in [1, 3] {
        let standings = vec![Standing::Unhealthy; count];
        let (set, _) = checked(&standings, 0);
        assert_eq!(Fixture::new(set).choose(&[]), None, "{count}");
        let (set, _) = checked(&standings, 30);
        assert!(
            Fixture::new(set).choose(&[]).is_some(),
            "{count}: probes are ignored"
        );
    }
}
