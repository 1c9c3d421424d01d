use std::sync::Arc;

use serde_json::json;
use tokio::time::Instant;
use translate::ObjectKind;
use translate::files::{Source, admit};

use super::*;
use crate::watch::{ClassParameters, Kinds};

const POLICY: &str = "\
apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {namespace: a, name: p}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]
  limits: {connectTimeout: 3s}
";

fn policy() -> Object {
    let admitted = admit(&[Source::new("policy.yaml", POLICY)]);
    let mut objects = admitted.objects.into_iter();
    objects.next().expect("it is valid").0
}

/// An intake, and the kind of policies.
fn intake() -> (Intake, ObjectKind) {
    let kinds = Kinds::new(&[]);
    let outputs = Arc::new(Outputs::default());
    (
        Intake::new(&kinds, "c".to_owned(), outputs),
        ObjectKind::TrafficPolicy,
    )
}

fn change(kind: ObjectKind, what: ChangeKind) -> Change {
    Change {
        kind,
        what,
        received: Instant::now(),
    }
}

fn invalid(kind: ObjectKind) -> Change {
    let (object, name) = (policy(), policy().object_ref().name);
    let content = Content::Invalid {
        reference: object.object_ref(),
        fail_closed: Some(object),
        why: "a mistake".into(),
        observed: None,
    };
    change(kind, ChangeKind::Upsert(name, content))
}

#[test]
fn an_invalid_policy_is_replaced_only_where_none_exists_after_the_batch() {
    let (mut intake, kind) = intake();
    let mut store = Store::default();
    let mut batch = Batch::new();
    let mut take = |intake: &mut Intake, store: &Store, change| {
        intake.take(change, store, &mut batch);
        batch.len()
    };
    assert_eq!(take(&mut intake, &store, invalid(kind)), 1, "none exists");
    assert_eq!(
        take(&mut intake, &store, invalid(kind)),
        1,
        "the first does"
    );
    let gone = change(kind, ChangeKind::Delete(policy().object_ref().name));
    assert_eq!(take(&mut intake, &store, gone), 2);
    assert_eq!(
        take(&mut intake, &store, invalid(kind)),
        3,
        "it was deleted"
    );

    intake.begin_batch();
    assert_eq!(take(&mut intake, &store, invalid(kind)), 4, "a new batch");
    store = [policy()].into_iter().collect();
    intake.begin_batch();
    assert_eq!(take(&mut intake, &store, invalid(kind)), 4, "one is stored");
}

