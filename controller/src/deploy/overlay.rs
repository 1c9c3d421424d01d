//! Overlays: user-defined changes to generated objects. Objects are merged, lists of named items
//! are merged by name, `null` removes a field, and everything else is replaced.

use serde_json::{Map, Value};

/// Merges an overlay into an object.
pub(super) fn merge(target: &mut Value, overlay: &Value) {
    match (target, overlay) {
        (Value::Object(target), Value::Object(overlay)) => {
            for (name, value) in overlay {
                if value.is_null() {
                    target.remove(name);
                } else {
                    merge(target.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (Value::Array(target), Value::Array(overlay))
            if all_named(target) && all_named(overlay) =>
        {
            for item in overlay {
                let name = item.get(NAME);
                match target.iter_mut().find(|it| it.get(NAME) == name) {
                    Some(present) => merge(present, item),
                    None => target.push(without_nulls(item)),
                }
            }
        }
        (target, overlay) => *target = without_nulls(overlay),
    }
}

/// Whether all items have names; ports of containers may.
fn all_named(items: &[Value]) -> bool {
    items.iter().all(|it| it.get(NAME).is_some())
}

/// The overlay without `null`, where there is nothing to remove.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(name, value)| (name.clone(), without_nulls(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        value => value.clone(),
    }
}

const NAME: &str = "name";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(mut target: Value, overlay: &Value) -> Value {
        merge(&mut target, overlay);
        target
    }

    #[test]
    fn objects_and_named_items_are_merged() {
        let target = json!({"spec": {"containers": [{"name": "gateway", "image": "a", "args": ["run"]}],
                                     "hostNetwork": true}});
        let overlay = json!({"spec": {"containers": [
            {"name": "gateway", "args": ["run", "--pin=never"], "image": null},
            {"name": "sidecar", "image": "b", "command": null},
        ], "hostNetwork": null}});
        let expected = json!({"spec": {"containers": [
            {"name": "gateway", "args": ["run", "--pin=never"]},
            {"name": "sidecar", "image": "b"},
        ]}});
        assert_eq!(merged(target, &overlay), expected);
    }

    #[test]
    fn other_lists_and_values_are_replaced() {
        let target = json!({"a": [1, 2], "b": "text", "c": {"d": 1}});
        let overlay = json!({"a": [3], "b": {"x": 1}, "c": null, "e": {"f": null, "g": 2}});
        assert_eq!(
            merged(target, &overlay),
            json!({"a": [3], "b": {"x": 1}, "e": {"g": 2}})
        );
    }
}
