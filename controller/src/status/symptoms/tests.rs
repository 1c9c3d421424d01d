use serde_json::json;
use translate::api::TrafficPolicy;
use translate::status::PolicyStatus;
use xds::model::Kind;

use super::*;

fn gateway() -> ObjectName {
    ObjectName::new("infra", "edge")
}

fn resource(policy: &str) -> ResourceKey {
    ResourceKey {
        kind: Kind::Policy,
        key: format!("TrafficPolicy/app/{policy}/Gateway/infra/edge").into(),
    }
}

fn object(policy: &str) -> ObjectRef {
    ObjectRef::of::<TrafficPolicy>(&ObjectName::new("app", policy))
}

/// What two proxies tell, of which one sees this policy fail, for so many seconds of Unix time.
fn told(policy: &str, since: u64) -> Acknowledgements {
    let seen = SeenSymptom {
        proxies: 1,
        since: SystemTime::UNIX_EPOCH + Duration::from_secs(since),
        text: "keys of provider `idp` from http://idp/keys: status 500".to_owned(),
    };
    Acknowledgements {
        connected: 2,
        symptoms: BTreeMap::from([((resource(policy), Fact::KeysNotFetched), seen)]),
        ..Acknowledgements::default()
    }
}

fn nothing() -> Acknowledgements {
    Acknowledgements {
        connected: 2,
        ..Acknowledgements::default()
    }
}

fn status_of(targets: &[(&str, &str)]) -> Status {
    let entry = |(kind, name): &(&str, &str)| PolicyAncestorStatus {
        ancestor_ref: AncestorReference {
            group: "gateway.networking.k8s.io".to_owned(),
            kind: (*kind).to_owned(),
            namespace: "infra".to_owned(),
            name: (*name).to_owned(),
            section_name: None,
        },
        controller_name: "ours.io/controller".to_owned(),
        conditions: vec![Condition {
            kind: ConditionType::Accepted,
            status: ConditionStatus::True,
            reason: Reason::Accepted,
            message: "the policy is valid".into(),
            observed_generation: 3,
            field: None,
            blame: Blame::Own,
        }],
    };
    Status::Policy(PolicyStatus {
        ancestors: targets.iter().map(entry).collect(),
    })
}

/// The conditions about proxies, by target.
fn reported(status: &Status) -> Vec<(String, String)> {
    let Status::Policy(status) = status else {
        panic!("a policy");
    };
    let entries = status.ancestors.iter().flat_map(|entry| {
        let own = entry.conditions.iter();
        let own = own.filter(|it| it.kind == ConditionType::DependencyUnavailable);
        own.map(|it| {
            assert_eq!(
                (it.status, it.observed_generation),
                (ConditionStatus::True, 3)
            );
            (entry.ancestor_ref.name.clone(), it.message.to_string())
        })
    });
    entries.collect()
}

#[test]
fn a_symptom_is_shown_at_once_and_ends_when_nobody_has_told_it_for_a_while() {
    let (mut symptoms, now) = (ShownSymptoms::default(), Instant::now());
    let (bad, good) = (told("jwt", 1_000), nothing());
    let changed = symptoms.observe(&gateway(), (&good, &bad), now);
    assert_eq!(changed, [object("jwt")].into());
    assert_eq!(symptoms.affected(), 1);
    let warning = symptoms.warning(&object("jwt")).expect("one");
    assert_eq!(warning.reason, "KeysNotFetched");
    assert!(
        warning
            .text
            .starts_with("1 of 2 proxies of Gateway infra/edge")
    );
    assert!(warning.text.contains("status 500"), "{}", warning.text);
    assert!(
        warning.text.contains("1970-01-01T00:16:40Z"),
        "{}",
        warning.text
    );

    // A proxy reconnects.
    assert_eq!(symptoms.observe(&gateway(), (&bad, &good), now), [].into());
    assert_eq!(symptoms.next_change(), Some(now + HOLD));
    assert_eq!(symptoms.take_due(now), [].into());
    let again = told("jwt", 1_001);
    let changed = symptoms.observe(&gateway(), (&good, &again), now);
    assert_eq!(changed, [].into(), "the status says so already");
    assert_eq!(symptoms.next_change(), None);
    let text = symptoms.warning(&object("jwt")).expect("one").text;
    assert_eq!(text, warning.text, "the time does not move");

    symptoms.observe(&gateway(), (&again, &good), now);
    let end = symptoms.next_change().expect("it ends");
    assert_eq!(symptoms.take_due(end), [object("jwt")].into());
    assert_eq!((symptoms.affected(), symptoms.next_change()), (0, None));
    assert_eq!(symptoms.warning(&object("jwt")), None);
}

