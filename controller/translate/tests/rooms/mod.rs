//! Policies, backends, Services and certificates beyond what a Gateway has room for.

mod answers;
mod backends;
mod certificates;
mod closed_hosts;
mod hash_tables;
mod listener_limits;
mod networks;
mod path_rewrites;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use translate::ObjectKind;
use translate::budgets::{Budget, Limits};
use translate::files::admit_value;
use translate::status::{Condition, ConditionType, Status};
use translate::{Delta, Event, Object, Options, Translator};
use xds::model::{Policy, Resource};

use crate::support::{GATEWAY_API, admitted, gateway};

fn translator(budget: Budget, limit: u64) -> Translator {
    Translator::new(Options {
        budgets: Limits::default().with(budget, limit),
        ..Options::cluster()
    })
}

fn apply(translator: &mut Translator, objects: Vec<Object>) -> Delta {
    let upserts = objects.into_iter().map(Event::Upsert);
    let batch = upserts.chain([Event::Start]).collect();
    translator.apply(batch, Timestamp::UNIX_EPOCH)
}

/// A tenant with thousands of policies would fill every proxy of a Gateway, and close or open others' routes.
#[test]
fn policies_beyond_the_budget_of_a_gateway_are_refused_and_close_what_they_protect() {
    let mut translator = translator(Budget::GatewayPolicies, 5);
    let mut objects = vec![gateway(1)];
    for number in 0..8 {
        objects.push(route("noisy", number));
        objects.push(policy("noisy", number, "jwt"));
    }
    objects.push(route("noisy", 8));
    objects.push(policy("noisy", 8, "limits"));
    objects.push(route("quiet", 99));
    objects.push(policy("quiet", 99, "jwt"));
    let delta = apply(&mut translator, objects);

    let full: BTreeSet<String> = (4..9)
        .map(|number| format!("noisy/p-{number:02}"))
        .collect();
    assert_eq!(refused(&delta), full);
    let policies = policies(&delta);
    let (closing, in_force): (Vec<_>, Vec<_>) = policies.iter().partition(|it| it.spec.is_invalid);
    let names = |policies: &[&Policy]| -> Vec<String> {
        let names = policies.iter().map(|it| it.key.as_str().to_owned());
        names.collect()
    };
    // Those that protect close their routes; the one that only sets limits is left out.
    let closing = names(&closing);
    assert_eq!(closing.len(), 4, "{closing:?}");
    assert!(
        closing.iter().all(|it| it.contains("noisy/p-0")),
        "{closing:?}"
    );
    assert!(closing.iter().all(|it| !it.contains("p-08")), "{closing:?}");
    let in_force = names(&in_force);
    assert_eq!(in_force.len(), 5, "{in_force:?}");
    assert!(
        in_force.iter().any(|it| it.contains("quiet/p-99")),
        "{in_force:?}"
    );
    let message = message(&delta, "TrafficPolicy", "p-07");
    for part in ["infra/edge", "its limit is 5", "503 (policy_invalid)"] {
        assert!(message.contains(part), "{message}");
    }
    let message = self::message(&delta, "TrafficPolicy", "p-08");
    assert!(message.contains("It has no effect there"), "{message}");
    assert_eq!(used(&mut translator, Budget::GatewayPolicies), 5);

    // Whoever makes room gets it.
    let reference = |number: usize| policy("noisy", number, "jwt").object_ref();
    let gone = (0..3).map(|number| Event::Delete(reference(number)));
    let delta = translator.apply(gone.collect(), Timestamp::UNIX_EPOCH);
    let back = self::policies(&delta);
    let back: Vec<&Policy> = back.iter().filter(|it| it.spec.jwt.is_some()).collect();
    assert_eq!(back.len(), 3, "{back:?}");
}

