use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use xds::model::{HashBalance, LocalityMode, SlowStart, Spill};

use super::super::balance::tests::{endpoint, set_of};
use super::super::health::Outcome;
use super::*;
use crate::config::{CheckedEndpoints, EndpointIdentity, HashTable, Location, Place, Standing};
use crate::policy::hash_key::HashKeys;

/// A shard in zone `a`, and a service with endpoints in these zones.
struct Fixture {
    states: EndpointStates,
    set: EndpointSet,
    now: Instant,
    rng: SmallRng,
}

impl Fixture {
    fn new(zones: &str, spill: Spill, standings: Option<&[Standing]>) -> Self {
        let now = Instant::now();
        Self {
            states: EndpointStates::default(),
            set: set(zones, spill, standings, None, now),
            now,
            rng: SmallRng::seed_from_u64(11),
        }
    }

    /// How many of so many requests each endpoint gets, each of which ends at once, with this outcome.
    fn sends(&mut self, requests: usize, outcome: impl Fn(u32) -> Outcome) -> Vec<u32> {
        let mut counts = vec![0; self.set.serving().len()];
        for _ in 0..requests {
            self.now += Duration::from_millis(1);
            let (set, now) = (&self.set, self.now);
            let Some(chosen) = self.states.choose(set, &[], now, &mut self.rng) else {
                continue;
            };
            let in_use = self.states.start(set, chosen);
            in_use.report(&self.states, set, outcome(chosen.index), now);
            counts[chosen.index as usize] += 1;
        }
        counts
    }
}

fn set(
    zones: &str,
    spill: Spill,
    standings: Option<&[Standing]>,
    before: Option<&EndpointSet>,
    now: Instant,
) -> EndpointSet {
    let set = set_of(&vec![1; zones.len()]);
    let set = match standings {
        Some(standings) => set.checked(Arc::new(CheckedEndpoints::of_standings(standings, 0))),
        None => set,
    };
    let locations = zones.char_indices().map(|(at, zone)| Location {
        zone: zones.get(at..at + zone.len_utf8()),
        ..Location::default()
    });
    let serving = set.serving().iter().zip(locations);
    let serving = serving.map(|(it, location)| (it.id, it.weight, location));
    let serving: Vec<_> = serving.collect();
    let place = Place {
        zone: Some("a".into()),
        ..Place::default()
    };
    let before = before.and_then(EndpointSet::locality);
    let settings = (LocalityMode::PreferZone, spill);
    let locality = Locality::new(&place, settings, &serving, before, now);
    set.local(locality)
}

fn good(_: u32) -> Outcome {
    Outcome::Success(Duration::from_millis(1))
}

fn sum(counts: &[u32]) -> u32 {
    counts.iter().sum()
}

#[test]
fn all_requests_stay_in_the_zone_while_it_is_well() {
    let mut fixture = Fixture::new("aaaabbbb", Spill::Proportional, None);
    let counts = fixture.sends(4_000, good);
    assert_eq!(sum(&counts[4..]), 0, "{counts:?}");
    assert!(
        counts[..4].iter().all(|it| (800..=1200).contains(it)),
        "{counts:?}"
    );
}

/// The promise: those that remain of a zone that is drained get at most 1.4 times their usual load.
#[test]
fn those_left_of_a_drained_zone_get_at_most_1_4_times_their_load() {
    let mut fixture = Fixture::new("aaaabbbbbbbb", Spill::Proportional, None);
    let usual = f64::from(fixture.sends(12_000, good)[0]);
    for left in [3, 2, 1] {
        let zones = "a".repeat(left) + &"b".repeat(8);
        let set = set(
            &zones,
            Spill::Proportional,
            None,
            Some(&fixture.set),
            fixture.now,
        );
        fixture.set = set;
        fixture.states = EndpointStates::default();
        let counts = fixture.sends(12_000, good);
        assert_eq!(sum(&counts), 12_000);
        for count in &counts[..left] {
            let load = f64::from(*count) / usual;
            assert!((1.2..=1.5).contains(&load), "{left}: {counts:?} of {usual}");
        }
    }
}

#[test]
fn endpoints_out_of_service_by_probes_or_ejection_count() {
    use Standing::{Healthy, Unhealthy};
    let standings = [Unhealthy, Unhealthy, Healthy, Healthy, Healthy, Healthy];
    let mut fixture = Fixture::new("aaaabb", Spill::Proportional, Some(&standings));
    let counts = fixture.sends(10_000, good);
    assert_eq!(sum(&counts[..2]), 0, "{counts:?}");
    assert!(
        (6_800..=7_200).contains(&sum(&counts[2..4])),
        "70 %: {counts:?}"
    );
    // One more of the zone fails all of its requests: it is ejected, and a moment later its part goes elsewhere.
    let fails = |index| match index {
        2 => Outcome::Failure,
        _ => good(index),
    };
    fixture.sends(1_000, fails);
    fixture.now += Duration::from_secs(1);
    let counts = fixture.sends(10_000, good);
    assert_eq!(counts[2], 0, "{counts:?}");
    assert!((3_300..=3_700).contains(&counts[3]), "35 %: {counts:?}");
}

