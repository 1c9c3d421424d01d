//! Matches of an HTTP rule.

use http::Method;

use super::field_path::FieldPath;
use super::value::header_name;
use crate::model::{HeaderMatch, HttpMatch, PathMatch, QueryMatch, StringMatch};
use crate::proto::{self, path_match, string_match};

pub(super) fn http_match(at: &FieldPath<'_>, message: proto::HttpMatch) -> Option<HttpMatch> {
    let path = at.required("path", message.path, path_match);
    let method = at.optional("method", message.method, |at, text| method(at, &text));
    let headers = at.list("headers", message.headers, header_match);
    let query = at.list("query", message.query, query_match);
    if let Some(headers) = &headers {
        let names = headers.iter().map(|header| header.name.as_str());
        no_name_twice(&at.field("headers"), names);
    }
    if let Some(query) = &query {
        let names = query.iter().map(|parameter| parameter.name.as_str());
        no_name_twice(&at.field("query"), names);
    }
    Some(HttpMatch {
        path: path?,
        method: method?,
        headers: headers?.into(),
        query: query?.into(),
    })
}

/// A method, including non-standard ones.
pub(super) fn method(at: &FieldPath<'_>, text: &str) -> Option<Method> {
    let method = Method::from_bytes(text.as_bytes());
    at.accept(method.map_err(|_| format!("`{text}` is not a valid method")))
}

pub(super) fn path_match(at: &FieldPath<'_>, message: proto::PathMatch) -> Option<PathMatch> {
    match message.kind {
        Some(path_match::Kind::Exact(path)) => at.field("exact").accept(PathMatch::exact(&path)),
        Some(path_match::Kind::Prefix(path)) => at.field("prefix").accept(PathMatch::prefix(&path)),
        Some(path_match::Kind::Regex(text)) => {
            let pattern = at.field("regex").pattern(&text);
            pattern.map(PathMatch::Regex)
        }
        None => at.record_missing_choice(),
    }
}

fn string_match(at: &FieldPath<'_>, message: proto::StringMatch) -> Option<StringMatch> {
    match message.kind {
        Some(string_match::Kind::Exact(text)) => Some(StringMatch::Exact(text.into())),
        Some(string_match::Kind::Regex(text)) => {
            let pattern = at.field("regex").pattern(&text);
            pattern.map(StringMatch::Regex)
        }
        None => at.record_missing_choice(),
    }
}

fn header_match(at: &FieldPath<'_>, message: proto::HeaderMatch) -> Option<HeaderMatch> {
    let name = header_name(&at.field("name"), &message.name);
    let value = at.required("value", message.value, string_match);
    Some(HeaderMatch {
        name: name?,
        value: value?,
    })
}

fn query_match(at: &FieldPath<'_>, message: proto::QueryMatch) -> Option<QueryMatch> {
    let name = at.text("name", message.name);
    let value = at.required("value", message.value, string_match);
    Some(QueryMatch {
        name: name?,
        value: value?,
    })
}

/// Rejects duplicates: of two entries with one name Gateway API uses only the first.
fn no_name_twice<'a>(at: &FieldPath<'_>, names: impl Iterator<Item = &'a str>) {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [first, second] = pair
            && first == second
        {
            at.problem::<()>(format!("`{first}` is duplicated"));
        }
    }
}