/// What closes targets needs no room of its own: there is one for each target.
#[test]
fn invalid_policies_beyond_the_budget_close_their_target_once() {
    let mut translator = translator(Budget::GatewayPolicies, 4);
    let mut objects = vec![gateway(1), route("noisy", 0)];
    objects.extend((0..50).map(invalid_policy));
    let delta = apply(&mut translator, objects);
    let policies = policies(&delta);
    assert!(policies.iter().all(|it| it.spec.is_invalid));
    assert_eq!(policies.len(), 4, "the oldest, and nothing else");
    let message = message(&delta, "TrafficPolicy", "p-49");
    assert!(message.contains("503 (policy_invalid)"), "{message}");
    // Even if none has room.
    let mut translator = self::translator(Budget::GatewayPolicies, 0);
    let mut objects = vec![gateway(1), route("noisy", 0)];
    objects.extend((0..50).map(invalid_policy));
    let delta = apply(&mut translator, objects);
    assert_eq!(self::policies(&delta).len(), 1);
}

/// They are not refused: a limit of a few keys is better than none, or than a closed route.
#[test]
fn keys_of_rate_limits_beyond_the_budget_of_a_gateway_are_few() {
    // Two tables of 65 536 keys.
    let mut translator = translator(Budget::GatewayRateTables, 2 * 512 * 1024);
    let mut objects = vec![gateway(1)];
    for number in 0..4 {
        objects.push(route("noisy", number));
        objects.push(policy("noisy", number, "rateLimit"));
    }
    let delta = apply(&mut translator, objects);
    assert_eq!(refused(&delta), BTreeSet::new());
    let policies = policies(&delta);
    let keys = policies.iter().map(|policy| {
        let rate_limit = policy.spec.rate_limit.as_ref().expect("it limits rates");
        (policy.key.as_str(), rate_limit.rules[0].max_keys)
    });
    let key = |few: &str, number| {
        format!("TrafficPolicy/noisy/p-0{number}/{few}HTTPRoute/noisy/r-0{number}")
    };
    let mut expected = vec![
        (key("", 0), 65_536),
        (key("", 1), 65_536),
        (key("few-keys/", 2), 1024),
        (key("few-keys/", 3), 1024),
    ];
    expected.sort();
    let mut keys: Vec<_> = keys.map(|(key, keys)| (key.to_owned(), keys)).collect();
    keys.sort();
    assert_eq!(keys, expected);
    let statuses = delta.statuses.iter();
    let partly = statuses.filter_map(|(object, status)| {
        let conditions = status.as_ref().map(conditions).unwrap_or_default();
        let programmed = conditions
            .into_iter()
            .find(|it| it.kind == ConditionType::Programmed)?;
        (object.kind == ObjectKind::TrafficPolicy).then(|| programmed.message.to_string())
    });
    let partly: Vec<_> = partly.collect();
    assert_eq!(partly.len(), 2, "{partly:?}");
    for part in [
        "rate limits keep fewer keys here: spec.rateLimit",
        "infra/edge",
        "1 MiB",
        "keeps 1024 keys there",
    ] {
        assert!(partly[0].contains(part), "{part} is missing: {partly:?}");
    }
    // Whoever makes room gets it.
    let gone = Event::Delete(policy("noisy", 0, "rateLimit").object_ref());
    let delta = translator.apply(vec![gone], Timestamp::UNIX_EPOCH);
    let back = self::policies(&delta);
    assert_eq!(back.len(), 1, "{back:?}");
    assert_eq!(back[0].key.as_str(), key("", 2));
}

