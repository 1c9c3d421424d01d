use std::net::SocketAddr;
use std::num::NonZeroU32;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use xds::model::{Health, HealthCheck, InitialHealth};

use super::super::limited::{CheckLimit, limited};
use super::super::state::{CheckedEndpoints, ProbeState};
use super::super::tests::check;
use super::*;
use crate::config::{
    Address, ClusterHealthCheck, Endpoint, EndpointIdentity, EndpointProbe, EndpointSet,
    Protection, Protocol, RetryLimit,
};
use crate::limits::{EJECTION, RETRY_BUDGET};
use crate::names::Interned;

fn id(index: u32) -> Interned {
    Interned {
        index,
        generation: 0,
    }
}

/// A cluster of a service with so many endpoints, whose states are shared with an earlier one.
fn cluster(
    (number, name): (u32, &str),
    count: u32,
    check: &HealthCheck,
    before: Option<&Cluster>,
) -> Arc<Cluster> {
    let endpoint = |index: u32| {
        let known = before.and_then(|before| before.endpoint(id(number * 10_000 + index)));
        let known = known.and_then(|endpoint| endpoint.probe.clone());
        let octets = index.to_be_bytes();
        let address = SocketAddr::from(([10, octets[1], octets[2], octets[3]], 80));
        Endpoint {
            id: id(number * 10_000 + index),
            address: Address::Tcp(address),
            identity: EndpointIdentity::new(name, &address.to_string()),
            name: address.to_string().into(),
            weight: NonZeroU32::MIN,
            health: Health::Ready,
            zone: None,
            probe: Some(known.unwrap_or_else(|| {
                Box::new(EndpointProbe {
                    state: Arc::new(ProbeState::new(check.initial)),
                    host: "shop".into(),
                })
            })),
        }
    };
    let endpoints: Vec<Endpoint> = (0..count).map(endpoint).collect();
    let states = endpoints.iter().filter_map(|it| it.probe.as_ref());
    let states = states.map(|probe| Arc::clone(&probe.state)).collect();
    Arc::new(Cluster {
        id: id(number),
        name: format!("{name}:80").into(),
        protection: Protection::Plain,
        protocol: Protocol::Http1,
        set: EndpointSet::new(id(number), EJECTION, &[]),
        endpoints: endpoints.into(),
        connections_per_shard: NonZeroU32::MIN,
        endpoint_connections: None,
        endpoint_pending_per_shard: NonZeroU32::MIN,
        pending_per_shard: NonZeroU32::MIN,
        proxy_protocol: None,
        retry_limit: RetryLimit::InFlight(RETRY_BUDGET),
        picker: None,
        hashed: None,
        health_check: Some(Box::new(ClusterHealthCheck {
            object: name.into(),
            check: Arc::new(check.clone()),
            endpoints: Arc::new(CheckedEndpoints::new(states, check, None)),
            counts: Arc::default(),
        })),
    })
}

struct Fixture {
    schedule: Schedule,
    now: Instant,
    rng: SmallRng,
}

impl Fixture {
    fn new(clusters: &[&Arc<Cluster>]) -> Self {
        let mut fixture = Self {
            schedule: Schedule::new(),
            now: Instant::now(),
            rng: SmallRng::seed_from_u64(7),
        };
        fixture.desires(clusters);
        fixture
    }

    fn desires(&mut self, clusters: &[&Arc<Cluster>]) -> Vec<Stretched> {
        let clusters = clusters.iter().copied().map(Arc::clone).collect();
        let changes = self.schedule.set_desired(clusters, self.now, &mut self.rng);
        changes.stretched
    }

    /// Runs all probes for a time, with the same result. Returns how many began, and the transitions.
    fn runs(&mut self, time: Duration, failure: Option<&str>) -> (usize, Vec<Transition>) {
        let (mut begun, mut transitions) = (0, Vec::new());
        let end = self.now + time;
        while let Some(next) = self.schedule.next_at().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            for (probe, _) in self.schedule.take_due(self.now) {
                begun += 1;
                transitions.extend(self.ends(probe, failure));
            }
        }
        self.now = end;
        (begun, transitions)
    }

    fn ends(&mut self, probe: ProbeId, failure: Option<&str>) -> Option<Transition> {
        let recorded = self
            .schedule
            .record(probe, failure, self.now, &mut self.rng);
        recorded.map(|(transition, _)| transition)
    }
}

