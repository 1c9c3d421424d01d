//! What stands in for a policy while its latest version is rejected and the last valid one is known.

use std::sync::Arc;

use super::{load, reasons};
use crate::engine::Event;
use crate::files::{Configuration, Reason};
use crate::objects::store::Store;
use crate::policy::api::{PolicyStanding, TrafficPolicy};

/// The policy in a file, with one target and further settings.
fn policy(target: &str, fields: &str) -> String {
    format!(
        "apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {{name: p}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {target}}}]
{fields}"
    )
}

/// The policies in effect.
fn in_force(configuration: &Configuration) -> Vec<Arc<TrafficPolicy>> {
    let store: Store = configuration.in_force().collect();
    store.traffic_policies.values().cloned().collect()
}

/// Whether one policy is in effect and refuses every request of these targets.
fn refuses(configuration: &Configuration, targets: &[&str]) -> bool {
    let [policy] = &*in_force(configuration) else {
        return false;
    };
    let refs = policy.spec.target_refs.iter();
    refs.map(|it| it.name.as_str()).eq(targets.iter().copied())
        && matches!(policy.standing, PolicyStanding::Rejected(_))
}

const PROTECTED: &str = "  authorization: {deny: [{when: \"true\"}]}\n";
const OPEN: &str = "  limits: {connectTimeout: 3s}\n";
const REJECTED: &str = "  jwt: {providers: none}\n";
/// A rejected version that restricts nothing.
const HARMLESS: &str = "  limits: {connectTimeout: soon}\n";

/// The targets of the last valid version were opened by the second arrival.
#[test]
fn the_same_rejected_version_again_changes_nothing() {
    let mut configuration = Configuration::default();
    load(&mut configuration, &[("a.yaml", &policy("a", PROTECTED))]);
    let rejected = policy("b", REJECTED);
    assert!(load(&mut configuration, &[("a.yaml", &rejected)]).changed());
    assert!(refuses(&configuration, &["b", "a"]));
    let before = in_force(&configuration);
    let another = policy("x", OPEN).replace("name: p}", "name: another}");
    for text in [format!("# A comment.\n{rejected}"), rejected.clone()] {
        let reload = load(&mut configuration, &[("a.yaml", &text)]);
        assert!(refuses(&configuration, &["b", "a"]), "{text}");
        assert_eq!(reload.events, [], "{text}");
        assert_eq!(in_force(&configuration), before);
    }
    // An edit of another file looks at it again.
    let files = [("a.yaml", &*rejected), ("b.yaml", &another)];
    let reload = load(&mut configuration, &files);
    let [Event::Upsert(object)] = &*reload.events else {
        panic!("{:?}", reload.events);
    };
    assert_eq!(&*object.metadata().name.name, "another");
    // A field of an unknown name may restrict connections too.
    let newer = format!("{rejected}  newer: 1\n");
    assert!(load(&mut configuration, &[("a.yaml", &newer)]).changed());
    let stands_in = |policy: &Arc<TrafficPolicy>| match &policy.standing {
        PolicyStanding::Rejected(rejected) => rejected.has_unknown,
        _ => false,
    };
    assert!(in_force(&configuration).iter().all(stands_in));
}

/// The namespace was closed by the second arrival.
#[test]
fn a_rejected_version_without_targets_again_changes_nothing() {
    let mut configuration = Configuration::default();
    load(&mut configuration, &[("a.yaml", &policy("a", OPEN))]);
    let rejected = format!(
        "{}{REJECTED}",
        policy("a", "").replace(
            "[{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a}]",
            "[]"
        )
    );
    for comment in ["", "# Once more.\n"] {
        load(
            &mut configuration,
            &[("a.yaml", &format!("{comment}{rejected}"))],
        );
        assert!(refuses(&configuration, &["a"]), "{comment}");
    }
}

#[test]
fn a_later_version_that_restricts_nothing_brings_the_last_valid_one_back() {
    let mut configuration = Configuration::default();
    let valid = policy("a", OPEN);
    load(&mut configuration, &[("a.yaml", &valid)]);
    let expected = in_force(&configuration);
    load(&mut configuration, &[("a.yaml", &policy("a", REJECTED))]);
    assert!(refuses(&configuration, &["a"]));
    assert!(configuration.kept().is_empty());
    let reload = load(&mut configuration, &[("a.yaml", &policy("a", HARMLESS))]);
    assert_eq!(in_force(&configuration), expected);
    assert_eq!(reasons(&reload).last(), Some(&Reason::PreviousKept));
    assert_eq!(configuration.kept().len(), 1);
}

#[test]
fn a_rejected_policy_whose_file_became_unreadable_goes_with_the_file() {
    for (name, rest) in [("the file", None), ("the policy", Some("# Nothing.\n"))] {
        let mut configuration = Configuration::default();
        load(&mut configuration, &[("a.yaml", &policy("a", OPEN))]);
        let reload = load(&mut configuration, &[("a.yaml", &policy("a", REJECTED))]);
        let text = &reload.findings.last().expect("it is reported").text;
        assert!(
            text.contains("its previous version restricts access less"),
            "{text}"
        );
        let reload = load(&mut configuration, &[("a.yaml", "kind: [\n")]);
        assert!(!reload.changed());
        assert!(refuses(&configuration, &["a"]), "{name} cannot be read");
        let files: Vec<_> = rest.map(|text| ("a.yaml", text)).into_iter().collect();
        let reload = load(&mut configuration, &files);
        assert_eq!(in_force(&configuration), [], "{name} is removed");
        assert!(
            matches!(&*reload.events, [Event::Delete(_)]),
            "{:?}",
            reload.events
        );
    }
}