/// Rules without a key, and those that keep few keys, take memory too.
#[test]
fn rules_of_rate_limits_beyond_the_number_of_a_gateway_close_what_they_protect() {
    let mut translator = Translator::new(Options {
        budgets: Limits::default()
            .with(Budget::GatewayRateRules, 3)
            .with(Budget::GatewayRateTables, 0),
        ..Options::cluster()
    });
    let mut objects = vec![gateway(1)];
    for (number, field) in ["rateLimit", "rateLimit", "keyless", "keyless", "limits"]
        .iter()
        .enumerate()
    {
        objects.push(route("noisy", number));
        objects.push(policy("noisy", number, field));
    }
    let delta = apply(&mut translator, objects);
    assert_eq!(refused(&delta), BTreeSet::from(["noisy/p-03".to_owned()]));
    let policies = policies(&delta);
    let closing = policies.iter().filter(|it| it.spec.is_invalid);
    let closing: Vec<_> = closing.map(|it| it.key.as_str()).collect();
    assert_eq!(
        closing,
        ["TrafficPolicy/noisy/p-03/closed/HTTPRoute/noisy/r-03"]
    );
    let message = message(&delta, "TrafficPolicy", "p-03");
    for part in [
        "its limit is 3 (rules of rate limits",
        "503 (policy_invalid)",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(used(&mut translator, Budget::GatewayRateRules), 1);
}

/// Thousands of targets may have one, for which nothing else is refused.
#[test]
fn what_closes_targets_in_the_place_of_large_policies_is_small_and_counted() {
    let mut translator = translator(Budget::GatewayPolicies, 0);
    let mut objects = vec![gateway(1)];
    for number in 0..10 {
        objects.push(route("noisy", number));
        objects.push(policy_of_long_names(number));
    }
    let delta = apply(&mut translator, objects);
    let policies = policies(&delta);
    assert_eq!(policies.len(), 10);
    for policy in policies {
        assert!(policy.spec.is_invalid, "{policy:?}");
        let bytes = xds::encode::resource(&policy.into()).len();
        assert!(bytes < 512, "{bytes}");
    }
    let closing = share(&mut translator, Budget::GatewayClosingPolicies);
    assert_eq!(closing, Some(10.0 / 131_072.0));
    let gone = (0..10).map(|number| Event::Delete(policy_of_long_names(number).object_ref()));
    translator.apply(gone.collect(), Timestamp::UNIX_EPOCH);
    assert_eq!(share(&mut translator, Budget::GatewayClosingPolicies), None);
}

/// One that is invalid closes its target too.
#[test]
fn an_invalid_policy_with_long_names_of_places_is_small() {
    let mut translator = Translator::new(Options::cluster());
    let objects = vec![
        gateway(1),
        route("noisy", 0),
        invalid_policy_of_long_names(),
    ];
    let delta = apply(&mut translator, objects);
    let policies = policies(&delta);
    assert_eq!(policies.len(), 1);
    let bytes = xds::encode::resource(&policies[0].clone().into()).len();
    assert!(policies[0].spec.is_invalid && bytes < 512, "{bytes}");
}

/// The number of objects that are refused for a budget.
fn used(translator: &mut Translator, budget: Budget) -> u64 {
    let uses = translator.take_budget_changes().into_iter();
    let uses = uses.filter(|((it, gateway), _)| *it == budget && gateway.is_some());
    uses.filter_map(|(_, used)| Some(used?.refused)).sum()
}

/// The share of a budget that a Gateway uses, if it uses any; panics if that has not changed.
fn share(translator: &mut Translator, budget: Budget) -> Option<f64> {
    let uses = translator.take_budget_changes().into_iter();
    let mut uses = uses.filter(|((it, gateway), _)| *it == budget && gateway.is_some());
    let (_, used) = uses.next().expect("it has changed");
    used.map(|it| it.share)
}

fn keys(delta: &Delta, key: fn(&Resource) -> Option<String>) -> BTreeSet<String> {
    let resources = delta.resources.iter();
    resources.filter_map(|(_, it)| key(it.as_ref()?)).collect()
}

fn policies(delta: &Delta) -> Vec<Policy> {
    let policies = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(Resource::Policy(policy)) => Some(Policy::clone(policy)),
        _ => None,
    });
    policies.collect()
}

fn conditions(status: &Status) -> Vec<&Condition> {
    match status {
        Status::Policy(status) => { status.ancestors.iter() }
            .flat_map(|it| &it.conditions)
            .collect(),
        Status::Backend(status) => status.conditions.iter().collect(),
        _ => Vec::new(),
    }
}

/// The objects that a Gateway has no room for.
fn refused(delta: &Delta) -> BTreeSet<String> {
    let statuses = delta.statuses.iter();
    let refused = statuses.filter(|(_, status)| {
        let conditions = status.as_ref().map(conditions).unwrap_or_default();
        conditions
            .iter()
            .any(|it| it.kind == ConditionType::Accepted && it.reason.to_string() == "GatewayFull")
    });
    refused.map(|(object, _)| object.name.to_string()).collect()
}

