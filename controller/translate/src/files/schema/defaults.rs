//! Prunes fields that a schema lacks, and sets defaults.

use serde_json::Value;

use super::Schema;
use crate::files::finding::{Reason, Remark};
use crate::files::path::{FieldPath, PathStep};
use crate::files::suggest;

impl Schema {
    pub(crate) fn prune(&self, value: &mut Value, path: &mut FieldPath, remarks: &mut Vec<Remark>) {
        match value {
            // A schema without properties, such as that of `metadata`, prunes nothing.
            Value::Object(fields)
                if !self.properties.is_empty() && !self.preserves_unknown_fields =>
            {
                fields.retain(|name, inner| {
                    path.push_field(name);
                    match self.properties.get(name) {
                        Some(schema) => schema.prune(inner, path, remarks),
                        None => remarks.push(self.unknown(name, path)),
                    }
                    path.pop();
                    self.properties.contains_key(name)
                });
            }
            Value::Array(items) => {
                let schema = self.items.as_deref();
                for (index, item) in items.iter_mut().enumerate() {
                    path.push(PathStep::Item(index));
                    if let Some(schema) = schema {
                        schema.prune(item, path, remarks);
                    }
                    path.pop();
                }
            }
            _ => {}
        }
    }

    fn unknown(&self, name: &str, path: &FieldPath) -> Remark {
        let known = || self.properties.keys().map(String::as_str);
        let hint = match suggest::hint(name, known()) {
            hint if hint.is_empty() && self.properties.len() <= MOST_LISTED => {
                let known: Vec<&str> = known().collect();
                format!(" (there are {})", known.join(", "))
            }
            hint if hint.is_empty() => elsewhere(name).unwrap_or_default(),
            hint => hint,
        };
        let text = format!("unknown field{hint}");
        Remark::warning(path, Reason::UnknownField, text)
    }

    pub(crate) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, schema) in &self.properties {
                    if let (None, Some(default)) = (fields.get(name), &schema.default) {
                        fields.insert(name.clone(), default.clone());
                    }
                    if let Some(inner) = fields.get_mut(name) {
                        schema.fill(inner);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    if let Some(schema) = &self.items {
                        schema.fill(item);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Where a field is that is looked for in policies, as other gateways have it there.
fn elsewhere(name: &str) -> Option<String> {
    let mut elsewhere = ELSEWHERE.iter();
    let (_, place) = elsewhere.find(|(field, _)| *field == name)?;
    Some(format!(" ({place})"))
}

/// Settings that routes have, by the names that they have in policies of other gateways.
const ELSEWHERE: [(&str, &str); 5] = [
    ("timeout", "HTTPRoutes have it, as spec.rules[].timeouts"),
    ("timeouts", "HTTPRoutes have it, as spec.rules[].timeouts"),
    ("retry", "HTTPRoutes have it, as spec.rules[].retry"),
    ("retries", "HTTPRoutes have it, as spec.rules[].retry"),
    (
        "cors",
        "HTTPRoutes have it, as a filter of type CORS in spec.rules[].filters",
    ),
];
/// As many fields as a message may list, where none has a similar name.
const MOST_LISTED: usize = 12;
