use serde_json::json;
use translate::ObjectKind;
use translate::api;
use translate::status::{
    AncestorReference, Condition, PolicyAncestorStatus, PolicyStatus, RouteParentStatus,
    RouteStatus,
};
use xds::model::ObjectName;

use super::*;

fn observed(status: &Value) -> Observed {
    Observed {
        uid: "u".into(),
        resource_version: "7".into(),
        generation: 1,
        api_version: "gateway.networking.k8s.io/v1".into(),
        is_deleted: false,
        status: status.to_string().into(),
    }
}

fn author() -> Author<'static> {
    Author {
        controller_name: "ours.io/controller",
        generation: 1,
        now: jiff::Timestamp::UNIX_EPOCH,
        name: super::super::merge::NameUse::Own,
    }
}

fn accepted() -> Status {
    let condition = Condition {
        kind: ConditionType::Accepted,
        status: ConditionStatus::True,
        reason: Reason::Accepted,
        message: "the route is attached".into(),
        observed_generation: 1,
        field: None,
        blame: Blame::Own,
    };
    let parent_ref = serde_json::from_value(json!({"name": "edge"})).expect("a reference");
    Status::Route(RouteStatus {
        parents: vec![RouteParentStatus {
            parent_ref,
            controller_name: "ours.io/controller".to_owned(),
            conditions: vec![condition],
        }],
    })
}

fn planned(status: &Value, translated: Option<&Status>, refused: Option<&str>) -> Option<Write> {
    let object = ObjectRef::of::<api::HttpRoute>(&ObjectName::new("app", "shop"));
    planned_for(&object, status, translated, refused)
}

fn planned_for(
    object: &ObjectRef,
    status: &Value,
    translated: Option<&Status>,
    refused: Option<&str>,
) -> Option<Write> {
    let gateway = ObjectName::new("app", "edge");
    let refused = refused.map(|why| (gateway, why.to_owned()));
    let inputs = StatusInputs {
        observed: &observed(status),
        translated,
        deployment: Deployment::Unknown,
        are_proxies_gone: false,
        listeners: BTreeMap::new(),
        refused: &refused.into_iter().collect(),
        session_keys: None,
        workload: None,
        symptoms: SymptomInputs::default(),
        gateways_of_sets: BTreeMap::new(),
        diagnoses: None,
        invalid: None,
    };
    plan(object, &inputs, author())
}

#[test]
fn a_write_names_the_compared_resource_version() {
    let write = planned(&Value::Null, Some(&accepted()), None).expect("a write");
    assert_eq!(write.patch["metadata"]["resourceVersion"], "7");
    let condition = &write.patch["status"]["parents"][0]["conditions"][0];
    assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!(write.resource.plural, "httproutes");
    assert_eq!(
        planned(&write.patch["status"], Some(&accepted()), None),
        None
    );
}

#[test]
fn what_does_not_work_is_a_condition_until_it_is_mended() {
    let object = ObjectRef::of::<api::HttpRoute>(&ObjectName::new("app", "shop"));
    let diagnosis = |level, field: &str, reason| Diagnosis {
        object: object.clone(),
        level,
        field: field.to_owned(),
        reason,
        text: "it is so".to_owned(),
        is_probably_ours: false,
    };
    let status = accepted();
    let planned = |present: &Value, diagnoses: Vec<Diagnosis>| {
        let nothing = BTreeMap::new();
        let inputs = StatusInputs {
            observed: &observed(present),
            translated: Some(&status),
            deployment: Deployment::Unknown,
            are_proxies_gone: false,
            listeners: BTreeMap::new(),
            session_keys: None,
            workload: None,
            refused: &nothing,
            symptoms: SymptomInputs::default(),
            gateways_of_sets: BTreeMap::new(),
            diagnoses: Some(diagnoses.into()),
            invalid: None,
        };
        plan(&object, &inputs, author())
    };
    let twin = diagnosis(Level::Warning, "a", Reason::RouteRulesOverlap);
    let empty = diagnosis(Level::Error, "b", Reason::NoReadyEndpoints);
    let write = planned(&Value::Null, vec![twin, empty]).expect("a write");
    let conditions = &write.patch["status"]["parents"][0]["conditions"];
    let degraded = &conditions[1];
    let fields = ["type", "status", "reason", "message", "observedGeneration"];
    let fields = fields.map(|it| degraded[it].clone());
    let expected = json!([
        "Degraded",
        "True",
        "NoReadyEndpoints",
        "b: it is so; a: it is so",
        1
    ]);
    assert_eq!(json!(fields), expected);
    let mended = planned(&write.patch["status"], Vec::new()).expect("a write");
    let conditions = &mended.patch["status"]["parents"][0]["conditions"];
    assert_eq!(conditions.as_array().map(Vec::len), Some(1));
}

#[test]
fn a_desired_status_is_compared_with_the_current_one() {
    let foreign =
        json!({"parents": [{"parentRef": {"name": "x"}, "controllerName": "other.io/c"}]});
    let one = planned(&Value::Null, Some(&accepted()), None).expect("a write");
    let other = planned(&foreign, Some(&accepted()), None).expect("a write");
    assert_ne!(one.patch, other.patch);
    assert_eq!(one.desired, other.desired);
}

#[test]
fn a_route_no_longer_ours_loses_only_our_entries() {
    let foreign = json!({"parentRef": {"name": "x"}, "controllerName": "other.io/c"});
    let ours = json!({"parentRef": {"name": "edge"}, "controllerName": "ours.io/controller"});
    let write = planned(&json!({"parents": [ours, foreign]}), None, None).expect("a write");
    assert_eq!(write.patch["status"], json!({"parents": [foreign]}));
    assert_eq!(planned(&json!({"parents": [foreign]}), None, None), None);
}