/// A backend that is about as often well as not, as two proxies see it.
#[test]
fn a_symptom_that_comes_and_goes_is_seldom_written() {
    let (mut symptoms, start) = (ShownSymptoms::default(), Instant::now());
    let seen_by = |proxies: usize, second: u64| {
        let mut told = told("jwt", second);
        for seen in told.symptoms.values_mut() {
            seen.proxies = proxies;
        }
        told
    };
    let (mut before, mut writes) = (nothing(), 0);
    for step in 0..120_u64 {
        let now = start + Duration::from_millis(500) * u32::try_from(step).expect("it is small");
        let after = match step % 4 {
            0 => seen_by(1, step),
            1 => seen_by(2, step),
            2 => seen_by(2, step + 100),
            _ => nothing(),
        };
        writes += symptoms.observe(&gateway(), (&before, &after), now).len();
        writes += symptoms.take_due(now).len();
        before = after;
    }
    assert!((1..=3).contains(&writes), "{writes} in a minute");

    // What lasts is shown in the end.
    let late = start + Duration::from_mins(2);
    let all = seen_by(2, 50);
    symptoms.observe(&gateway(), (&before, &all), late);
    symptoms.take_due(late + SPACING);
    let text = symptoms.warning(&object("jwt")).expect("one").text;
    assert!(text.starts_with("2 of 2 proxies"), "{text}");
    assert_eq!(symptoms.next_change(), None);
}

#[test]
fn the_proxies_of_a_gateway_say_nothing_about_another_ones_entry() {
    let (mut symptoms, now) = (ShownSymptoms::default(), Instant::now());
    symptoms.observe(&gateway(), (&nothing(), &told("jwt", 1_000)), now);
    let targets = [
        ("Gateway", "edge"),
        ("Gateway", "other"),
        ("ListenerSet", "own"),
        ("ListenerSet", "foreign"),
        ("HTTPRoute", "shop"),
    ];
    let set = |name| ObjectName::new("infra", name);
    let sets = BTreeMap::from([(set("own"), gateway()), (set("foreign"), set("other"))]);
    let inputs = SymptomInputs {
        known: symptoms.of(&object("jwt")),
        is_carried: false,
    };
    let mut status = status_of(&targets);
    report(&mut status, inputs, &sets, &Value::Null);
    let named: Vec<String> = reported(&status)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(named, ["edge", "own", "shop"]);
}

/// A policy may check several Services, of which one fails.
#[test]
fn what_is_seen_of_endpoints_stands_at_their_target() {
    let (mut symptoms, now) = (ShownSymptoms::default(), Instant::now());
    let resource = ResourceKey {
        kind: Kind::Policy,
        key: "TrafficPolicy/app/checks/Service/infra/shop".into(),
    };
    let seen = SeenSymptom {
        proxies: 1,
        since: SystemTime::UNIX_EPOCH,
        text: "Service/infra/shop:80: less than 30 % of its endpoints pass".to_owned(),
    };
    let told = Acknowledgements {
        connected: 2,
        symptoms: BTreeMap::from([((resource, Fact::HealthChecksIgnored), seen)]),
        ..Acknowledgements::default()
    };
    symptoms.observe(&gateway(), (&nothing(), &told), now);
    let inputs = SymptomInputs {
        known: symptoms.of(&object("checks")),
        is_carried: false,
    };
    let mut status = status_of(&[
        ("Service", "shop"),
        ("Service", "workshop"),
        ("Backend", "shop"),
    ]);
    report(&mut status, inputs, &BTreeMap::new(), &Value::Null);
    let text = "1 of 2 proxies of Gateway infra/edge ignore health checks since 1970-01-01T00:00:00Z: \
                Service/infra/shop:80: less than 30 % of its endpoints pass; gwctl config backends has the cause for \
                each endpoint";
    assert_eq!(reported(&status), [("shop".to_owned(), text.to_owned())]);
    let warning = symptoms.warning(&object("checks")).expect("one");
    assert_eq!(warning.reason, "HealthChecksIgnored");
}

#[test]
fn a_new_leader_keeps_the_condition_until_it_has_heard_of_all_proxies() {
    let (mut symptoms, now) = (ShownSymptoms::default(), Instant::now());
    symptoms.begin([object("jwt")].into(), now);
    let entry = |name: &str, author: &str, message: &str| {
        json!({
            "ancestorRef": {
                "group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra",
                "name": name,
            },
            "controllerName": author,
            "conditions": [{
                "type": "DependencyUnavailable", "status": "True", "reason": "KeysNotRefreshed",
                "message": message,
            }],
        })
    };
    let present = json!({"ancestors": [
        entry("edge", "theirs.io/controller", "theirs"),
        entry("edge", "ours.io/controller", "ours"),
    ]});
    let inputs = |symptoms: &ShownSymptoms| {
        let mut status = status_of(&[("Gateway", "edge"), ("Gateway", "other")]);
        let inputs = SymptomInputs {
            known: None,
            is_carried: symptoms.is_carried(&object("jwt")),
        };
        report(&mut status, inputs, &BTreeMap::new(), &present);
        reported(&status)
    };
    assert_eq!(inputs(&symptoms), [("edge".to_owned(), "ours".to_owned())]);
    assert_eq!(symptoms.take_due(now + SETTLE / 2), [].into());
    assert_eq!(symptoms.take_due(now + SETTLE), [object("jwt")].into());
    assert_eq!(inputs(&symptoms), []);
}