const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn an_endpoint_is_probed_within_a_second_and_then_at_its_interval() {
    let cluster = cluster((0, "Service/a/shop"), 10, &check(), None);
    let mut fixture = Fixture::new(&[&cluster]);
    assert_eq!(fixture.runs(Duration::from_secs(1), None).0, 10);
    assert_eq!(fixture.runs(Duration::from_secs(6), None).0, 0, "8 s later");
    let (begun, transitions) = fixture.runs(MINUTE, None);
    assert!((50..=70).contains(&begun), "{begun} of 10 every 10 s");
    assert_eq!(transitions, [], "they were in service all the time");
}

#[test]
fn a_transition_tells_its_cause() {
    let cluster = cluster((0, "Service/a/shop"), 1, &check(), None);
    let mut fixture = Fixture::new(&[&cluster]);
    let (_, out) = fixture.runs(MINUTE, Some("status 500 is none of those expected"));
    let (_, back) = fixture.runs(MINUTE, None);
    let texts: Vec<_> = out
        .iter()
        .chain(&back)
        .map(|it| (it.is_healthy, &*it.cause))
        .collect();
    let failed = "3 probes in a row failed, 10s apart: status 500 is none of those expected";
    let succeeded = "2 probes in a row succeeded, 10s apart";
    assert_eq!(texts, [(false, failed), (true, succeeded)]);
    assert_eq!(&*out[0].name, "Service/a/shop:80");
    assert_eq!(out[0].address, "10.0.0.0:80");
    let checks = cluster.health_check.as_ref().expect("a check");
    assert!(checks.counts.failed() >= 3 && checks.counts.succeeded() >= 2);
}

#[test]
fn a_change_of_others_keeps_what_is_known_and_one_of_the_check_begins_again() {
    let first = cluster((0, "Service/a/shop"), 1, &check(), None);
    let mut fixture = Fixture::new(&[&first]);
    fixture.runs(Duration::from_secs(1), Some("no"));
    fixture.now += Duration::from_secs(12);
    fixture.runs(Duration::ZERO, Some("no"));
    let same = cluster((0, "Service/a/shop"), 1, &check(), Some(&first));
    let other = cluster((1, "Service/a/other"), 1, &check(), None);
    fixture.desires(&[&same, &other]);
    let (_, transitions) = fixture.runs(Duration::from_secs(12), Some("no"));
    assert_eq!(
        transitions.len(),
        1,
        "the third failure of the first: {transitions:?}"
    );
    let changed = HealthCheck {
        timeout: Duration::from_secs(1),
        ..check()
    };
    let changed = cluster((0, "Service/a/shop"), 1, &changed, Some(&same));
    fixture.desires(&[&changed]);
    let (begun, transitions) = fixture.runs(Duration::from_secs(1), None);
    assert_eq!(
        (begun, transitions.len()),
        (1, 0),
        "it counts from the beginning, but stays out"
    );
    assert_eq!(fixture.runs(Duration::from_secs(12), None).1.len(), 1);
}

#[test]
fn an_endpoint_that_was_not_ready_begins_again() {
    let first = cluster((0, "Service/a/shop"), 1, &check(), None);
    let mut fixture = Fixture::new(&[&first]);
    assert_eq!(fixture.runs(MINUTE, Some("no")).1.len(), 1);
    let again = cluster((0, "Service/a/shop"), 1, &check(), None);
    fixture.desires(&[&again]);
    let probe = again.endpoints[0].probe.as_ref().expect("a probe");
    assert_eq!(probe.state.standing(), Standing::Untried);
    assert_eq!(fixture.runs(MINUTE, Some("no")).1.len(), 1);
}

#[test]
fn what_is_no_longer_desired_is_not_probed() {
    let cluster = cluster((0, "Service/a/shop"), 5, &check(), None);
    let mut fixture = Fixture::new(&[&cluster]);
    fixture.now += Duration::from_secs(1);
    let running = fixture.schedule.take_due(fixture.now);
    fixture.desires(&[]);
    for (probe, _) in running {
        assert_eq!(fixture.ends(probe, Some("no")), None);
    }
    assert_eq!(fixture.schedule.next_at(), None);
    assert!(fixture.schedule.running.is_empty());
}

