//! What exceeds a budget is refused, and the table of budgets in the guide for operators is right.

mod endpoints;
mod rooms;
mod support;

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use prost::Message as _;
use serde_json::json;
use support::{GATEWAY_API, Refused, admitted, gateway, listener_set};
use translate::ObjectKind;
use translate::budgets::{Budget, Limits};
use translate::status::Status;
use translate::{Delta, Event, Object, Options, Translator};
use xds::delta::{Client, Report, Version};
use xds::encode;
use xds::model::{JwtSource, Kind, Policy, Resource};

#[test]
fn the_guide_lists_every_budget_with_its_limit() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s/OPERATING.md");
    let text = std::fs::read_to_string(&file).expect("the guide is there");
    let (before, rest) = text.split_once(HEADER).expect("it has the table");
    let rows: Vec<&str> = rest
        .lines()
        .take_while(|line| line.starts_with('|'))
        .collect();
    let expected: Vec<String> = Budget::ALL.iter().map(|it| it.table_row()).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let after = rest.lines().skip(rows.len());
        let lines: Vec<&str> = expected.iter().map(String::as_str).chain(after).collect();
        let text = format!("{before}{HEADER}{}\n", lines.join("\n"));
        std::fs::write(&file, text).expect("it can be written");
        return;
    }
    assert_eq!(rows, expected, "UPDATE_GOLDEN=1 writes the table");
}

/// 260 routes with 16 rules each at a Gateway with 64 listeners, 266 240 rules at listeners: as many resources
/// made it impossible for a proxy to reconnect, since it reports each.
#[test]
fn rules_count_once_for_all_listeners_of_a_gateway() {
    let mut translator = Translator::new(Options::cluster());
    let mut batch = vec![Event::Upsert(gateway(64))];
    batch.extend((0..260).map(|number| Event::Upsert(route(number, 16))));
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert_eq!(Refused::of(&delta).0.len(), 0);
    let rules = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(rule @ Resource::Route(_)) => Some(encode::resource(rule).len()),
        _ => None,
    });
    let (count, bytes) = rules.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
    assert_eq!(count, 260 * 16);
    assert!(bytes < 5 << 20, "{bytes}");
    let largest = first_requests(&delta).into_iter().max().expect("a request");
    assert!(largest < 400 << 10, "{largest}");
    // What is reckoned is about what is sent.
    let uses = translator.take_budget_changes();
    let bytes = f64::from(u32::try_from(bytes).expect("few"));
    for (budget, expected) in [
        (Budget::ViewResources, f64::from(count) / 131_072.0),
        (Budget::ViewBytes, bytes / f64::from(64 << 20)),
        (Budget::ViewAttachments, f64::from(count * 64) / 524_288.0),
    ] {
        let used = uses.iter().find(|((it, _), _)| *it == budget);
        let share = used.and_then(|(_, used)| *used).expect("it is used").share;
        assert!(
            (share / expected - 1.0).abs() < 0.1,
            "{budget}: {share}, {expected}"
        );
    }
}

/// Half as many as in the test above.
#[test]
fn routes_beyond_the_budget_of_a_gateway_are_refused_and_its_proxies_can_reconnect() {
    let options = Options {
        budgets: Limits::default().with(Budget::ViewAttachments, 135_000),
        ..Options::cluster()
    };
    let mut translator = Translator::new(options);
    let mut batch = vec![Event::Upsert(gateway(64))];
    let routes = (0..260).map(|number| route(number, 16));
    batch.extend(routes.map(Event::Upsert));
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    let refused = Refused::of(&delta);
    let admitted = 260 - refused.0.len();
    assert!((120..135).contains(&admitted), "{admitted}");
    // The newest.
    let names: BTreeSet<String> = (admitted..260)
        .map(|number| format!("route-{number:03}"))
        .collect();
    assert_eq!(refused.names("GatewayFull"), names);
    let routes = delta
        .resources
        .iter()
        .filter(|(key, _)| key.kind == Kind::Route);
    // The requests of the others are rejected, each route by one rule.
    let closing = 260 - admitted;
    assert_eq!(routes.count(), admitted * 16 + closing);
    let largest = first_requests(&delta).into_iter().max().expect("a request");
    assert!(largest < 400 << 10, "{largest}");
    let uses = translator.take_budget_changes();
    let refused: u64 = uses
        .iter()
        .filter_map(|(_, used)| Some(used.as_ref()?.refused))
        .sum();
    assert_eq!(refused, 260 - admitted as u64);
}

