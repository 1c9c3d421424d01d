//! Types and bounds of a value.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::slice::from_ref;

use serde_json::{Map, Value};

use super::{ListType, Schema, Type};
use crate::files::finding::{Reason, Remark};
use crate::files::path::{FieldPath, PathStep};
use crate::files::suggest;

impl Schema {
    pub(crate) fn check(&self, value: &Value, path: &mut FieldPath, remarks: &mut Vec<Remark>) {
        let wrong_type = self.kind.and_then(|kind| kind.refuses(value));
        let is_scalar = value.is_i64() || value.is_u64() || value.is_string();
        let wrong_type = wrong_type.or_else(|| {
            let is_wrong = self.is_int_or_string && !is_scalar;
            is_wrong.then(|| format!("{} is not an integer or text", brief(value)))
        });
        if let Some(text) = wrong_type {
            remarks.push(Remark::error(path, Reason::WrongType, text));
            return;
        }
        let wrong = self
            .outside_enum(value)
            .or_else(|| self.out_of_range(value))
            .map(|text| (Reason::Invalid, text))
            .or_else(|| self.of_wrong_size(value))
            .or_else(|| Some((Reason::Invalid, self.of_wrong_form(value)?)))
            .or_else(|| Some((Reason::Duplicate, self.repeats(value)?)));
        if let Some((reason, text)) = wrong {
            let remark = Remark::error(path, reason, text);
            remarks.push(Remark {
                of_fields: reason == Reason::TooFew && value.is_object(),
                ..remark
            });
        }
        match value {
            Value::Object(fields) => self.check_fields(fields, path, remarks),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(PathStep::Item(index));
                    if let Some(schema) = &self.items {
                        schema.check(item, path, remarks);
                    }
                    path.pop();
                }
            }
            _ => {}
        }
    }

    fn check_fields(
        &self,
        fields: &Map<String, Value>,
        path: &mut FieldPath,
        remarks: &mut Vec<Remark>,
    ) {
        for name in &self.required {
            if !fields.contains_key(name) {
                let text = "is required";
                remarks.push(Remark::error(&path.field(name), Reason::Required, text));
            }
        }
        for (name, inner) in fields {
            if let Some(schema) = self.of_field(name) {
                path.push_field(name);
                schema.check(inner, path, remarks);
                path.pop();
            }
        }
    }

    fn outside_enum(&self, value: &Value) -> Option<String> {
        if self.allowed.is_empty() || self.allowed.contains(value) {
            return None;
        }
        if let [only] = self.allowed.as_slice() {
            return Some(format!(
                "{value} is not allowed: it must be {}",
                list(from_ref(only))
            ));
        }
        let given = value.as_str().unwrap_or_default();
        let known = self.allowed.iter().filter_map(Value::as_str);
        let hint = suggest::hint(given, known);
        Some(format!(
            "{value} is not one of {}{hint}",
            list(&self.allowed)
        ))
    }

    fn out_of_range(&self, value: &Value) -> Option<String> {
        let number = value.as_f64()?;
        if self.minimum.is_some_and(|min| number < min) {
            return Some(format!("{value} is too small: {}", self.range()));
        }
        if self.maximum.is_some_and(|max| number > max) && !self.is_reduced_to_maximum {
            return Some(format!("{value} is too large: {}", self.range()));
        }
        None
    }

    fn range(&self) -> String {
        match (self.minimum, self.maximum) {
            (Some(min), Some(max)) => format!("write {min} to {max}"),
            (Some(min), None) => format!("write at least {min}"),
            (None, Some(max)) => format!("write at most {max}"),
            (None, None) => String::new(),
        }
    }

    fn of_wrong_form(&self, value: &Value) -> Option<String> {
        self.form_missed(value)
            .map(|expected| format!("{value} is not {expected}"))
    }

    /// The expected form of a value that does not match it, in words.
    fn form_missed(&self, value: &Value) -> Option<String> {
        if let Some(format) = self.format.filter(|format| !format.admits(value)) {
            return Some(format.expected().to_owned());
        }
        if let (Some(pattern), Value::String(text)) = (&self.pattern, value)
            && !pattern.regex().is_match(text)
        {
            let known = KNOWN_PATTERNS
                .iter()
                .find(|(known, _)| *known == pattern.text);
            return Some(known.map_or_else(
                || format!("a match of {}", pattern.text),
                |(_, expected)| (*expected).to_owned(),
            ));
        }
        let missed: Option<Vec<_>> = self
            .any_of
            .iter()
            .map(|one| one.form_missed(value))
            .collect();
        missed
            .filter(|missed| !missed.is_empty())
            .map(|missed| missed.join(", "))
    }

    fn of_wrong_size(&self, value: &Value) -> Option<(Reason, String)> {
        let (size, min, max, unit) = match value {
            Value::String(text) => (
                text.chars().count(),
                self.min_length,
                self.max_length,
                "characters",
            ),
            Value::Array(items) => (items.len(), self.min_items, self.max_items, "items"),
            Value::Object(fields) => (
                fields.len(),
                self.min_properties,
                self.max_properties,
                "fields",
            ),
            _ => return None,
        };
        if min.is_some_and(|min| size < min) {
            let least = min.unwrap_or(0);
            let text = format!("has {size} {unit}: at least {least} are needed");
            return Some((Reason::TooFew, text));
        }
        let max = max.filter(|max| size > *max)?;
        let text = format!("has {size} {unit}: at most {max} are allowed");
        Some((Reason::TooMany, text))
    }

    fn repeats(&self, value: &Value) -> Option<String> {
        let items = value.as_array()?;
        let key = |item: &Value| match self.list_type {
            ListType::Atomic => None,
            ListType::Set => Some(item.to_string()),
            ListType::Map => {
                let mut key = String::new();
                for name in &self.list_map_keys {
                    write!(key, "{}\0", item.get(name)?).ok()?;
                }
                Some(key)
            }
        };
        let mut seen = HashSet::new();
        let twice = items
            .iter()
            .find(|item| key(item).is_some_and(|key| !seen.insert(key)))?;
        Some(match self.list_type {
            ListType::Map => {
                let fields = self.list_map_keys.join(" and ");
                format!("two items have the same {fields}: each must be unique")
            }
            _ => format!("{twice} is defined twice: remove one of them"),
        })
    }
}