fn message(delta: &Delta, kind: &str, name: &str) -> String {
    let mut statuses = delta.statuses.iter();
    let found =
        statuses.find(|(object, _)| object.kind.name() == kind && &*object.name.name == name);
    let status = found.and_then(|(_, status)| status.as_ref());
    let conditions = status.map(conditions).unwrap_or_default();
    let accepted = conditions
        .iter()
        .find(|it| it.kind == ConditionType::Accepted);
    accepted.expect("it has the condition").message.to_string()
}

fn metadata(namespace: &str, name: &str, number: usize) -> Value {
    let second = i64::try_from(number).expect("a small number");
    let created = Timestamp::from_second(second).expect("a time");
    json!({"namespace": namespace, "name": name, "creationTimestamp": created.to_string()})
}

fn policy(namespace: &str, number: usize, field: &str) -> Object {
    let mut spec = json!({
        "targetRefs": [
            {"group": GATEWAY_API, "kind": "HTTPRoute", "name": format!("r-{number:02}")},
        ],
    });
    let (field, value) = match field {
        "keyless" => (
            "rateLimit",
            json!({"rules": [{"name": "all", "requests": 10}]}),
        ),
        _ => (field, setting(field)),
    };
    spec[field] = value;
    let value = json!({
        "metadata": metadata(namespace, &format!("p-{number:02}"), number),
        "spec": spec,
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
}

fn setting(field: &str) -> Value {
    match field {
        "jwt" => json!({"providers": [{
            "name": "idp", "issuer": "https://idp.example.com",
            "jwks": {"inline": r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#},
        }]}),
        "rateLimit" => json!({"rules": [
            {"name": "each", "key": [{"clientAddress": {}}], "requests": 10},
        ]}),
        _ => json!({"requestBodyBytes": 1_000}),
    }
}

/// A policy that reads tokens from sixteen times three places with names of 200 bytes.
fn policy_of_long_names(number: usize) -> Object {
    let value = json!({
        "metadata": metadata("noisy", &format!("p-{number:02}"), number),
        "spec": {
            "targetRefs": [
                {"group": GATEWAY_API, "kind": "HTTPRoute", "name": format!("r-{number:02}")},
            ],
            "jwt": jwt_of_long_names(),
        },
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
}

fn jwt_of_long_names() -> Value {
    let providers = (0..16).map(|number| {
        let name = |of: &str| format!("{of}-{number}-{}", "n".repeat(200));
        json!({
            "name": format!("idp-{number}"), "issuer": format!("https://{number}.example.com"),
            "from": {"header": {"name": name("h")}, "query": name("q"), "cookie": name("c")},
            "jwks": {"inline": r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#},
        })
    });
    json!({"providers": providers.collect::<Vec<Value>>()})
}

/// What stands in for a policy of the first route with an invalid `jwt`.
fn invalid_policy(number: usize) -> Object {
    invalid_policy_with(number, &json!({"providers": "none"}))
}

/// The same for one that has many places of tokens.
fn invalid_policy_of_long_names() -> Object {
    let mut jwt = jwt_of_long_names();
    jwt["mode"] = "unknown".into();
    invalid_policy_with(0, &jwt)
}

fn invalid_policy_with(number: usize, jwt: &Value) -> Object {
    let mut fields = Map::new();
    let metadata = metadata("noisy", &format!("p-{number:02}"), number);
    fields.insert("metadata".to_owned(), metadata);
    let spec = json!({
        "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "r-00"}],
        "jwt": jwt,
    });
    fields.insert("spec".to_owned(), spec);
    let admitted = admit_value(ObjectKind::TrafficPolicy, fields);
    let rejected = admitted.expect("a kind that is read").fail_closed;
    rejected.expect("it would protect")
}

fn route_to(namespace: &str, number: usize, backend: &Value) -> Object {
    let value = json!({
        "metadata": metadata(namespace, &format!("r-{number:02}"), number),
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "edge"}],
            "hostnames": [format!("{number}.{namespace}.example.com")],
            "rules": [{"backendRefs": [backend]}],
        },
    });
    admitted(GATEWAY_API, "HTTPRoute", value)
}

fn route(namespace: &str, number: usize) -> Object {
    let backend = json!({
        "group": "gateway-system.io", "kind": "Backend", "name": format!("b-{number:02}"),
    });
    route_to(namespace, number, &backend)
}
