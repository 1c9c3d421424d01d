//! The status of a policy follows the policies that take precedence over it, in every order.

use jiff::Timestamp;
use translate::admit::{Source, admit};
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
