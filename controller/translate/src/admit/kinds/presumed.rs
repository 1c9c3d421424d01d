//! The presumed content of an invalid policy, for its fail-closed replacement.

use std::slice;

use serde_json::{Map, Value};
use xds::model::ObjectName;

use crate::admit::suggest;
use crate::api::{ObjectMeta, PolicyTargetReference};

/// The metadata of an invalid object; at least its name.
pub(super) fn presumed_metadata(name: &ObjectName, written: &Value) -> ObjectMeta {
    let metadata = written.get("metadata").cloned().unwrap_or_default();
    serde_json::from_value(metadata).unwrap_or_else(|_| ObjectMeta::of_name(name.clone()))
}

/// The targets of an invalid policy, from `targetRefs` or a typo of it.
pub(super) fn presumed_targets(spec: &Map<String, Value>) -> Vec<PolicyTargetReference> {
    let lists = spec.iter();
    let lists = lists.filter(|(name, _)| suggest::nearest(name, [TARGETS]).is_some());
    let items = lists.flat_map(|(_, value)| match value {
        Value::Array(items) => items.as_slice(),
        one => slice::from_ref(one),
    });
    items.map(presumed_target).collect()
}

/// A target in which all scalars are text.
fn presumed_target(written: &Value) -> PolicyTargetReference {
    let text = |field| match written.get(field)? {
        Value::String(text) => Some(text.clone()),
        scalar @ (Value::Number(_) | Value::Bool(_)) => Some(scalar.to_string()),
        _ => None,
    };
    PolicyTargetReference {
        group: text("group").unwrap_or_default(),
        kind: text("kind").unwrap_or_default(),
        name: text("name").unwrap_or_default(),
        section_name: text("sectionName"),
    }
}

const TARGETS: &str = "targetRefs";