/// A proxy's index of a listener has an entry for each match at each host.
#[test]
fn matches_count_at_each_host_of_each_listener() {
    let value = json!({
        "metadata": {"namespace": "app", "name": "shop"},
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "edge"}],
            "hostnames": ["a.example.com", "b.example.com", "c.example.com", "d.example.com"],
            "rules": [
                {"matches": [{"path": {"value": "/a"}}, {"path": {"value": "/b"}}]},
                {"matches": [{"path": {"value": "/c"}}]},
            ],
        },
    });
    let route = admitted(GATEWAY_API, "HTTPRoute", value);
    // Three matches at four hosts of two listeners.
    for (limit, is_refused) in [(24, false), (23, true)] {
        let options = Options {
            budgets: Limits::default().with(Budget::ViewAttachments, limit),
            ..Options::cluster()
        };
        let mut translator = Translator::new(options);
        let batch = vec![
            Event::Upsert(gateway(2)),
            Event::Upsert(route.clone()),
            Event::Start,
        ];
        let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
        let refused = Refused::of(&delta).names("GatewayFull");
        assert_eq!(refused.contains("shop"), is_refused, "{limit}");
    }
}

/// Bytes of the requests that a proxy begins a stream with once it holds everything.
fn first_requests(delta: &Delta) -> Vec<usize> {
    let mut client = Client::new("proxy".to_owned());
    let resources = delta.resources.iter().filter_map(|(_, it)| it.as_ref());
    client.restore(resources.map(|it| (it, Some(Version::of(b"content")))));
    let requests = client.connect(Report::Versions).into_iter();
    requests.map(|request| request.encoded_len()).collect()
}

/// The number of routes and ListenerSets that the project measures with, each by a tenth.
#[test]
fn forty_thousand_routes_on_listener_sets_fit() {
    let mut translator = Translator::new(Options::cluster());
    let mut batch = vec![Event::Upsert(gateway(1))];
    batch.extend((0..250).map(listener_set).map(Event::Upsert));
    let routes = (0..4_000).map(|number| route_of_set(number, number % 250));
    batch.extend(routes.map(Event::Upsert));
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert_eq!(Refused::of(&delta).0.len(), 0);
    for ((budget, _), used) in translator.take_budget_changes() {
        let used = used.expect("it is in use");
        assert!(used.share * 10.0 < 0.7, "{budget}: {used:?}");
    }
}

#[test]
fn a_route_whose_rules_take_too_many_bytes_at_its_listeners_is_refused() {
    let options = Options {
        budgets: Limits::default().with(Budget::RouteBytes, 10_000),
        ..Options::cluster()
    };
    let mut translator = Translator::new(options);
    let batch = vec![
        Event::Upsert(gateway(64)),
        Event::Upsert(route(1, 16)),
        Event::Upsert(route(2, 1)),
        Event::Start,
    ];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    let refused = Refused::of(&delta);
    assert_eq!(
        refused.names("RouteTooLarge"),
        BTreeSet::from(["route-001".to_owned()])
    );
    assert_eq!(refused.0.len(), 1);
    let mut of_refused = delta
        .resources
        .iter()
        .filter_map(|(key, resource)| match resource {
            Some(Resource::Route(route)) if key.key.contains("/route-001/") => Some(route),
            _ => None,
        });
    let closing = of_refused.next().expect("it is closed");
    assert!(of_refused.next().is_none(), "by one rule");
    assert_eq!(closing.attachments.len(), 64, "at each listener");
    let rule = closing.rule.http().expect("a rule of HTTP");
    assert!(rule.backends.is_empty(), "{rule:?}");
    assert_eq!(rule.matches.len(), 16, "what its rules match: {rule:?}");
}

