//! Rejected and duplicate policies, which close their targets.

use super::{load, reasons};
use crate::engine::Event;
use crate::files::{Configuration, Reason};
use crate::objects::store::Store;
use crate::policy::api::PolicyStanding;

fn policy(jwt: &str) -> String {
    format!(
        "apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {{name: tokens}}
spec:
  targetRefs:
    - {{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}}
    - {{kind: nonsense}}
  jwt: {jwt}
"
    )
}

#[test]
fn a_rejected_jwt_policy_denies_every_request() {
    let mut configuration = Configuration::default();
    let refused = policy("{providers: [{name: a}]}");
    let reload = load(&mut configuration, &[("a.yaml", &refused)]);
    assert!(reload.changed());
    assert_eq!(reasons(&reload).last(), Some(&Reason::RefusesAll));
    let in_force = |configuration: &Configuration| {
        let store: Store = configuration.in_force().collect();
        let policies = store.traffic_policies.values();
        let jwt = policies.map(|it| it.spec.jwt.clone());
        let providers = jwt.map(|jwt| jwt.map(|it| it.providers.len()));
        providers.collect::<Vec<_>>()
    };
    assert_eq!(in_force(&configuration), [None], "nothing but its targets");
    let again = load(&mut configuration, &[("a.yaml", &refused)]);
    assert!(!again.changed() && again.findings.is_empty());

    let good = "{providers: [{name: a, issuer: a, jwks: {remote: {url: \"https://a.test\"}}}]}";
    let good = policy(good).replace("    - {kind: nonsense}\n", "");
    assert!(load(&mut configuration, &[("a.yaml", &good)]).changed());
    assert_eq!(in_force(&configuration), [Some(1)]);
    let reload = load(&mut configuration, &[("a.yaml", &refused)]);
    assert!(!reload.changed(), "the previous version holds");
    assert_eq!(reasons(&reload).last(), Some(&Reason::PreviousKept));

    assert!(load(&mut configuration, &[]).changed());
    assert_eq!(in_force(&configuration), []);
}

/// It was open until a restart of the controller, and closed from then on.
#[test]
fn a_rejected_version_that_would_protect_closes_what_the_version_before_left_open() {
    let mut configuration = Configuration::default();
    let header = policy("x").replace("    - {kind: nonsense}\n", "");
    let (header, _) = header.split_once("  jwt:").expect("it has one");
    let mut standing = |fields: &str| {
        let text = format!("{header}  {fields}\n");
        load(&mut configuration, &[("a.yaml", &text)]);
        let store: Store = configuration.in_force().collect();
        let policies = store.traffic_policies.values();
        let standings = policies.map(|policy| match &policy.standing {
            PolicyStanding::Admitted => ("admitted", policy.spec.target_refs.len()),
            PolicyStanding::Kept(_) => ("kept", policy.spec.target_refs.len()),
            PolicyStanding::Rejected(_) => ("rejected", policy.spec.target_refs.len()),
        });
        standings.collect::<Vec<_>>()
    };
    let open = "limits: {connectTimeout: 3s}";
    let valid = standing(open);
    let [("admitted", targets)] = valid[..] else {
        panic!("{valid:?}");
    };
    // A mistake in what restricts nothing keeps the version before.
    assert_eq!(
        standing("limits: {connectTimeout: soon}"),
        [("admitted", targets)]
    );
    for restricting in [
        "jwt: {providers: none}",
        "authorisation: {}",
        "authorization: {allow: x}",
    ] {
        assert_eq!(
            standing(restricting),
            [("rejected", targets)],
            "{restricting}"
        );
        assert_eq!(standing(open), [("admitted", targets)]);
    }
    // One that restricts access as much as the rejected one stays.
    assert_eq!(
        standing("authorization: {deny: [{when: \"true\"}]}"),
        [("admitted", targets)]
    );
    assert_eq!(
        standing("authorization: {deny: none}"),
        [("admitted", targets)]
    );
    assert_eq!(standing("jwt: {providers: none}"), [("rejected", targets)]);
}

#[test]
fn a_kept_policy_knows_where_rejected_versions_read_tokens_from() {
    let mut configuration = Configuration::default();
    let version = |fields: &str| {
        let text = policy(&format!(
            "{{providers: [{{name: a, issuer: a, jwks: {{remote: {{url: \"https://a.test\"}}}}, {fields}}}]}}"
        ));
        text.replace("    - {kind: nonsense}\n", "")
    };
    let mut standing = |text: &str| {
        load(&mut configuration, &[("a.yaml", text)]);
        let store: Store = configuration.in_force().collect();
        let policies = store.traffic_policies.values();
        let standings = policies.map(|policy| match &policy.standing {
            PolicyStanding::Admitted => "admitted".to_owned(),
            PolicyStanding::Kept(sources) => {
                let names = sources.iter().filter_map(|it| it.query.clone());
                format!("kept {}", names.collect::<Vec<_>>().join(","))
            }
            PolicyStanding::Rejected(_) => "rejected".to_owned(),
        });
        standings.collect::<Vec<_>>().join(" ")
    };
    let good = version("from: {query: one}");
    assert_eq!(standing(&version("from: {qeury: one}")), "rejected");
    assert_eq!(standing(&good), "admitted");
    assert_eq!(standing(&version("form: {query: two}")), "kept two");
    assert_eq!(standing(&version("from: {qeury: three}")), "kept three,two");
    // Nothing is known of this one.
    assert_eq!(standing("x: ["), "kept three,two");
    assert_eq!(standing(&good), "admitted");
}

#[test]
fn a_duplicate_policy_closes_its_targets_until_it_is_removed() {
    let mut configuration = Configuration::default();
    let good = "{providers: [{name: a, issuer: a, jwks: {remote: {url: \"https://a.test\"}}}]}";
    let first = policy(good).replace("    - {kind: nonsense}\n", "");
    let second = first.replace("name: shop", "name: other");
    load(&mut configuration, &[("a.yaml", &first)]);
    let files = [("a.yaml", &*first), ("b.yaml", &second)];
    let reload = load(&mut configuration, &files);
    assert_eq!(reasons(&reload), [Reason::Duplicate]);
    let closed = "until then its targets refuse every request";
    assert!(reload.findings[0].text.ends_with(closed));
    let [Event::Upsert(replacement)] = &*reload.events else {
        panic!("{:?}", reload.events)
    };
    assert_eq!(&*replacement.metadata().name.name, "tokens#2");
    let in_force = configuration
        .in_force()
        .map(|it| it.metadata().name.name.to_string());
    assert_eq!(in_force.collect::<Vec<_>>(), ["tokens", "tokens#2"]);
    assert!(!load(&mut configuration, &files).changed());
    let gone = Event::Delete(replacement.object_ref());
    assert_eq!(load(&mut configuration, &files[..1]).events, [gone]);
}