/// A version of the policy as the API server sends it.
fn version(kind: ObjectKind, target: &str, field: (&str, Value)) -> Change {
    let mut written = json!({
        "apiVersion": "gateway-system.io/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": {"namespace": "a", "name": "p"},
        "spec": {"targetRefs": [
            {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": target}
        ]},
    });
    written["spec"][field.0] = field.1;
    let text = written.to_string();
    let admitted = files::admit_json(ObjectKind::TrafficPolicy, &text, None);
    let admitted = admitted
        .expect("it is JSON")
        .expect("the kind is supported");
    let reference = admitted.reference.expect("it has a name");
    let name = reference.name.clone();
    let content = match admitted.object {
        Some(object) => Content::Valid {
            object,
            observed: None,
        },
        None => Content::Invalid {
            reference,
            fail_closed: admitted.fail_closed,
            why: "a mistake".into(),
            observed: None,
        },
    };
    change(kind, ChangeKind::Upsert(name, content))
}

/// The policy in effect after each change, each in a batch of its own or all in one.
fn in_effect(changes: impl IntoIterator<Item = Change>, at_once: bool) -> Vec<Option<Object>> {
    let (mut intake, _) = intake();
    let (mut store, reference) = (Store::default(), policy().object_ref());
    let changes = changes.into_iter().map(|change| {
        let mut batch = Batch::new();
        intake.take(change, &store, &mut batch);
        let current = intake.current(&reference, &store);
        if !at_once {
            store = current.clone().into_iter().collect();
            intake.begin_batch();
        }
        current
    });
    changes.collect()
}

fn targets(object: Option<&Object>) -> Vec<&str> {
    let Some(Object::TrafficPolicy(policy)) = object else {
        return Vec::new();
    };
    let targets = policy.spec.target_refs.iter();
    targets.map(|it| it.name.as_str()).collect()
}

/// It happens whenever the controller writes the status: what the first version protected was open then.
#[test]
fn the_same_rejected_version_again_changes_nothing() {
    let (_, kind) = intake();
    let rejected = || version(kind, "b", ("jwt", json!({"providers": "none"})));
    for at_once in [false, true] {
        let valid = json!({"deny": [{"when": "true"}]});
        let valid = version(kind, "a", ("authorization", valid));
        let found = in_effect([valid, rejected(), rejected(), rejected()], at_once);
        assert_eq!(targets(found[0].as_ref()), ["a"]);
        assert_eq!(targets(found[1].as_ref()), ["b", "a"]);
        assert_eq!(found[2], found[1]);
        assert_eq!(found[3], found[1]);
    }
}

#[test]
fn a_later_version_that_restricts_nothing_brings_the_last_valid_one_back() {
    let (_, kind) = intake();
    for at_once in [false, true] {
        let versions = [
            ("limits", json!({"connectTimeout": "3s"})),
            ("jwt", json!({"providers": "none"})),
            ("limits", json!({"connectTimeout": "soon"})),
        ];
        let versions = versions.map(|field| version(kind, "a", field));
        let found = in_effect(versions, at_once);
        assert_ne!(found[1], found[0]);
        assert_eq!(found[2], found[0]);
    }
}

#[test]
fn limits_of_listeners_are_read_from_parameters() {
    let given = limits(&json!({"limits": {"ports": 100}, "replicas": 2}));
    let expected = ListenerLimits {
        ports: Some(100),
        listeners: None,
    };
    assert_eq!(given, expected);
    assert_eq!(limits(&json!({})), ListenerLimits::default());
}

/// The policy in this generation and with this status.
fn observed(kind: ObjectKind, generation: i64, status: &str) -> Change {
    let observed = Observed {
        uid: "u".into(),
        resource_version: "1".into(),
        generation,
        api_version: "gateway-system.io/v1alpha1".into(),
        is_deleted: false,
        status: status.into(),
    };
    let content = Content::Valid {
        object: policy(),
        observed: Some(Arc::new(observed)),
    };
    change(
        kind,
        ChangeKind::Upsert(policy().object_ref().name, content),
    )
}

#[test]
fn only_writes_of_statuses_count_as_such() {
    let (mut intake, kind) = intake();
    let (store, mut batch) = (Store::default(), Batch::new());
    let first = observed(kind, 1, "");
    assert!(!intake.is_of_status(&first), "it is new");
    intake.take(first, &store, &mut batch);
    assert!(intake.is_of_status(&observed(kind, 1, "{}")));
    assert!(!intake.is_of_status(&observed(kind, 1, "")), "its labels");
    assert!(!intake.is_of_status(&observed(kind, 2, "{}")), "its spec");
    assert!(!intake.is_of_status(&invalid(kind)));
    let gone = change(kind, ChangeKind::Delete(policy().object_ref().name));
    assert!(!intake.is_of_status(&gone));
}

/// The deployer leaves the workload as the last valid parameters made it.
#[test]
fn a_wrong_reference_of_a_class_leaves_the_parameters_of_the_last_valid_one() {
    let (mut intake, kind) = intake();
    let name = ObjectName::new("", "gateway");
    let mut parameters = |parameters: Option<ClassParameters>| {
        let class = Class {
            controller_name: "c".to_owned(),
            parameters,
            claim: None,
        };
        let observed = Observed {
            uid: "u".into(),
            resource_version: "1".into(),
            generation: 1,
            api_version: "gateway.networking.k8s.io/v1".into(),
            is_deleted: false,
            status: "".into(),
        };
        let observed = Arc::new(observed);
        let content = Content::Class { class, observed };
        let mut batch = Batch::new();
        let what = ChangeKind::Upsert(name.clone(), content);
        intake.take(change(kind, what), &Store::default(), &mut batch);
        batch.into_iter().find_map(|event| match event {
            Event::ClassParameters(_, parameters) => Some(parameters),
            _ => None,
        })
    };
    let given = ObjectName::new("infra", "large");
    assert_eq!(parameters(Some(Ok(given.clone()))), Some(Some(given)));
    assert_eq!(parameters(Some(Err("a typo".into()))), None);
    assert_eq!(parameters(None), Some(None), "it was removed");
}