/// Proxies would not get the policy, and its target would be open.
#[test]
fn a_restricting_policy_that_is_too_large_closes_its_target() {
    let mut translator = Translator::new(Options::cluster());
    let batch = vec![
        Event::Upsert(gateway(1)),
        Event::Upsert(tokens(6)),
        Event::Start,
    ];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    let first = policy_of(&delta);
    assert!(first.spec.is_invalid && first.spec.jwt.is_none());
    assert_eq!(first.spec.hidden, [JwtSource::Query("token".to_owned())]);
    let Some(Status::Policy(status)) = status_of(&delta) else {
        panic!("it has a status");
    };
    let accepted = &status.ancestors[0].conditions[0];
    assert!(accepted.is_problem(), "{accepted:?}");
    for part in ["the limit is 1310720", "503 (policy_invalid)"] {
        assert!(accepted.message.contains(part), "{accepted:?}");
    }

    let smaller = vec![Event::Upsert(tokens(3))];
    let delta = translator.apply(smaller, Timestamp::UNIX_EPOCH);
    let jwt = policy_of(&delta).spec.jwt.expect("it is in force");
    assert_eq!(jwt.providers.len(), 3);
    // One that grows does not leave its previous version in force, which a new leader would not know.
    let larger = vec![Event::Upsert(tokens(6))];
    let delta = translator.apply(larger, Timestamp::UNIX_EPOCH);
    assert_eq!(policy_of(&delta), first);
}

/// What closes refused routes has a fourth of each budget; what closes the targets of refused policies has no
/// such limit, since without it they would be open.
#[test]
fn restricting_policies_that_are_too_large_close_their_targets_however_many_they_are() {
    let budgets = Limits::default();
    let budgets = budgets.with(Budget::ViewResources, 64);
    let options = Options {
        budgets: budgets.with(Budget::ResourceBytes, 1_000),
        ..Options::cluster()
    };
    let mut translator = Translator::new(options);
    let mut batch = vec![Event::Upsert(gateway(1))];
    for number in 0..60 {
        let route = route(number, 1);
        let policy = json!({
            "metadata": {"namespace": "app", "name": format!("tokens-{number}")},
            "spec": {
                "targetRefs": [{
                    "group": GATEWAY_API, "kind": "HTTPRoute", "name": format!("route-{number:03}"),
                }],
                "jwt": {"providers": [{
                    "name": "idp", "issuer": "https://idp.example.com",
                    "jwks": {"inline": json!({"keys": [
                        {"kty": "oct", "k": "c2VjcmV0", "x5c": "a".repeat(1_000)},
                    ]}).to_string()},
                }]},
            },
        });
        batch.push(Event::Upsert(route));
        batch.push(Event::Upsert(admitted(
            "gateway-system.io",
            "TrafficPolicy",
            policy,
        )));
    }
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert_eq!(Refused::of(&delta).0.len(), 0, "all routes fit");
    let policies = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(Resource::Policy(policy)) => Some(policy),
        _ => None,
    });
    let closed = policies.filter(|policy| policy.spec.is_invalid && policy.spec.jwt.is_none());
    assert_eq!(closed.count(), 60);
}

/// Nothing is sent on one machine.
#[test]
fn a_large_policy_in_files_is_in_force() {
    let options = Options {
        budgets: Limits::of_machine(),
        ..Options::cluster()
    };
    let mut translator = Translator::new(options);
    let batch = vec![
        Event::Upsert(gateway(1)),
        Event::Upsert(tokens(6)),
        Event::Start,
    ];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert!(policy_of(&delta).spec.jwt.is_some());
}

/// The resource of the only policy.
fn policy_of(delta: &Delta) -> Policy {
    let policies = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(Resource::Policy(policy)) => Some(Policy::clone(policy)),
        _ => None,
    });
    let policies: Vec<Policy> = policies.collect();
    let [policy] = &policies[..] else {
        panic!("{} policies", policies.len());
    };
    policy.clone()
}

fn status_of(delta: &Delta) -> Option<&Status> {
    let mut statuses = delta.statuses.iter();
    let (_, status) = statuses.find(|(object, _)| object.kind == ObjectKind::TrafficPolicy)?;
    status.as_ref()
}

