//! Structural schemas of custom resources: implements what our own CRDs use. A CRD that uses more
//! fails to load.

mod check;
mod defaults;
mod format;
mod rule;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use regex_automata::meta::Regex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::finding::{Remark, Severity};
use super::path::FieldPath;
use format::Format;
use rule::Rule;

/// The schema of a value.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Schema {
    #[serde(rename = "type")]
    kind: Option<Type>,
    #[serde(default, rename = "description")]
    _description: IgnoredAny,
    /// Whether an API server keeps `null` instead of dropping it. Before a value is checked here, all of them
    /// are dropped, with a remark where that could open access.
    #[serde(default, rename = "nullable")]
    _is_nullable: IgnoredAny,
    #[serde(default)]
    properties: BTreeMap<String, Schema>,
    #[serde(default)]
    required: Vec<String>,
    items: Option<Box<Schema>>,
    /// The schema of all fields of a mapping, whose names are free.
    additional_properties: Option<Box<Schema>>,
    /// Whether fields without a schema stay.
    #[serde(default, rename = "x-kubernetes-preserve-unknown-fields")]
    preserves_unknown_fields: bool,
    /// Whether it is an integer or a text, such as `50%`.
    #[serde(default, rename = "x-kubernetes-int-or-string")]
    is_int_or_string: bool,
    #[serde(default)]
    any_of: Vec<Schema>,
    default: Option<Value>,
    #[serde(default, rename = "enum")]
    allowed: Vec<Value>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    /// Whether a larger number is valid, and reduced to the maximum by its reader. No part of a CRD: API
    /// servers refuse such a number when it is written, and keep what was written before the maximum was
    /// lowered.
    #[serde(default)]
    is_reduced_to_maximum: bool,
    min_length: Option<usize>,
    max_length: Option<usize>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    min_properties: Option<usize>,
    max_properties: Option<usize>,
    pattern: Option<Pattern>,
    format: Option<Format>,
    #[serde(default, rename = "x-kubernetes-list-type")]
    list_type: ListType,
    #[serde(default, rename = "x-kubernetes-list-map-keys")]
    list_map_keys: Vec<String>,
    #[serde(default, rename = "x-kubernetes-validations")]
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// How the items of an array are distinguished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

/// A regular expression, not anchored by itself.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
struct Pattern {
    text: String,
    /// Compiled for the first text that it applies to.
    regex: OnceLock<Regex>,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        let regex = OnceLock::new();
        Self { text, regex }
    }
}

impl Pattern {
    fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| {
            let compiled = Regex::new(&self.text);
            compiled.expect("the patterns of our definitions compile, which is tested")
        })
    }
}

impl Schema {
    /// The schema of a field of a mapping, if it has one.
    fn of_field(&self, name: &str) -> Option<&Self> {
        let free = self.additional_properties.as_deref();
        self.properties.get(name).or(free)
    }

    /// Compiles all expressions of the schema and panics if one is invalid.
    #[cfg(test)]
    pub(super) fn compile(&self) {
        if let Some(pattern) = &self.pattern {
            pattern.regex();
        }
        for rule in &self.rules {
            rule.program();
        }
        let inner = self.properties.values().chain(&self.any_of);
        let boxed = self.items.iter().chain(&self.additional_properties);
        inner.chain(boxed.map(Box::as_ref)).for_each(Self::compile);
    }

    /// Does what an API server does on a write: prunes unknown fields (each is a remark, subject to
    /// [`UnknownFields`](super::UnknownFields)), sets defaults, checks bounds, and evaluates rules
    /// on well-formed values.
    pub(crate) fn admit(&self, value: &mut Value) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let mut path = FieldPath::default();
        self.prune(value, &mut path, &mut remarks);
        self.fill(value);
        self.check(value, &mut path, &mut remarks);
        if remarks
            .iter()
            .all(|remark| remark.severity < Severity::Error)
        {
            self.check_rules(value, &mut path, &mut remarks);
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
