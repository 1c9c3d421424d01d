//! The presumed content of an invalid policy, for its fail-closed replacement.

use std::slice;

use serde_json::{Map, Value};
use xds::model::ObjectName;

use crate::files::suggest;
use crate::objects::api::ObjectMeta;
use crate::policy::api::{JwtFromSpec, JwtHeaderSpec, PolicyTargetReference};

/// The metadata of an invalid object; at least its name.
pub(crate) fn presumed_metadata(name: &ObjectName, written: &Value) -> ObjectMeta {
    let metadata = written.get("metadata").cloned().unwrap_or_default();
    serde_json::from_value(metadata).unwrap_or_else(|_| ObjectMeta::of_name(name.clone()))
}

/// The targets of an invalid policy, from `targetRefs` or a typo of it.
pub(crate) fn presumed_targets(spec: &Map<String, Value>) -> Vec<PolicyTargetReference> {
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

/// Where an invalid policy reads tokens from, as far as that can be told: logs hide what they are called,
/// although the policy does not apply. At most [`MAX_TOKEN_SOURCES`], and none with a longer name than a
/// valid policy can have: every target of the policy carries them.
pub(crate) fn presumed_token_sources(spec: &Map<String, Value>) -> Vec<JwtFromSpec> {
    let mut found = Vec::new();
    // A misspelt field may be the one about tokens.
    spec.values()
        .for_each(|value| collect_sources(value, &mut found));
    found.truncate(MAX_TOKEN_SOURCES);
    found
}

fn collect_sources(value: &Value, found: &mut Vec<JwtFromSpec>) {
    if found.len() >= MAX_TOKEN_SOURCES {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|it| collect_sources(it, found)),
        Value::Object(fields) => {
            let means = |name: &str, field| suggest::nearest(name, [field]).is_some();
            for (name, value) in fields {
                let fits = |text: &&str| text.len() <= MAX_NAME_BYTES;
                let text = value.as_str().filter(fits).map(str::to_owned);
                let header = value.get("name").and_then(Value::as_str).filter(fits);
                let header = header.map(|name| JwtHeaderSpec {
                    name: name.to_owned(),
                    prefix: None,
                });
                if means(name, "query") {
                    found.extend(text.map(|it| JwtFromSpec {
                        query: Some(it),
                        ..JwtFromSpec::default()
                    }));
                } else if means(name, "cookie") {
                    found.extend(text.map(|it| JwtFromSpec {
                        cookie: Some(it),
                        ..JwtFromSpec::default()
                    }));
                } else if means(name, "header") {
                    found.extend(header.map(|it| JwtFromSpec {
                        header: Some(it),
                        ..JwtFromSpec::default()
                    }));
                }
                collect_sources(value, found);
            }
        }
        _ => {}
    }
}

/// Most places of tokens that are remembered of rejected versions: twice as many as a policy can have
/// providers, each with one.
pub(crate) const MAX_TOKEN_SOURCES: usize = 32;
/// Longest name of a place of tokens, as in the definition of the resource: 256 bytes.
const MAX_NAME_BYTES: usize = 256;
const TARGETS: &str = "targetRefs";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_places_of_tokens_of_an_invalid_policy_are_limited() {
        let places: Vec<_> = (0..1000)
            .map(|it| json!({"query": format!("q{it}")}))
            .collect();
        let spec = json!({"jwt": {"from": places, "other": {"query": "x".repeat(257)}}});
        let found = presumed_token_sources(spec.as_object().expect("an object"));
        assert_eq!(found.len(), MAX_TOKEN_SOURCES);
        let spec = json!({"jwt": [{"query": "x".repeat(257)}, {"cookie": "c"}]});
        let found = presumed_token_sources(spec.as_object().expect("an object"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cookie.as_deref(), Some("c"));
    }
}
