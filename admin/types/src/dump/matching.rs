//! Matches of HTTP rules.

use serde::{Deserialize, Serialize};
use xds::model;

use crate::secret;

/// A match of a rule; all of its conditions have to be met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpMatch {
    /// Condition on the path.
    pub path: PathMatch,
    /// Exact method; None for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Conditions on headers, all of which have to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
    /// Conditions on query parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<ValueMatch>,
}

/// A condition on the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMatch {
    /// Type of the comparison.
    #[serde(rename = "type")]
    pub kind: PathKind,
    /// Path, prefix or regular expression.
    pub value: String,
}

/// Type of a path match, as in Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathKind {
    /// The whole path is equal.
    Exact,
    /// The path starts with these segments.
    PathPrefix,
    /// The whole path matches a regular expression.
    RegularExpression,
}

/// A condition on a header or query parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueMatch {
    /// Name of the header or parameter.
    pub name: String,
    /// Type of the comparison.
    #[serde(rename = "type")]
    pub kind: MatchKind,
    /// Value or regular expression; masked where it is secret.
    pub value: String,
}

/// Type of a value match, as in Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MatchKind {
    /// The value is equal.
    Exact,
    /// The whole value matches a regular expression.
    RegularExpression,
}

impl From<&model::HttpMatch> for HttpMatch {
    fn from(rule: &model::HttpMatch) -> Self {
        let headers = rule.headers.iter();
        let query = rule.query.iter();
        Self {
            path: (&rule.path).into(),
            method: rule.method.as_ref().map(ToString::to_string),
            headers: headers
                .map(|it| value_match(it.name.as_str(), &it.value))
                .collect(),
            query: query.map(|it| value_match(&it.name, &it.value)).collect(),
        }
    }
}

impl From<&model::PathMatch> for PathMatch {
    fn from(path: &model::PathMatch) -> Self {
        let (kind, value) = match path {
            model::PathMatch::Exact(path) => (PathKind::Exact, &**path),
            model::PathMatch::Prefix(path) if path.is_empty() => (PathKind::PathPrefix, "/"),
            model::PathMatch::Prefix(path) => (PathKind::PathPrefix, &**path),
            model::PathMatch::Regex(pattern) => (PathKind::RegularExpression, pattern.as_str()),
        };
        Self {
            kind,
            value: value.to_owned(),
        }
    }
}

fn value_match(name: &str, value: &model::StringMatch) -> ValueMatch {
    let (kind, value) = match value {
        model::StringMatch::Exact(value) => (MatchKind::Exact, &**value),
        model::StringMatch::Regex(pattern) => (MatchKind::RegularExpression, pattern.as_str()),
    };
    ValueMatch {
        name: name.to_owned(),
        kind,
        // A rule that matches an API key contains it.
        value: secret::header_value(name, value).into_owned(),
    }
}