#[test]
fn a_rejection_by_a_proxy_is_reported_in_the_status() {
    let write = planned(&Value::Null, Some(&accepted()), Some("edge-1: no")).expect("a write");
    let condition = &write.patch["status"]["parents"][0]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&"False".into(), &"UnsupportedValue".into())
    );
    let message = "a proxy of Gateway app/edge rejected this version; the previous one, if any, stays: \
                   edge-1: no";
    assert_eq!(condition["message"], message);
}

#[test]
fn a_rejection_by_one_gateways_proxy_concerns_that_gateways_entry_alone() {
    let Status::Route(mut status) = accepted() else {
        unreachable!("it is a route's")
    };
    let entry = status.parents.remove(0);
    for parent in [
        json!({"name": "edge"}),
        json!({"name": "other"}),
        json!({"name": "edge", "namespace": "elsewhere"}),
        json!({"kind": "ListenerSet", "name": "of-edge"}),
        json!({"kind": "ListenerSet", "name": "of-other"}),
    ] {
        let parent_ref = serde_json::from_value(parent).expect("a reference");
        status.parents.push(RouteParentStatus {
            parent_ref,
            ..entry.clone()
        });
    }
    let name = |name: &str| ObjectName::new("app", name);
    let object = ObjectRef::of::<api::HttpRoute>(&name("shop"));
    let inputs = StatusInputs {
        observed: &observed(&Value::Null),
        translated: Some(&Status::Route(status)),
        deployment: Deployment::Unknown,
        are_proxies_gone: false,
        listeners: BTreeMap::new(),
        refused: &BTreeMap::from([(name("edge"), "edge-1: no".to_owned())]),
        session_keys: None,
        workload: None,
        symptoms: SymptomInputs::default(),
        gateways_of_sets: BTreeMap::from([
            (name("of-edge"), name("edge")),
            (name("of-other"), name("other")),
        ]),
        diagnoses: None,
        invalid: None,
    };
    let write = plan(&object, &inputs, author());
    let parents = write.expect("a write").patch["status"]["parents"].clone();
    let accepted = parents.as_array().expect("parents").iter();
    let accepted: Vec<_> = accepted
        .map(|it| it["conditions"][0]["status"].clone())
        .collect();
    assert_eq!(accepted, ["False", "True", "True", "False", "True"]);
}

#[test]
fn the_plurals_of_all_kinds_are_known() {
    for (kind, plural) in [
        (ObjectKind::Gateway, "gateways"),
        (ObjectKind::ListenerSet, "listenersets"),
        (ObjectKind::GrpcRoute, "grpcroutes"),
        (ObjectKind::BackendTlsPolicy, "backendtlspolicies"),
        (ObjectKind::TrafficPolicy, "trafficpolicies"),
        (ObjectKind::Backend, "backends"),
    ] {
        let object = ObjectRef::new(kind, &ObjectName::new("a", "b"));
        let resource = resource(&object, "g/v1");
        assert_eq!((&*resource.plural, &*resource.version), (plural, "v1"));
    }
}

#[test]
fn an_invalid_version_is_reported_with_its_generation() {
    let object = ObjectRef::of::<api::HttpRoute>(&ObjectName::new("app", "shop"));
    let observed = Observed {
        generation: 2,
        ..observed(&Value::Null)
    };
    let inputs = StatusInputs {
        observed: &observed,
        translated: Some(&accepted()),
        deployment: Deployment::Unknown,
        are_proxies_gone: false,
        listeners: BTreeMap::new(),
        refused: &BTreeMap::new(),
        session_keys: None,
        workload: None,
        symptoms: SymptomInputs::default(),
        gateways_of_sets: BTreeMap::new(),
        diagnoses: None,
        invalid: Some("spec.rules: unknown".into()),
    };
    let write = plan(&object, &inputs, author());
    let condition = write.expect("a write").patch["status"]["parents"][0]["conditions"][0].clone();
    assert_eq!(
        (&condition["status"], &condition["observedGeneration"]),
        (&"False".into(), &2.into())
    );
    let message = "this version is invalid; the previous one stays in effect: spec.rules: unknown";
    assert_eq!(condition["message"], message);
}

#[test]
fn the_status_of_an_x_backend_lists_32_gateways_and_that_of_a_policy_16() {
    let ancestors = (0..40).map(|number| PolicyAncestorStatus {
        ancestor_ref: AncestorReference {
            group: ObjectKind::Gateway.group().to_owned(),
            kind: "Gateway".to_owned(),
            namespace: "app".to_owned(),
            name: format!("gw-{number}"),
            section_name: None,
        },
        controller_name: "ours.io/controller".to_owned(),
        conditions: Vec::new(),
    });
    let status = Status::Policy(PolicyStatus {
        ancestors: ancestors.collect(),
    });
    let name = ObjectName::new("app", "shop");
    for (object, listed) in [
        (ObjectRef::new(ObjectKind::XBackend, &name), 32),
        (ObjectRef::of::<api::BackendTlsPolicy>(&name), 16),
    ] {
        let write = planned_for(&object, &Value::Null, Some(&status), None).expect("a write");
        let written = write.patch["status"]["ancestors"].as_array();
        assert_eq!(written.map(Vec::len), Some(listed), "{object}");
        assert_eq!(write.left_out, 40 - listed, "{object}");
    }
}
