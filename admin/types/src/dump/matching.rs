//! Matches of HTTP rules.

use serde::{Deserialize, Serialize};

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
