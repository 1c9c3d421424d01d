//! The fields of a GatewayClass that are read.

use std::sync::Arc;

use serde_json::{Map, Value};
use translate::ObjectKind;
use translate::objects::kinds::OWN_GROUP;
use xds::model::ObjectName;

use crate::gateway_class::{CLAIMED_BY, Claim, RENEWED};

/// The decisive fields of a GatewayClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Name of the controller that serves it.
    pub controller_name: String,
    /// The `GatewayParameters` of its Gateways, if set.
    pub parameters: Option<ClassParameters>,
    /// The installation that has claimed it, if any.
    pub claim: Option<Claim>,
}

/// The `GatewayParameters` of a class, or why the reference is invalid, with advice.
pub type ClassParameters = Result<ObjectName, Arc<str>>;

impl Class {
    /// Reads an object.
    pub(super) fn of(fields: &Map<String, Value>) -> Self {
        let spec = fields.get("spec").unwrap_or(&Value::Null);
        let reference = spec.get("parametersRef");
        let metadata = fields.get("metadata");
        let annotations = metadata.and_then(|it| it.get("annotations"));
        Self {
            controller_name: text(spec, "controllerName").to_owned(),
            parameters: reference.filter(|it| !it.is_null()).map(parameters),
            claim: annotations.and_then(claim),
        }
    }
}

fn parameters(reference: &Value) -> ClassParameters {
    let (group, kind) = (text(reference, "group"), text(reference, "kind"));
    if ObjectKind::find(group, kind) != Some(PARAMETERS) {
        let why = format!(
            "spec.parametersRef: {kind} of group {group} is not supported; use {PARAMETERS} of \
             {OWN_GROUP}"
        );
        return Err(why.into());
    }
    let (namespace, name) = (text(reference, "namespace"), text(reference, "name"));
    ObjectName::parse(namespace, name).map_err(|_| {
        let why = format!(
            "spec.parametersRef: `{namespace}/{name}` is not the name of a {PARAMETERS}; specify both \
             namespace and name"
        );
        why.into()
    })
}

fn claim(annotations: &Value) -> Option<Claim> {
    let holder = text(annotations, CLAIMED_BY);
    (!holder.is_empty()).then(|| Claim {
        holder: holder.to_owned(),
        renewed: text(annotations, RENEWED).to_owned(),
    })
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

const PARAMETERS: ObjectKind = ObjectKind::GatewayParameters;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_need_the_right_kind_a_name_and_a_namespace() {
        let parameters = |reference: Value| {
            let fields = json!({"spec": {"controllerName": "c", "parametersRef": reference}});
            Class::of(fields.as_object().expect("an object")).parameters
        };
        let reference = |group: &str, namespace: &str| json!({"group": group, "kind": PARAMETERS.name(), "name": "n", "namespace": namespace});
        assert_eq!(parameters(Value::Null), None);
        let expected = ObjectName::new("a", "n");
        assert_eq!(parameters(reference(OWN_GROUP, "a")), Some(Ok(expected)));
        for wrong in [reference("example.com", "a"), reference(OWN_GROUP, "")] {
            let why = parameters(wrong)
                .expect("it names some")
                .expect_err("wrongly");
            assert!(why.starts_with("spec.parametersRef: "), "{why}");
        }
    }

    #[test]
    fn the_claim_is_read_from_annotations() {
        let annotations = json!({CLAIMED_BY: "a/gateway", RENEWED: "now"});
        for (annotations, expected) in [
            (Value::Null, None),
            (json!({RENEWED: "now"}), None),
            (annotations, Some(("a/gateway", "now"))),
        ] {
            let fields = json!({"metadata": {"annotations": annotations}, "spec": {}});
            let claim = Class::of(fields.as_object().expect("an object")).claim;
            let claim = claim.as_ref().map(|it| (&*it.holder, &*it.renewed));
            assert_eq!(claim, expected);
        }
    }
}