#[test]
fn ports_that_are_asked_at_one_port_share_a_probe() {
    let check = HealthCheck {
        port: std::num::NonZeroU16::new(9_000),
        ..check()
    };
    let web = cluster((0, "Service/a/shop"), 3, &check, None);
    let api = cluster((1, "Service/a/shop"), 3, &check, None);
    let mut fixture = Fixture::new(&[&web, &api]);
    let (begun, _) = fixture.runs(Duration::from_secs(1), Some("no"));
    assert_eq!(begun, 3);
    fixture.runs(MINUTE, Some("no"));
    for cluster in [&web, &api] {
        let checks = cluster.health_check.as_ref().expect("a check");
        assert_eq!(checks.endpoints.unhealthy(), 3);
    }
}

/// Ports that were asked on their own may have got different verdicts.
#[test]
fn ports_that_begin_to_share_a_probe_share_its_verdict() {
    let standing = |cluster: &Cluster| {
        let probe = cluster.endpoints[0].probe.as_ref().expect("a probe");
        probe.state.standing()
    };
    let web = cluster((0, "Service/a/shop"), 1, &check(), None);
    let api = cluster((1, "Service/a/shop"), 1, &check(), None);
    let probe = api.endpoints[0].probe.as_ref().expect("a probe");
    probe.state.set_standing(Standing::Unhealthy);
    let shared = HealthCheck {
        port: std::num::NonZeroU16::new(9_000),
        ..check()
    };
    let web = cluster((0, "Service/a/shop"), 1, &shared, Some(&web));
    let api = cluster((1, "Service/a/shop"), 1, &shared, Some(&api));
    let mut fixture = Fixture::new(&[]);
    let clusters = vec![Arc::clone(&web), Arc::clone(&api)];
    let changes = (fixture.schedule).set_desired(clusters, fixture.now, &mut fixture.rng);
    assert!(changes.puts_out, "the first");
    let standings = || [standing(&web), standing(&api)];
    assert_eq!(standings(), [Standing::Unhealthy; 2]);
    fixture.runs(MINUTE, None);
    assert_eq!(standings(), [Standing::Healthy; 2]);
    // A port that a route uses from now on.
    let more = cluster((2, "Service/a/shop"), 1, &shared, None);
    fixture.desires(&[&web, &api, &more]);
    assert_eq!(standing(&more), Standing::Healthy);
}

/// What gets requests all the time needs no slow start.
#[test]
fn an_endpoint_whose_probes_were_ignored_has_not_been_away() {
    let panic_at = |panic_percent| HealthCheck {
        panic_percent,
        ..check()
    };
    for (panic_percent, was_away) in [(30, false), (0, true)] {
        let cluster = cluster((0, "Service/a/shop"), 2, &panic_at(panic_percent), None);
        let mut fixture = Fixture::new(&[&cluster]);
        fixture.runs(MINUTE, Some("no"));
        let checks = cluster.health_check.as_ref().expect("a check");
        checks.endpoints.review();
        assert_eq!(checks.endpoints.panics(), !was_away);
        fixture.runs(MINUTE, None);
        for endpoint in &cluster.endpoints {
            let state = &endpoint.probe.as_ref().expect("it is checked").state;
            assert_eq!(state.standing(), Standing::Healthy);
            assert_eq!(state.recovered().is_some(), was_away, "{panic_percent} %");
        }
    }
}

#[test]
fn a_probe_without_a_result_is_repeated_and_changes_nothing() {
    let cluster = cluster((0, "Service/a/shop"), 1, &check(), None);
    let mut fixture = Fixture::new(&[&cluster]);
    for _ in 0..10 {
        let next = fixture.schedule.next_at().expect("it is repeated");
        fixture.now = fixture.now.max(next);
        for (probe, _) in fixture.schedule.take_due(fixture.now) {
            let ended = (fixture.schedule).set_next(probe, fixture.now, &mut fixture.rng);
            assert_eq!(ended, Some(()));
        }
    }
    assert!(fixture.schedule.running.is_empty(), "places are free again");
    let checks = cluster.health_check.as_ref().expect("a check");
    assert_eq!((checks.counts.failed(), checks.endpoints.out()), (0, 0));
    assert_eq!(fixture.runs(MINUTE, Some("no")).1.len(), 1);
}

