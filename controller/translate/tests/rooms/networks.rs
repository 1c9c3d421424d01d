//! Networks of clients: lists that change, and those beyond what a Gateway has room for.

use serde_json::{Value, json};
use translate::ObjectKind;
use translate::budgets::{Budget, Limits};
use translate::status::{ConditionType, Status};
use translate::{Delta, Event, Object, Options, Translator};
use xds::model::{NetworkList, NetworkPolicy, Policy};

use super::{apply, conditions, metadata, policies, refused, route, translator};
use crate::support::{GATEWAY_API, admitted, gateway};

fn policy(number: usize, networks: &Value) -> Object {
    let value = json!({
        "metadata": metadata("noisy", &format!("p-{number:02}"), number),
        "spec": {
            "targetRefs": [
                {"group": GATEWAY_API, "kind": "HTTPRoute", "name": format!("r-{number:02}")},
            ],
            "networks": networks,
        },
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
}

/// A ConfigMap with this list.
fn list(text: &str) -> Object {
    list_of("lists", text)
}

fn list_of(name: &str, text: &str) -> Object {
    let value = json!({
        "metadata": metadata("noisy", name, 0),
        "data": {"networks.txt": text},
    });
    admitted("", "ConfigMap", value)
}

fn from_list() -> Object {
    policy(
        0,
        &json!({"allowFrom": [{"name": "lists", "key": "networks.txt"}]}),
    )
}

/// The networks of the only policy that changed.
fn networks(delta: &Delta) -> NetworkPolicy {
    let policies = policies(delta);
    let [Policy { spec, .. }] = &*policies else {
        panic!("{policies:?}");
    };
    spec.networks.clone().expect("networks")
}

fn texts(policy: &NetworkPolicy) -> Vec<String> {
    let NetworkPolicy::Lists { allow, .. } = policy else {
        panic!("a list is missing");
    };
    let allow = allow.iter().flat_map(NetworkList::iter);
    allow
        .map(|(address, length)| format!("{address}/{length}"))
        .collect()
}

/// The message about references, if one does not resolve.
pub(super) fn unresolved(delta: &Delta) -> Option<String> {
    let status = delta.statuses.iter().find_map(|(object, status)| {
        (object.kind == ObjectKind::TrafficPolicy)
            .then_some(status.as_ref())
            .flatten()
    });
    let status: &Status = status.expect("a status");
    let conditions = conditions(status).into_iter();
    let mut resolved = conditions.filter(|it| it.kind == ConditionType::ResolvedRefs);
    let resolved = resolved.next().expect("a condition");
    resolved.is_problem().then(|| resolved.message.to_string())
}

pub(super) fn then(translator: &mut Translator, event: Event) -> Delta {
    translator.apply(vec![event], jiff::Timestamp::UNIX_EPOCH)
}

/// Whoever breaks a list, or deletes it, neither opens nor closes a door.
#[test]
fn a_list_that_turns_bad_stays_as_it_was() {
    let mut translator = Translator::new(Options::cluster());
    let objects = vec![
        gateway(1),
        route("noisy", 0),
        from_list(),
        list("10.0.0.0/8\n"),
    ];
    let delta = apply(&mut translator, objects);
    assert_eq!(texts(&networks(&delta)), ["10.0.0.0/8"]);
    assert_eq!(unresolved(&delta), None);

    let delta = then(
        &mut translator,
        Event::Upsert(list("10.0.0.0/8\n10.0.0.1/8\n")),
    );
    assert!(policies(&delta).is_empty(), "nothing changes for proxies");
    let message = unresolved(&delta).expect("a problem");
    assert!(
        message.contains("line 2: `10.0.0.1/8` has bits"),
        "{message}"
    );
    assert!(
        message.contains("previous version stays in effect, with 1 networks"),
        "{message}"
    );

    let delta = then(&mut translator, Event::Upsert(list("192.0.2.0/24")));
    assert_eq!(texts(&networks(&delta)), ["192.0.2.0/24"]);
    assert_eq!(unresolved(&delta), None);

    let delta = then(&mut translator, Event::Delete(list("").object_ref()));
    assert!(policies(&delta).is_empty(), "nothing changes for proxies");
    let message = unresolved(&delta).expect("a problem");
    assert!(
        message.contains("ConfigMap noisy/lists does not exist"),
        "{message}"
    );
}

#[test]
fn a_list_that_was_never_read_closes_until_it_is() {
    let mut translator = Translator::new(Options::cluster());
    let delta = apply(
        &mut translator,
        vec![gateway(1), route("noisy", 0), from_list()],
    );
    assert_eq!(networks(&delta), NetworkPolicy::ListMissing);
    let message = unresolved(&delta).expect("a problem");
    assert!(message.contains("503 (list_missing)"), "{message}");
    // A policy for everybody else, and a list that is empty.
    let delta = then(&mut translator, Event::Upsert(list("# nobody yet\n")));
    assert_eq!(texts(&networks(&delta)), Vec::<String>::new());
    assert!(matches!(
        networks(&delta),
        NetworkPolicy::Lists { allow: Some(_), .. }
    ));
}

/// Each edit of a ConfigMap is a new name where names have a hash of the content, as those of kustomize.
#[test]
fn a_new_list_that_cannot_be_read_leaves_the_networks_as_they_were() {
    let mut translator = Translator::new(Options::cluster());
    let of = |name: &str| {
        policy(
            0,
            &json!({"allowFrom": [{"name": name, "key": "networks.txt"}]}),
        )
    };
    let objects = vec![
        gateway(1),
        route("noisy", 0),
        of("a-1"),
        list_of("a-1", "10.0.0.0/8"),
    ];
    assert_eq!(
        texts(&networks(&apply(&mut translator, objects))),
        ["10.0.0.0/8"]
    );
    let delta = then(&mut translator, Event::Upsert(of("a-2")));
    assert!(policies(&delta).is_empty(), "nothing changes for proxies");
    let message = unresolved(&delta).expect("a problem");
    assert!(message.contains("a-2 does not exist"), "{message}");
    assert!(message.contains("stay as they were before"), "{message}");
    let bad = list_of("a-2", "10.0.0.0/8\nnothing\n");
    let delta = then(&mut translator, Event::Upsert(bad));
    assert!(policies(&delta).is_empty(), "nothing changes for proxies");
    let delta = then(
        &mut translator,
        Event::Upsert(list_of("a-2", "192.0.2.0/24")),
    );
    assert_eq!(texts(&networks(&delta)), ["192.0.2.0/24"]);
    assert_eq!(unresolved(&delta), None);
}

#[test]
fn the_lists_of_a_policy_have_64_ki_networks_in_all() {
    let mut translator = Translator::new(Options::cluster());
    let many: Vec<String> = (0..65_536_u32)
        .map(|number| format!("10.{}.{}.0/24\n", number >> 8 & 255, number & 255))
        .collect();
    let two = json!({
        "deny": ["192.0.2.0/24"],
        "allowFrom": [{"name": "lists", "key": "networks.txt"}],
    });
    let objects = vec![
        gateway(1),
        route("noisy", 0),
        policy(0, &two),
        list(&many.concat()),
    ];
    let delta = apply(&mut translator, objects);
    assert_eq!(networks(&delta), NetworkPolicy::ListMissing);
    let message = unresolved(&delta).expect("a problem");
    assert!(
        message.contains("has 65536 networks, and the other lists have 0"),
        "{message}"
    );
    let delta = then(&mut translator, Event::Upsert(list(&many[1..].concat())));
    assert_eq!(texts(&networks(&delta)).len(), 65_535);
}

#[test]
fn networks_beyond_the_budget_of_a_gateway_close_what_they_protect() {
    let mut translator = translator(Budget::GatewayNetworks, 5);
    let mut objects = vec![gateway(1)];
    for number in 0..3 {
        objects.push(route("noisy", number));
        let networks = json!({"deny": ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"]});
        objects.push(policy(number, &networks));
    }
    let delta = apply(&mut translator, objects);
    let full = ["noisy/p-01", "noisy/p-02"].map(str::to_owned);
    assert_eq!(refused(&delta), full.into());
    let policies = policies(&delta);
    let closed = policies.iter().filter(|it| it.spec.is_invalid);
    assert!(closed.clone().all(|it| it.spec.closes_connections));
    assert_eq!(closed.count(), 2);
    // IPv4 takes 26 bytes in a proxy, and IPv6 takes 50.
    let limits = Limits::default().with(Budget::GatewayNetworkBytes, 101);
    let mut translator = Translator::new(Options {
        budgets: limits,
        ..Options::cluster()
    });
    let networks = json!({"deny": ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"]});
    let objects = vec![gateway(1), route("noisy", 0), policy(0, &networks)];
    assert_eq!(refused(&apply(&mut translator, objects)).len(), 1);
}

/// A list of these networks of 256 addresses.
fn many(numbers: std::ops::Range<u32>) -> String {
    let lines =
        numbers.map(|it| format!("{}.{}.{}.0/24\n", 10 + (it >> 16), it >> 8 & 255, it & 255));
    lines.collect()
}

/// Whoever fills one list neither closes nor opens anything through another.
#[test]
fn a_list_that_grows_beyond_the_room_stays_as_it_was() {
    let mut translator = Translator::new(Options::cluster());
    let both = json!({
        "denyFrom": [{"name": "a", "key": "networks.txt"}],
        "allowFrom": [{"name": "b", "key": "networks.txt"}],
    });
    let objects = vec![
        gateway(1),
        route("noisy", 0),
        policy(0, &both),
        list_of("a", &many(0..40_000)),
        list_of("b", &many(100_000..120_000)),
    ];
    let delta = apply(&mut translator, objects);
    assert_eq!((networks(&delta).len(), unresolved(&delta)), (60_000, None));
    let grown = list_of("a", &many(0..50_000));
    let delta = then(&mut translator, Event::Upsert(grown));
    assert!(policies(&delta).is_empty(), "nothing changes for proxies");
    let message = unresolved(&delta).expect("a problem");
    assert!(
        message.contains("of ConfigMap noisy/a has 50000 networks"),
        "{message}"
    );
    assert!(!message.contains("list_missing"), "{message}");
    // The other one changes all the same.
    let longer = list_of("b", &many(100_000..120_001));
    let delta = then(&mut translator, Event::Upsert(longer));
    assert_eq!(networks(&delta).len(), 60_001);
    let message = unresolved(&delta).expect("a problem");
    assert!(!message.contains("noisy/b has"), "{message}");
    let shrunk = list_of("b", &many(100_000..110_000));
    let delta = then(&mut translator, Event::Upsert(shrunk));
    assert_eq!((networks(&delta).len(), unresolved(&delta)), (60_000, None));
}

#[test]
fn networks_are_counted_once_for_all_targets_of_a_policy() {
    // A list of 18 bytes, a range of 8, and 2 that each of two targets is sent.
    for (bytes, full) in [(30, 0), (29, 1)] {
        let mut translator = Translator::new(Options {
            budgets: Limits::default()
                .with(Budget::GatewayNetworks, 1)
                .with(Budget::GatewayNetworkBytes, bytes),
            ..Options::cluster()
        });
        let of_both = json!({
            "metadata": metadata("noisy", "p-00", 0),
            "spec": {
                "targetRefs": [
                    {"group": GATEWAY_API, "kind": "HTTPRoute", "name": "r-00"},
                    {"group": GATEWAY_API, "kind": "HTTPRoute", "name": "r-01"},
                ],
                "networks": {"deny": ["10.0.0.0/8"]},
            },
        });
        let of_both = admitted("gateway-system.io", "TrafficPolicy", of_both);
        let objects = vec![gateway(1), route("noisy", 0), route("noisy", 1), of_both];
        assert_eq!(
            refused(&apply(&mut translator, objects)).len(),
            full,
            "{bytes}"
        );
    }
}

/// As many targets as a policy can have, and as many networks.
#[test]
fn the_longest_list_fits_at_all_targets_of_a_policy() {
    let mut translator = Translator::new(Options::cluster());
    let numbers = 0..16;
    let targets = numbers.clone().map(|number| {
        json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": format!("r-{number:02}")})
    });
    let of_all = json!({
        "metadata": metadata("noisy", "p-00", 0),
        "spec": {
            "targetRefs": targets.collect::<Vec<_>>(),
            "networks": {"allowFrom": [{"name": "lists", "key": "networks.txt"}]},
        },
    });
    let of_all = admitted("gateway-system.io", "TrafficPolicy", of_all);
    let mut objects = vec![gateway(1), of_all, list(&many(0..65_536))];
    objects.extend(numbers.map(|number| route("noisy", number)));
    let delta = apply(&mut translator, objects);
    assert!(refused(&delta).is_empty());
    assert_eq!(policies(&delta).len(), 16);
}

/// What refuses every request does not close connections.
#[test]
fn a_policy_without_room_closes_connections_although_an_older_one_refuses_requests() {
    let mut translator = translator(Budget::GatewayPolicies, 1);
    let of_gateway = |number: usize, field: &str| {
        let Value::Object(value) = json!({
            "metadata": metadata("infra", &format!("p-{number:02}"), number),
            "spec": {
                "targetRefs": [{"group": GATEWAY_API, "kind": "Gateway", "name": "edge"}],
                field: {"unknown": 1},
            },
        }) else {
            panic!("it is an object");
        };
        let admitted = translate::files::admit_value(ObjectKind::TrafficPolicy, value);
        admitted
            .expect("a kind that is read")
            .fail_closed
            .expect("it would protect")
    };
    let objects = vec![gateway(1), of_gateway(0, "jwt"), of_gateway(1, "networks")];
    let delta = apply(&mut translator, objects);
    let closes: Vec<bool> = policies(&delta)
        .iter()
        .map(|it| it.spec.closes_connections)
        .collect();
    assert_eq!(closes, [false, true]);
}
