use super::*;

fn place(node: &str, zone: &str) -> Place {
    let name = |text: &str| (!text.is_empty()).then(|| text.into());
    Place {
        node: name(node),
        zone: name(zone),
    }
}

fn hints(zones: &[&str], nodes: &[&str]) -> TopologyHints {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    TopologyHints {
        zones: names(zones),
        nodes: names(nodes),
    }
}

fn at<'m>(node: &'m str, zone: &'m str) -> Location<'m> {
    Location {
        node: Some(node),
        zone: Some(zone),
        hints: None,
    }
}

fn locality(
    place: &Place,
    mode: LocalityMode,
    locations: &[Location<'_>],
    before: Option<&Locality>,
) -> Locality {
    let id = |index| Interned {
        index,
        generation: 0,
    };
    let serving = (0..).zip(locations);
    let serving = serving.map(|(index, location)| (id(index), NonZeroU32::MIN, *location));
    let serving: Vec<_> = serving.collect();
    let settings = (mode, Spill::Proportional);
    let locality = Locality::new(place, settings, &serving, before, Instant::now());
    locality.counting(place, serving.iter().map(|it| (it.0, it.2)))
}

/// The distances of the endpoints, and why.
fn found(
    place: &Place,
    mode: LocalityMode,
    locations: &[Location<'_>],
) -> (Preference, Vec<usize>) {
    let locality = locality(place, mode, locations, None);
    let distances = (0..locations.len()).filter_map(|it| locality.distance(it));
    (locality.preference(), distances.collect())
}

/// As `CategorizeEndpoints` of kube-proxy: all ready endpoints have hints, and one of them names us.
#[test]
fn hints_count_if_all_endpoints_have_some_and_one_names_us() {
    use Preference::{NodeHints, Nothing, ZoneHints};
    let [a, b, none] = [hints(&["a"], &[]), hints(&["b", "c"], &[]), hints(&[], &[])];
    let with = |hints: &[Option<&'static TopologyHints>]| -> Vec<Location<'static>> {
        let locations = hints.iter().map(|hints| Location {
            hints: *hints,
            ..Location::default()
        });
        locations.collect()
    };
    let leak = |hints: TopologyHints| -> &'static TopologyHints { Box::leak(Box::new(hints)) };
    let [a, b, none] = [leak(a), leak(b), leak(none)];
    let of = |zone: &str, all: &[Option<&'static TopologyHints>]| {
        found(&place("", zone), LocalityMode::Hints, &with(all))
    };
    assert_eq!(of("a", &[Some(a), Some(b)]), (ZoneHints, vec![0, 1]));
    assert_eq!(of("c", &[Some(a), Some(b)]), (ZoneHints, vec![1, 0]));
    assert_eq!(of("d", &[Some(a), Some(b)]).0, Nothing, "none names us");
    assert_eq!(of("a", &[Some(a), None]).0, Nothing, "one has none");
    assert_eq!(of("a", &[Some(a), Some(none)]).0, Nothing, "one has none");
    assert_eq!(of("", &[Some(a), Some(b)]).0, Nothing, "an unknown zone");
    // Those of nodes come first; slices of PreferSameNode have both.
    let [one, two] = [leak(hints(&["a"], &["one"])), leak(hints(&["a"], &["two"]))];
    let both = with(&[Some(one), Some(two)]);
    let on = |node: &str| found(&place(node, "a"), LocalityMode::Hints, &both);
    assert_eq!(on("one"), (NodeHints, vec![0, 1]));
    assert_eq!(on("three"), (ZoneHints, vec![0, 0]), "no endpoint is here");
    let off = found(&place("one", "a"), LocalityMode::Off, &both);
    assert_eq!(off, (Nothing, vec![0, 0]));
}

#[test]
fn a_policy_prefers_a_zone_or_a_node_and_then_its_zone() {
    use LocalityMode::{PreferNode, PreferZone};
    let all = [
        at("one", "a"),
        at("two", "a"),
        at("three", "b"),
        Location::default(),
    ];
    let here = place("one", "a");
    assert_eq!(
        found(&here, PreferZone, &all),
        (Preference::Zone, vec![0, 0, 1, 1])
    );
    assert_eq!(
        found(&here, PreferNode, &all),
        (Preference::Node, vec![0, 1, 2, 2])
    );
    // Without the node, its zone; without a zone, its node alone.
    let of_zone = (Preference::Zone, vec![0, 0, 1, 1]);
    assert_eq!(found(&place("", "a"), PreferNode, &all), of_zone);
    let of_node = (Preference::Node, vec![0, 2, 2, 2]);
    assert_eq!(found(&place("one", ""), PreferNode, &all), of_node);
    let nothing = (Preference::Nothing, vec![0; 4]);
    assert_eq!(found(&place("one", ""), PreferZone, &all), nothing);
}

/// `p = min(1, 1.4 × healthy / all)` of the requests that the tiers before leave.
#[test]
fn what_would_overload_a_tier_goes_to_those_behind_it() {
    let zones = [at("", "a"); 4].into_iter().chain([at("", "b"); 8]);
    let zones: Vec<Location<'_>> = zones.collect();
    let locality = locality(&place("", "a"), LocalityMode::PreferZone, &zones, None);
    let now = Instant::now();
    let part = |near: u32, far: u32| locality.parts([near.into(), far.into(), 0.0], now)[0];
    let is = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
    for (near, far, expected) in [
        (4, 8, 1.0),
        (3, 8, 1.0),
        (2, 8, 0.7),
        (1, 8, 0.35),
        (0, 8, 0.0),
        (1, 0, 1.0),
        (1, 1, 0.35),
    ] {
        let found = part(near, far);
        assert!(is(found, expected), "{near} and {far}: {found}");
    }
}

#[test]
fn the_rest_of_a_node_goes_to_its_zone_first() {
    let all = [
        at("one", "a"),
        at("one", "a"),
        at("two", "a"),
        at("two", "a"),
        at("x", "b"),
    ];
    let locality = locality(&place("one", "a"), LocalityMode::PreferNode, &all, None);
    let now = Instant::now();
    for (in_service, expected) in [
        ([2, 2, 1], [1.0, 0.0, 0.0]),
        ([1, 2, 1], [0.7, 0.3, 0.0]),
        ([0, 2, 1], [0.0, 1.0, 0.0]),
        ([1, 1, 1], [0.7, 0.21, 0.09]),
        ([0, 0, 1], [0.0, 0.0, 1.0]),
        // There are no others.
        ([1, 0, 0], [1.0, 0.0, 0.0]),
    ] {
        let found = locality.parts(in_service.map(f64::from), now);
        let all = found.iter().zip(expected);
        assert!(
            { all }.all(|(found, expected)| (found - expected).abs() < 0.001),
            "{in_service:?}: {found:?}"
        );
    }
}

#[test]
fn a_share_is_drawn_exactly() {
    let shares = Shares([0.35, 0.5, 1.0]);
    let of_all = shares.of_all();
    let mut counts = [0; 3];
    for number in 0..1000 {
        counts[shares.tier((f64::from(number) + 0.5) / 1000.0)] += 1;
    }
    assert_eq!(counts, [350, 325, 325]);
    assert!((of_all.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn endpoints_without_places_cost_nothing() {
    let needed = |place: &Place, mode, locations: &[Location<'_>]| {
        Locality::is_needed(place, mode, locations.iter().copied(), None, Instant::now())
    };
    let here = place("one", "a");
    assert!(!needed(&here, LocalityMode::Hints, &[Location::default()]));
    assert!(
        !needed(&here, LocalityMode::Hints, &[at("two", "a")]),
        "one zone"
    );
    assert!(!needed(
        &place("", ""),
        LocalityMode::PreferZone,
        &[at("two", "b")]
    ));
    assert!(
        needed(&here, LocalityMode::Hints, &[at("two", "b")]),
        "requests are counted"
    );
    assert!(needed(&here, LocalityMode::PreferZone, &[]), "none is here");
}

/// What leaves the zone is counted, whatever is preferred.
#[test]
fn requests_to_other_zones_are_counted_across_configurations() {
    let all = [at("", "a"), at("", "b"), Location::default()];
    let here = place("", "a");
    let first = locality(&here, LocalityMode::Off, &all, None);
    let id = |index| Interned {
        index,
        generation: 0,
    };
    (0..3).for_each(|index| first.count(id(index)));
    assert_eq!(first.crossed(), 1);
    let second = locality(&here, LocalityMode::PreferZone, &all, Some(&first));
    second.count(id(1));
    assert_eq!(second.crossed(), 2);
}

/// One that drains keeps its sessions, which leave the zone as others do.
#[test]
fn requests_of_sessions_to_another_zone_are_counted() {
    let here = place("", "a");
    let id = |index| Interned {
        index,
        generation: 0,
    };
    let ready = locality(&here, LocalityMode::Off, &[at("", "a")], None);
    let counting = ready.counting(&here, [(id(0), at("", "a")), (id(7), at("", "b"))]);
    counting.count(id(0));
    counting.count(id(7));
    assert_eq!(counting.crossed(), 1);
}
