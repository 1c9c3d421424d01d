//! The schemas of our own kinds, from the same CRDs that a cluster installs.

use std::sync::LazyLock;

use serde_json::Value;

use super::schema::Schema;
use super::yaml::compose;

/// The schema of `Backend`.
pub(crate) static BACKEND: LazyLock<Schema> = LazyLock::new(|| load(BACKEND_DEFINITION, &[]));

/// The schema of `TrafficPolicy`.
pub(crate) static TRAFFIC_POLICY: LazyLock<Schema> =
    LazyLock::new(|| load(TRAFFIC_POLICY_DEFINITION, &REDUCED));

/// The schema of `GatewayParameters`, which are read in clusters only.
pub(crate) static GATEWAY_PARAMETERS: LazyLock<Schema> =
    LazyLock::new(|| load(PARAMETERS_DEFINITION, &[]));

/// `reduced` are the fields, as JSON pointers, that accept more than their maximum.
fn load(definition: &str, reduced: &[&str]) -> Schema {
    let composed = compose(definition).ok().flatten();
    let mut value = composed.map(|composed| composed.value).unwrap_or_default();
    let mut schema = value
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .map(Value::take)
        .unwrap_or_default();
    for field in reduced {
        let field = schema.pointer_mut(field).and_then(Value::as_object_mut);
        let field = field.expect("it is defined, which is tested");
        field.insert("isReducedToMaximum".to_owned(), Value::Bool(true));
    }
    serde_json::from_value(schema).expect("the definitions are part of the program, and tested")
}

/// Fields whose maximum was 1048576 in earlier versions. A stored policy that has more must not become
/// invalid with an upgrade: one that restricts access would close its targets.
const REDUCED: [&str; 2] = [
    "/properties/spec/properties/limits/properties/requestLineBytes",
    "/properties/spec/properties/limits/properties/headBytes",
];

const BACKEND_DEFINITION: &str =
    include_str!("../../../../k8s/crds/gateway-system.io_backends.yaml");
const TRAFFIC_POLICY_DEFINITION: &str =
    include_str!("../../../../k8s/crds/gateway-system.io_trafficpolicies.yaml");
const PARAMETERS_DEFINITION: &str =
    include_str!("../../../../k8s/crds/gateway-system.io_gatewayparameters.yaml");

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::Value;
    use xds::model::Limits;

    use crate::files::path::FieldPath;
    use crate::files::yaml::compose;
    use crate::files::{Source, admit};

    #[test]
    fn the_resource_definitions_load() {
        super::BACKEND.compile();
        super::TRAFFIC_POLICY.compile();
        super::GATEWAY_PARAMETERS.compile();
    }

    /// The schema of `spec.limits`.
    fn limits_of_the_definition() -> Value {
        let value = compose(super::TRAFFIC_POLICY_DEFINITION)
            .expect("YAML")
            .expect("a document")
            .value;
        let schema = value.pointer(
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/limits/properties",
        );
        schema.cloned().expect("it is defined")
    }

    #[test]
    fn the_limits_of_the_definition_are_those_of_the_table() {
        let definition = limits_of_the_definition();
        let defined = definition.as_object().expect("fields").keys();
        let mut table: Vec<_> = Limits::TABLE.iter().map(|row| row.name).collect();
        table.sort_unstable();
        let mut defined: Vec<_> = defined.collect();
        defined.sort_unstable();
        assert_eq!(defined, table);
        for row in Limits::TABLE {
            let field = &definition[row.name];
            let text = field["description"].as_str().expect("a description");
            let default = match (row.default, row.is_timeout) {
                (3_600, true) => "by default 1h".to_owned(),
                (seconds, true) => format!("by default {seconds}s"),
                (0, false) => "default".to_owned(),
                (number, false) => format!("by default {number}"),
            };
            assert!(text.contains(&default), "{}: {text}", row.name);
            if row.is_timeout {
                assert_eq!(field["type"], "string", "{}", row.name);
                assert_eq!((row.least, row.most), (0, LONGEST_SECONDS), "{}", row.name);
            } else {
                let bounds = [&field["minimum"], &field["maximum"]].map(Value::as_u64);
                assert_eq!(bounds, [row.least, row.most].map(Some), "{}", row.name);
            }
        }
    }

    /// Four groups of five digits, in hours: the longest duration of Gateway API's format.
    const LONGEST_SECONDS: u64 = 4 * 99_999 * 3_600;

    #[test]
    fn every_field_is_described_and_bounded() {
        for definition in [
            super::BACKEND_DEFINITION,
            super::TRAFFIC_POLICY_DEFINITION,
            super::PARAMETERS_DEFINITION,
        ] {
            let value = compose(definition)
                .expect("YAML")
                .expect("a document")
                .value;
            let schema = value.pointer("/spec/versions/0/schema/openAPIV3Schema/properties");
            let schema = schema.expect("a schema");
            inspect(&schema["spec"], &FieldPath::default().field("spec"));
            // API servers describe it themselves, and reject definitions that do.
            assert_eq!(schema["metadata"], serde_json::json!({"type": "object"}));
        }
    }

    #[test]
    fn every_validation_rule_has_a_failing_case() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admit");
        let case = |name| {
            let text = fs::read_to_string(folder.join(name)).expect("a file of cases");
            admit(&[Source::new(name, text)]).findings
        };
        let files = [
            "api_keys.yaml",
            "backend.yaml",
            "balance.yaml",
            "basic_auth.yaml",
            "error_pages.yaml",
            "gateway_parameters.yaml",
            "health_check.yaml",
            "jwt.yaml",
            "path_rewrite.yaml",
            "precedence.yaml",
            "rate_limit.yaml",
            "respond.yaml",
            "traffic_policy.yaml",
        ];
        let findings = files.map(case).concat();
        for definition in [
            super::BACKEND_DEFINITION,
            super::TRAFFIC_POLICY_DEFINITION,
            super::PARAMETERS_DEFINITION,
        ] {
            let value = compose(definition)
                .expect("YAML")
                .expect("a document")
                .value;
            let mut messages = Vec::new();
            collect_messages(&value, &mut messages);
            assert!(!messages.is_empty());
            for message in messages {
                let broken = findings.iter().any(|finding| finding.text == message);
                assert!(broken, "no case for: {message}");
            }
        }
    }

    fn collect_messages(value: &Value, messages: &mut Vec<String>) {
        let rules = value["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten();
        messages.extend(
            rules
                .filter_map(|rule| rule["message"].as_str())
                .map(str::to_owned),
        );
        match value {
            Value::Object(fields) => fields
                .values()
                .for_each(|it| collect_messages(it, messages)),
            Value::Array(items) => items.iter().for_each(|it| collect_messages(it, messages)),
            _ => {}
        }
    }

    fn inspect(schema: &Value, path: &FieldPath) {
        assert!(
            schema["description"].is_string(),
            "{path} has no description"
        );
        let bounds: &[&str] = match schema["type"].as_str() {
            Some("string") => &["maxLength", "enum"],
            Some("array") => &["maxItems"],
            Some("integer" | "number") => &["maximum"],
            _ => &[],
        };
        let bounded = bounds.is_empty() || bounds.iter().any(|bound| !schema[bound].is_null());
        assert!(bounded, "{path} has no bound");
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            inspect(field, &path.field(name));
        }
        if !schema["items"].is_null() {
            inspect(&schema["items"], &path.field("items"));
        }
    }
}
