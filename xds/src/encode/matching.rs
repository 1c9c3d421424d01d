//! Matches of an HTTP rule.

use super::value::list;
use crate::model::{HeaderMatch, HttpMatch, PathMatch, QueryMatch, StringMatch};
use crate::proto::{self, path_match, string_match};

impl From<&HttpMatch> for proto::HttpMatch {
    fn from(matching: &HttpMatch) -> Self {
        Self {
            path: Some((&matching.path).into()),
            method: matching.method.as_ref().map(ToString::to_string),
            headers: list(&matching.headers),
            query: list(&matching.query),
        }
    }
}

impl From<&PathMatch> for proto::PathMatch {
    fn from(path: &PathMatch) -> Self {
        let kind = match path {
            PathMatch::Exact(path) => path_match::Kind::Exact(path.to_string()),
            // The empty prefix is written as it is read.
            PathMatch::Prefix(prefix) if prefix.is_empty() => path_match::Kind::Prefix("/".into()),
            PathMatch::Prefix(prefix) => path_match::Kind::Prefix(prefix.to_string()),
            PathMatch::Regex(pattern) => path_match::Kind::Regex(pattern.to_string()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&StringMatch> for proto::StringMatch {
    fn from(value: &StringMatch) -> Self {
        let kind = match value {
            StringMatch::Exact(text) => string_match::Kind::Exact(text.to_string()),
            StringMatch::Regex(pattern) => string_match::Kind::Regex(pattern.to_string()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&HeaderMatch> for proto::HeaderMatch {
    fn from(header: &HeaderMatch) -> Self {
        Self {
            name: header.name.to_string(),
            value: Some((&header.value).into()),
        }
    }
}

impl From<&QueryMatch> for proto::QueryMatch {
    fn from(query: &QueryMatch) -> Self {
        Self {
            name: query.name.clone(),
            value: Some((&query.value).into()),
        }
    }
}
