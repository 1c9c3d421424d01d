//! Admits one object from a watch. The API server has validated it with the installed CRDs, which
//! may be newer or older than ours, so unknown fields only cause warnings.

use serde_json::{Map, Value};

use super::admissions::Admission;
use super::finding::{Finding, Remark};
use super::object;
use super::object::Outcome;
use super::unknown_fields::UnknownFields;
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;

/// The result for one object.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmittedValue {
    /// Its identity; `None` without a valid name.
    pub reference: Option<ObjectRef>,
    /// The object, if admitted.
    pub object: Option<Object>,
    /// The fail-closed replacement for an invalid object without earlier version: none, unless its
    /// absence would allow access.
    pub fail_closed: Option<Object>,
    /// Findings about it; an error among them makes it invalid. They have no file.
    pub findings: Vec<Finding>,
}

/// Reads one object of a kind. Its `apiVersion`, `kind` and `status` are ignored: lists of an API
/// server omit the first two. `None` if the kind is not supported.
#[must_use]
pub fn admit_value(kind: ObjectKind, value: Map<String, Value>) -> Option<AdmittedValue> {
    let admission = Admission::of_kind(kind)?;
    let admitted = match object::read_as(admission, value, UnknownFields::Warn) {
        Outcome::Read {
            id,
            object,
            fail_closed,
            remarks,
        } => AdmittedValue {
            findings: findings(Some(&id), remarks),
            reference: Some(id),
            object,
            fail_closed,
        },
        Outcome::Unidentified { remarks } => AdmittedValue {
            reference: None,
            object: None,
            fail_closed: None,
            findings: findings(None, remarks),
        },
        Outcome::PassedOver { .. } | Outcome::Checked { .. } => return None,
    };
    Some(admitted)
}

fn findings(object: Option<&ObjectRef>, remarks: Vec<Remark>) -> Vec<Finding> {
    let finding = |remark: Remark| Finding {
        severity: remark.severity,
        file: String::new(),
        line: 0,
        object: object.cloned(),
        field: (!remark.path.is_root()).then(|| remark.path.to_string()),
        reason: remark.reason,
        text: remark.text,
    };
    remarks.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::files::{Severity, Source, admit};

    fn admitted(kind: ObjectKind, value: Value) -> AdmittedValue {
        let Value::Object(fields) = value else {
            panic!("an object is meant")
        };
        admit_value(kind, fields).expect("a kind that is read")
    }

    #[test]
    fn a_watched_object_equals_the_same_object_from_a_file() {
        let file = "
            apiVersion: gateway.networking.k8s.io/v1
            kind: HTTPRoute
            metadata: {name: a, namespace: b}
            spec: {parentRefs: [{name: g}], rules: [{backendRefs: [{name: s, port: 80}]}]}";
        let from_file = admit(&[Source::new("a.yaml", file)]).objects.remove(0).0;
        let watched = json!({
            "metadata": {"name": "a", "namespace": "b", "resourceVersion": "7"},
            "spec": {"parentRefs": [{"name": "g"}], "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]},
            "status": {"parents": [{"anything": 1}]},
        });
        let admitted = admitted(ObjectKind::HttpRoute, watched);
        assert_eq!(admitted.object, Some(from_file));
        assert_eq!(admitted.findings, []);
    }

    #[test]
    fn a_status_update_leaves_the_object_equal() {
        let version = |version: &str| {
            json!({
                "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": version},
                "spec": {"gatewayClassName": "gateway", "listeners": [{"name": "a", "port": 80, "protocol": "HTTP"}]},
                "status": {"written": version},
            })
        };
        let read = |it| admitted(ObjectKind::Gateway, version(it)).object;
        let object = read("1");
        assert_eq!(object.as_ref().map(|it| it.metadata().uid()), Some("u"));
        assert_eq!(object, read("2"));
    }

    #[test]
    fn fields_of_newer_definitions_give_a_warning() {
        let value = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"gatewayClassName": "gateway", "hovering": true, "listeners": [{"name": "a", "port": 80, "protocol": "HTTP"}]},
        });
        let admitted = admitted(ObjectKind::Gateway, value);
        assert!(admitted.object.is_some());
        let severities: Vec<Severity> = admitted.findings.iter().map(|it| it.severity).collect();
        assert_eq!(severities, [Severity::Warning]);
        assert_eq!(admitted.findings[0].field.as_deref(), Some("spec.hovering"));
    }

    #[test]
    fn a_rejected_jwt_policy_has_a_fail_closed_replacement() {
        let value = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"targetRefs": [], "jwt": 5},
        });
        let admitted = admitted(ObjectKind::TrafficPolicy, value);
        assert!(admitted.object.is_none() && admitted.fail_closed.is_some());
    }

    #[test]
    fn an_empty_restriction_is_invalid_and_fails_closed() {
        let targets =
            json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "a"}]);
        let allow = json!([{"when": "true"}]);
        for (field, value, limits) in [
            ("jwt", Value::Null, Value::Null),
            ("jwt", Value::Null, json!({"connectTimeout": "1s"})),
            (
                "authorization",
                json!({"allow": allow, "deny": null}),
                Value::Null,
            ),
        ] {
            let policy = json!({
                "metadata": {"name": "a", "namespace": "b", "labels": null},
                "spec": {"targetRefs": targets, field: value, "limits": limits},
            });
            let admitted = admitted(ObjectKind::TrafficPolicy, policy);
            let texts = admitted.findings.iter().map(|it| it.text.as_str());
            let texts: Vec<&str> = texts.collect();
            assert!(
                texts[0].contains("is empty, and may restrict access"),
                "{texts:?}"
            );
            assert_eq!(admitted.object, None);
            assert!(admitted.fail_closed.is_some());
        }
        let gateway = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"gatewayClassName": "gateway", "tls": {"frontend": null},
                "listeners": [{"name": "a", "port": 80, "protocol": "HTTP", "hostname": null}]},
        });
        let admitted = admitted(ObjectKind::Gateway, gateway);
        assert_eq!(
            admitted.findings[0].field.as_deref(),
            Some("spec.tls.frontend")
        );
    }

    #[test]
    fn an_object_without_a_name_is_rejected() {
        let admitted = admitted(ObjectKind::Service, json!({"metadata": {}}));
        assert_eq!(admitted.reference, None);
        assert_eq!(admitted.findings[0].severity, Severity::Error);
    }
}