/// A policy of the Gateway with so many providers, each with keys of 250 KiB.
fn tokens(providers: usize) -> Object {
    let keys = json!({"keys": [{"kty": "oct", "k": "c2VjcmV0", "x5c": "a".repeat(250 << 10)}]});
    let providers = (0..providers).map(|number| {
        let mut provider = json!({
            "name": format!("p{number}"), "issuer": format!("https://{number}.example.com"),
            "jwks": {"inline": keys.to_string()},
        });
        if number == 0 {
            provider["from"] = json!({"query": "token"});
        }
        provider
    });
    let value = json!({
        "metadata": {"namespace": "infra", "name": "tokens"},
        "spec": {
            "targetRefs": [{"group": GATEWAY_API, "kind": "Gateway", "name": "edge"}],
            "jwt": {"providers": providers.collect::<Vec<_>>()},
        },
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
}

/// 150 `ListenerSet`s with 64 ports each took every node port of a cluster, or made a Service that
/// etcd refuses.
#[test]
fn ports_of_listener_sets_beyond_the_limit_of_a_gateway_are_refused() {
    let mut translator = Translator::new(Options::cluster());
    let mut batch = vec![Event::Upsert(gateway(1))];
    batch.extend((0..150).map(|set| Event::Upsert(ports(set))));
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    let binds = delta
        .resources
        .iter()
        .filter(|(key, _)| key.kind == Kind::Bind);
    assert_eq!(binds.count(), 64);
    let uses = translator.take_budget_changes();
    let of_ports = uses
        .iter()
        .find(|((budget, _), _)| *budget == Budget::GatewayPorts);
    let (_, used) = of_ports.expect("the Gateway has ports");
    assert_eq!(used.expect("they are in use").refused, 9_600 - 63);
}

/// A ListenerSet with 64 ports of its own.
fn ports(set: usize) -> Object {
    let listeners = (0..64).map(|number| {
        let port = 20_000 + set * 64 + number;
        json!({"name": format!("port-{port}"), "port": port, "protocol": "HTTP"})
    });
    let value = json!({
        "metadata": {"namespace": "app", "name": format!("set-{set:03}")},
        "spec": {
            "parentRef": {"namespace": "infra", "name": "edge"},
            "listeners": listeners.collect::<Vec<_>>(),
        },
    });
    admitted(GATEWAY_API, "ListenerSet", value)
}

#[test]
fn only_what_is_read_is_kept_of_secrets_and_config_maps() {
    let data = json!({"tls.crt": "YQ==", "tls.key": "Yg==", "ca.crt": "Yw==", "password": "ZA=="});
    let value = json!({
        "metadata": {"namespace": "app", "name": "all", "labels": {"a": "b"}}, "type": "Opaque",
        "data": data, "stringData": {"token": "secret"},
    });
    let Object::Secret(secret) = admitted("", "Secret", value) else {
        panic!("it is a Secret");
    };
    // Policies may refer to any entry: the watch drops those that none refers to.
    let entries: Vec<&str> = secret.entries().map(|(name, _)| name).collect();
    assert_eq!(
        entries,
        ["ca.crt", "password", "tls.crt", "tls.key", "token"]
    );
    assert!(secret.metadata.labels.is_empty());
    let value = json!({
        "metadata": {"namespace": "app", "name": "all", "labels": {"a": "b"}},
        "data": {"ca.crt": "a", "tls.crt": "b", "config.yaml": "c"}, "binaryData": {"d": "ZA=="},
    });
    let Object::ConfigMap(map) = admitted("", "ConfigMap", value) else {
        panic!("it is a ConfigMap");
    };
    let entries: Vec<&String> = map.data.keys().chain(map.binary_data.keys()).collect();
    assert_eq!(entries, ["ca.crt", "config.yaml", "tls.crt", "d"]);
    assert!(map.metadata.labels.is_empty());
}

/// A route that attaches to all listeners of the Gateway. Those of a higher number are newer.
fn route(number: usize, rules: usize) -> Object {
    let rules =
        (0..rules).map(|rule| json!({"matches": [{"path": {"value": format!("/{rule}")}}]}));
    let second = i64::try_from(number).expect("a small number");
    let created = Timestamp::from_second(second).expect("a time");
    let value = json!({
        "metadata": {
            "namespace": "app",
            "name": format!("route-{number:03}"),
            "creationTimestamp": created.to_string(),
        },
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "edge"}],
            "rules": rules.collect::<Vec<_>>(),
        },
    });
    admitted(GATEWAY_API, "HTTPRoute", value)
}

fn route_of_set(number: usize, set: usize) -> Object {
    let value = json!({
        "metadata": {"namespace": "app", "name": format!("route-{number}")},
        "spec": {
            "parentRefs": [{"group": GATEWAY_API, "kind": "ListenerSet", "name": format!("set-{set}")}],
            "hostnames": [format!("host-{number}.set-{set}.example.com")],
            "rules": [{
                "matches": [{"path": {"value": "/api"}, "headers": [{"name": "version", "value": "two"}]}],
                "backendRefs": [{"name": format!("service-{number}"), "port": 80}],
            }],
        },
    });
    admitted(GATEWAY_API, "HTTPRoute", value)
}

/// The head of the table.
const HEADER: &str = "| budget | what is counted | limit | at most | beyond it | raised by | why |\n\
                      |---|---|---|---|---|---|---|\n";
