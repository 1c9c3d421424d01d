//! The status of a policy follows the policies that take precedence over it, in every order.

use jiff::Timestamp;
use serde_json::json;
use translate::files::{Source, admit};
use translate::status::{ConditionType, Status};
use translate::{Delta, Event, Object, ObjectRef, Options, Translator};

fn objects(text: &str) -> Vec<Object> {
    let admitted = admit(&[Source::new("case.yaml", text)]);
    assert!(admitted.findings.is_empty(), "{:?}", admitted.findings);
    let objects = admitted.objects.into_iter();
    objects.map(|(object, _)| object).collect()
}

fn apply(translator: &mut Translator, events: Vec<Event>) -> Delta {
    translator.apply(events, Timestamp::UNIX_EPOCH)
}

/// What the delta says of the programming of the route's policy; `None` if its status did not change.
fn programmed(delta: &Delta) -> Option<String> {
    let mut statuses = delta.statuses.iter();
    let (_, status) = statuses.find(|(object, _)| object.name.name.as_ref() == "own")?;
    let Some(Status::Policy(status)) = status else {
        panic!("{status:?}");
    };
    let conditions = &status.ancestors[0].conditions;
    let programmed = conditions
        .iter()
        .find(|it| it.kind == ConditionType::Programmed);
    Some(programmed.map_or_else(
        || "as usual".to_owned(),
        |it| format!("{:?} {:?}", it.status, it.reason),
    ))
}

const OBJECTS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: infra}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: other, namespace: infra}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 8090, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {name: own, namespace: app}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
  accessLog: {disabled: true}
";

fn route(parents: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: shop, namespace: app}}\n\
         spec: {{parentRefs: [{parents}], rules: [{{name: first}}]}}"
    )
}

fn enforced(section: &str, field: &str) -> String {
    format!(
        "apiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\n\
         metadata: {{name: enforced, namespace: infra}}\nspec:\n  \
         targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: gw{section}}}]\n  {field}\n"
    )
}

#[test]
fn the_status_of_a_policy_follows_those_that_override_it() {
    let upserts = |text: &str| objects(text).into_iter().map(Event::Upsert).collect();
    let mut translator = Translator::new(Options::machine());
    let (gw, other) = (
        "{name: gw, namespace: infra}",
        "{name: other, namespace: infra}",
    );
    let mut batch: Vec<Event> = upserts(&format!("{OBJECTS}---\n{}", route(gw)));
    batch.push(Event::Start);
    assert_eq!(
        programmed(&apply(&mut translator, batch)).as_deref(),
        Some("as usual")
    );
    let log = "accessLog: {format: json}";
    let overriding = format!("precedence: Overrides\n  {log}");
    let overridden = Some("False Overridden");
    let listener = ", sectionName: http";
    let enforced_at = |section: &str| enforced(section, &overriding);
    for (change, expected) in [
        (enforced("", log), None),
        (enforced_at(""), overridden),
        (
            enforced("", "precedence: Overrides\n  trustedHops: 1"),
            Some("as usual"),
        ),
        (enforced_at(listener), overridden),
        // It has an effect at the other Gateway.
        (
            route(&format!("{gw}, {other}")),
            Some("True PartiallyProgrammed"),
        ),
        (route(other), Some("as usual")),
        (route(gw), overridden),
    ] {
        let delta = apply(&mut translator, upserts(&change));
        assert_eq!(programmed(&delta).as_deref(), expected, "{change}");
    }
    let policy: ObjectRef = objects(&enforced_at(""))[0].object_ref();
    let delta = apply(&mut translator, vec![Event::Delete(policy)]);
    assert_eq!(programmed(&delta).as_deref(), Some("as usual"));
}

/// Listeners of the Gateway of the test below.
const LISTENERS: u16 = 64;

/// Routes with as many rules as one may have, and a policy for each.
const ROUTES: usize = 313;
const RULES: usize = 16;

/// A Gateway, and routes of another namespace with a policy for each rule.
fn gateway_with_many_policies() -> Vec<Event> {
    let value = |value: serde_json::Value| {
        let admitted = admit(&[Source::new("case.yaml", value.to_string())]);
        assert!(admitted.findings.is_empty(), "{:?}", admitted.findings);
        let mut objects = admitted.objects.into_iter();
        Event::Upsert(objects.next().expect("one object").0)
    };
    let listeners = (0..LISTENERS).map(|number| {
        json!({"name": format!("l{number}"), "port": 8080, "protocol": "HTTP", "hostname": format!("h{number}.test"),
               "allowedRoutes": {"namespaces": {"from": "All"}}})
    });
    let mut batch = vec![value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "gw", "namespace": "infra"},
        "spec": {"gatewayClassName": "gateway", "listeners": listeners.collect::<Vec<_>>()},
    }))];
    for route in 0..ROUTES {
        let rules = (0..RULES).map(|rule| json!({"name": format!("r{rule}")}));
        batch.push(value(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": format!("route{route}"), "namespace": "app"},
            "spec": {"parentRefs": [{"name": "gw", "namespace": "infra"}], "rules": rules.collect::<Vec<_>>()},
        })));
        batch.extend((0..RULES).map(|rule| {
            value(json!({
                "apiVersion": "gateway-system.io/v1alpha1", "kind": "TrafficPolicy",
                "metadata": {"name": format!("policy{route}-{rule}"), "namespace": "app"},
                "spec": {
                    "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute",
                                    "name": format!("route{route}"), "sectionName": format!("r{rule}")}],
                    "accessLog": {"disabled": true},
                },
            }))
        }));
    }
    batch.push(Event::Start);
    batch
}

/// A namespace with thousands of policies must not cost the controller seconds whenever the owner of a Gateway
/// changes an overriding policy.
#[test]
fn thousands_of_policies_follow_an_overriding_one_with_little_work() {
    let mut translator = Translator::new(Options::machine());
    let policies = ROUTES * RULES;
    apply(&mut translator, gateway_with_many_policies());
    let mut change = |section: &str, fields: &str| {
        let objects = objects(&enforced(
            section,
            &format!("precedence: Overrides\n  {fields}"),
        ));
        let delta = apply(
            &mut translator,
            objects.into_iter().map(Event::Upsert).collect(),
        );
        (
            delta.statuses.len(),
            translator.units_run(),
            translator.facts_read(),
        )
    };
    let log = "accessLog: {format: json}";
    for (section, added, expected) in [
        ("", log, policies),
        // Nobody loses anything to what holds in addition, nor to another value of the same field.
        ("", "accessLog: {format: text}", 0),
        (
            "",
            "accessLog: {format: text}\n  networks: {deny: [192.0.2.0/24]}",
            0,
        ),
        (
            "",
            "accessLog: {format: text}\n  networks: {deny: [192.0.2.0/25]}",
            0,
        ),
        (", sectionName: l1", log, policies),
    ] {
        let (statuses, units, facts) = change(section, added);
        assert!(statuses >= expected, "{statuses} statuses after {added}");
        assert!(units <= expected + 16, "{units} units after {added}");
        assert!(
            facts <= 16 * units,
            "{facts} facts of {units} units after {added}"
        );
    }
}