impl Type {
    fn refuses(self, value: &Value) -> Option<String> {
        let fits = match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
        };
        (!fits).then(|| {
            format!(
                "{} is not {}{}",
                brief(value),
                self.article(),
                self.remedy(value)
            )
        })
    }

    fn article(self) -> &'static str {
        match self {
            Self::Object => "a mapping",
            Self::Array => "a list",
            Self::String => "text",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "true or false",
        }
    }

    fn remedy(self, value: &Value) -> String {
        let remedy = match (self, value) {
            (Self::String, Value::Number(_) | Value::Bool(_)) => {
                return format!(": quote it, as \"{value}\"");
            }
            (Self::Integer | Self::Number, Value::String(text)) if text.parse::<f64>().is_ok() => {
                ": remove the quotes"
            }
            (Self::Boolean, Value::String(text)) if text == "true" || text == "false" => {
                ": remove the quotes"
            }
            (Self::Array, Value::Object(_)) => ": put `- ` before each item",
            (Self::Array, _) => ": put it in brackets",
            _ => "",
        };
        remedy.to_owned()
    }
}

/// A value for a message, without its contents.
fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) => "a mapping".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        scalar => scalar.to_string(),
    }
}

fn list(values: &[Value]) -> String {
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let texts: Vec<_> = values.iter().map(text).collect();
    texts.join(", ")
}

/// Patterns of our CRDs, in words.
const KNOWN_PATTERNS: [(&str, &str); 15] = [
    (
        r"^(100|[0-9]{1,2})%$",
        "a number, or a percentage such as 50%",
    ),
    (
        "^([0-9]{1,5}(h|m|s|ms)){1,4}$",
        "a duration such as 1h, 1m30s or 250ms",
    ),
    (
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "a DNS name in lower case",
    ),
    (r"^/[^\x00]+$", "an absolute path"),
    (
        r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "a DNS name in lower case, exact or with `*.` in front",
    ),
    (
        "^[a-zA-Z][-+.a-zA-Z0-9]*://[!-~]+$",
        "an absolute URI such as spiffe://cluster.local/ns/a/sa/b",
    ),
    (
        r#"^/[!-"$-~]*$"#,
        "a path that starts with `/`, without spaces and fragment",
    ),
    (
        r#"^https?://[^/?#@\x00-\x20\x7f]+([/?][!-"$-~]*)?$"#,
        "an http or https URL, without user and fragment",
    ),
    (
        "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$",
        "a name of letters, digits and !#$%&'*+-.^_`|~",
    ),
    (
        r"^/[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]*$",
        "a path that starts with `/`, such as /healthz",
    ),
    (
        "^[2-5][0-9]{2}(-[2-5][0-9]{2})?$",
        "a status from 200 to 599 or a range of them, such as 204 or 200-299",
    ),
    (
        "^[45][0-9]{2}(-[45][0-9]{2})?$",
        "a status from 400 to 599 or a range of them, such as 404 or 500-599",
    ),
    (
        "^[A-Za-z0-9._~-]+$",
        "a name of letters, digits, `.`, `_`, `~` and `-`",
    ),
    ("^[ -~]*$", "printable ASCII"),
    (
        r"^[ !#-\[\]-~]+$",
        "printable ASCII without quotes and backslashes",
    ),
];
