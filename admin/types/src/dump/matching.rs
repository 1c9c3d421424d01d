//! What rules match.

use serde::{Deserialize, Serialize};
use xds::model;

use crate::secret;

/// One match of a rule: all of its parts must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpMatch {
    /// The path.
    pub path: PathMatch,
    /// The method; any where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<ValueMatch>,
}

/// How a path is matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMatch {
    /// In which way.
    #[serde(rename = "type")]
    pub kind: PathKind,
    /// Against what.
    pub value: String,
}

/// In which way a path is matched; the names of Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathKind {
    /// The whole path.
    Exact,
    /// Leading whole segments.
    PathPrefix,
    /// The whole path against a pattern.
    RegularExpression,
}

/// How the value of a header or query parameter is matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueMatch {
    /// Its name.
    pub name: String,
    /// In which way.
    #[serde(rename = "type")]
    pub kind: MatchKind,
    /// Against what.
    pub value: String,
}

/// In which way a value is matched; the names of Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MatchKind {
    /// Byte for byte.
    Exact,
    /// Against a pattern.
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
            model::PathMatch::Exact(path) => (PathKind::Exact, path.as_str()),
            model::PathMatch::Prefix(path) if path.is_empty() => (PathKind::PathPrefix, "/"),
            model::PathMatch::Prefix(path) => (PathKind::PathPrefix, path.as_str()),
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
        model::StringMatch::Exact(value) => (MatchKind::Exact, value.as_str()),
        model::StringMatch::Regex(pattern) => (MatchKind::RegularExpression, pattern.as_str()),
    };
    ValueMatch {
        name: name.to_owned(),
        kind,
        // A rule that asks for a key has the key in it.
        value: secret::header_value(name, value).into_owned(),
    }
}