#[test]
fn a_strict_zone_keeps_its_requests_whatever_happens() {
    use Standing::{Healthy, Unhealthy};
    let mut fixture = Fixture::new("abb", Spill::Never, None);
    assert_eq!(fixture.sends(100, |_| Outcome::Failure), [100, 0, 0]);
    let standings = [Unhealthy, Healthy, Healthy];
    let mut fixture = Fixture::new("abb", Spill::Never, Some(&standings));
    assert_eq!(fixture.sends(100, good), [0, 0, 0]);
    let mut fixture = Fixture::new("b", Spill::Never, None);
    assert_eq!(fixture.sends(100, good), [0]);
    let mut fixture = Fixture::new("b", Spill::Proportional, None);
    assert_eq!(fixture.sends(100, good), [100]);
}

#[test]
fn a_retry_goes_elsewhere_even_if_that_is_another_zone() {
    let mut fixture = Fixture::new("ab", Spill::Proportional, None);
    let Fixture {
        states,
        set,
        now,
        rng,
    } = &mut fixture;
    for _ in 0..100 {
        let first = states.choose(set, &[], *now, rng).expect("one");
        assert_eq!(first, endpoint(0));
        let second = states.choose(set, &[first], *now, rng).expect("one");
        assert_eq!(second, endpoint(1));
    }
    let mut strict = Fixture::new("ab", Spill::Never, None);
    let again = strict
        .states
        .choose(&strict.set, &[endpoint(0)], strict.now, &mut strict.rng);
    assert_eq!(again, Some(endpoint(0)));
}

/// The set of these zones in place of that of a fixture, with slow start over 100 s.
fn with_slow_start(fixture: &Fixture, zones: &str) -> EndpointSet {
    let slow = SlowStart::new(Duration::from_secs(100), 10, 100).expect("in range");
    let before = Some(&fixture.set);
    let set = set(zones, Spill::Proportional, None, before, fixture.now);
    set.with_slow_start(slow, before, fixture.now)
}

/// One that has just become ready stands for the part that it takes: it does not get all requests of its zone while it is
/// cold.
#[test]
fn the_only_endpoint_of_a_zone_starts_slowly() {
    let mut fixture = Fixture::new("bbbb", Spill::Proportional, None);
    fixture.set = with_slow_start(&fixture, "bbbba");
    let counts = fixture.sends(2_000, good);
    assert!((200..=400).contains(&counts[4]), "1.4 × 10 %: {counts:?}");
    fixture.now += Duration::from_secs(48);
    let counts = fixture.sends(2_000, good);
    assert!(
        (1_300..=1_550).contains(&counts[4]),
        "1.4 × 51 %: {counts:?}"
    );
    fixture.now += Duration::from_secs(100);
    assert_eq!(fixture.sends(2_000, good)[4], 2_000);
}

#[test]
fn a_new_endpoint_does_not_draw_requests_of_its_zone_to_the_old_one() {
    let mut fixture = Fixture::new("abbbbaaa", Spill::Proportional, None);
    let usual = f64::from(fixture.sends(8_000, good)[0]);
    // Two zones keep their endpoints; of the four of this one, one is left, and one is new.
    fixture.set = with_slow_start(&fixture, "abbbb");
    fixture.set = with_slow_start(&fixture, "abbbba");
    let counts = fixture.sends(8_000, good);
    let load = f64::from(counts[0]) / usual;
    assert!((1.2..=1.5).contains(&load), "{counts:?} of {usual}");
}

/// The hash of a Service with session affinity.
fn hashed_near(set: &EndpointSet) -> Hashed {
    let members = set.serving().iter().map(|it| {
        let identity = EndpointIdentity::new("shop", &it.id.index.to_string());
        (identity, it.weight)
    });
    let slots = NonZeroU32::new(251).expect("not 0");
    Hashed {
        keys: HashKeys::compile(&HashBalance::by_client_address()),
        table: Arc::new(HashTable::build(slots, &members.collect::<Vec<_>>())),
        loads: None,
        stays_near: true,
    }
}

/// A client that stays at an endpoint (`ClientIP`) gets none of another zone either.
#[test]
fn a_strict_zone_keeps_clients_that_stay_at_an_endpoint() {
    use Standing::{Healthy, Unhealthy};
    let chosen = |zones: &str, standings: Option<&[Standing]>, fails: bool| {
        let mut fixture = Fixture::new(zones, Spill::Never, standings);
        let hashed = hashed_near(&fixture.set);
        if fails {
            fixture.sends(20, |_| Outcome::Failure);
        }
        let chosen = (0..50).map(|client: u8| {
            let (set, key) = ((&fixture.set, &hashed), RequestKey::of_text(&[client]));
            let chosen = fixture.states.choose_by_hash(set, key, &[], fixture.now);
            chosen.map(|(id, _)| id.index)
        });
        chosen.collect::<Vec<_>>()
    };
    assert_eq!(chosen("b", None, false), [None; 50], "the only one is far");
    assert_eq!(chosen("bb", None, false), [None; 50], "all are far");
    assert_eq!(chosen("abb", None, false), [Some(0); 50]);
    assert_eq!(chosen("abb", None, true), [Some(0); 50], "it is ejected");
    let standings = [Unhealthy, Healthy, Healthy];
    assert_eq!(chosen("abb", Some(&standings), false), [None; 50]);
}