#[test]
fn beyond_the_limit_the_intervals_of_the_greediest_become_longer() {
    let every_second = HealthCheck {
        interval: Duration::from_secs(1),
        ..check()
    };
    let large = cluster((0, "Service/a/large"), 4_000, &every_second, None);
    let small = cluster((1, "Service/a/small"), 100, &every_second, None);
    let mut fixture = Fixture::new(&[]);
    let stretched = fixture.desires(&[&large, &small]);
    let interval = stretched
        .first()
        .and_then(|it| it.interval)
        .expect("it is stretched");
    assert_eq!(stretched.len(), 1);
    assert_eq!(interval.as_millis(), 2_105, "4000 of 1900 per second");
    let counts = |cluster: &Cluster| {
        cluster
            .health_check
            .as_ref()
            .map(|it| it.counts.stretched())
    };
    let in_milliseconds = Duration::from_millis(2_105);
    assert_eq!(counts(&large), Some(Some(in_milliseconds)));
    assert_eq!(counts(&small), Some(None));
    fixture.runs(Duration::from_secs(5), None);
    let (begun, _) = fixture.runs(Duration::from_secs(10), None);
    assert!((18_000..=20_020).contains(&begun), "{begun}");
    let without = fixture.desires(&[&small]);
    assert_eq!(without.first().map(|it| it.interval), Some(None));
    assert_eq!(counts(&small), Some(None));
}

#[test]
fn a_service_that_hangs_leaves_room_for_others() {
    let check = HealthCheck {
        initial: InitialHealth::Healthy,
        ..check()
    };
    let hangs = cluster((0, "Service/a/hangs"), 5_000, &check, None);
    let other = cluster((1, "Service/a/other"), 10, &check, None);
    let mut fixture = Fixture::new(&[&hangs]);
    for _ in 0..3_000 {
        fixture.now += Duration::from_millis(1);
        fixture.schedule.take_due(fixture.now);
    }
    assert_eq!(fixture.schedule.running.len(), PROBES_IN_FLIGHT / 2);
    fixture.desires(&[&hangs, &other]);
    let mut begun = 0;
    for _ in 0..2_000 {
        fixture.now += Duration::from_millis(1);
        begun += fixture.schedule.take_due(fixture.now).len();
    }
    assert_eq!(begun, 10, "those of the other");
}

#[test]
fn what_is_ignored_or_stretched_is_known_with_its_time() {
    let often = HealthCheck {
        interval: Duration::from_secs(1),
        ..check()
    };
    let (large, small) = (
        cluster((1, "large"), 3_000, &often, None),
        cluster((2, "small"), 2, &check(), None),
    );
    let mut fixture = Fixture::new(&[&large, &small]);
    let begun = fixture.now;
    let clusters = [Arc::clone(&large), Arc::clone(&small)];
    let first = limited(&clusters, &[], begun);
    let [stretched] = first.as_slice() else {
        panic!("{first:?}");
    };
    assert_eq!(
        (&*stretched.object, stretched.limit),
        ("large", CheckLimit::Stretched)
    );
    assert!(
        stretched.text.contains("less often than every 1s"),
        "{stretched:?}"
    );
    for endpoint in &small.endpoints {
        let probe = endpoint.probe.as_ref().expect("it is checked");
        probe.state.set_standing(Standing::Unhealthy);
    }
    let checks = small.health_check.as_ref().expect("it is checked");
    assert!(checks.endpoints.review());
    let later = begun + Duration::from_secs(5);
    let both = limited(&clusters, &first, later);
    let found: Vec<_> = both
        .iter()
        .map(|it| (&*it.object, it.limit, it.since))
        .collect();
    let expected = [
        ("large", CheckLimit::Stretched, begun),
        ("small", CheckLimit::Ignored, later),
    ];
    assert_eq!(found, expected);
    assert!(
        both[1].text.starts_with("small:80: less than 30 %"),
        "{both:?}"
    );
    fixture.desires(&[&small]);
    let left = limited(&clusters[1..], &both, later + Duration::from_secs(1));
    assert_eq!(left, both[1..]);
}
