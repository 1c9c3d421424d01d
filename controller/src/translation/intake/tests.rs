use std::sync::Arc;

use serde_json::json;
use tokio::time::Instant;
use translate::admit::{Source, admit};

use super::*;
use crate::watch::Kinds;

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
fn intake() -> (Intake, KindId) {
    let kinds = Kinds::new(&[]);
    let reference = policy().object_ref();
    let is_of = |id: &KindId| kinds.reference(*id, &reference.name).as_ref() == Some(&reference);
    let kind = kinds.ids().find(is_of).expect("policies are watched");
    let outputs = Arc::new(Outputs::default());
    (Intake::new(kinds, "c".to_owned(), outputs), kind)
}

fn change(kind: KindId, what: ChangeKind) -> Change {
    Change {
        kind,
        what,
        received: Instant::now(),
    }
}

fn invalid(kind: KindId) -> Change {
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
