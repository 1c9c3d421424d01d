//! Matches of an HTTP rule.

use http::Method;

use super::field_path::FieldPath;
use super::value::header_name;
use crate::model::{HeaderMatch, HttpMatch, PathMatch, Pattern, QueryMatch, StringMatch};
use crate::proto::{self, path_match, string_match};

pub(super) fn http_match(place: &FieldPath<'_>, message: proto::HttpMatch) -> Option<HttpMatch> {
    let path = place.required("path", message.path, path_match);
    let method = place.optional("method", message.method, |place, text| method(place, &text));
    let headers = place.list("headers", message.headers, header_match);
    let query = place.list("query", message.query, query_match);
    if let Some(headers) = &headers {
        let names = headers.iter().map(|header| header.name.as_str());
        no_name_twice(&place.field("headers"), names);
    }
    if let Some(query) = &query {
        let names = query.iter().map(|parameter| parameter.name.as_str());
        no_name_twice(&place.field("query"), names);
    }
    Some(HttpMatch {
        path: path?,
        method: method?,
        headers: headers?,
        query: query?,
    })
}

/// A method, including non-standard ones.
pub(super) fn method(place: &FieldPath<'_>, text: &str) -> Option<Method> {
    let method = Method::from_bytes(text.as_bytes());
    place.accept(method.map_err(|_| format!("`{text}` is not a valid method")))
}

fn path_match(place: &FieldPath<'_>, message: proto::PathMatch) -> Option<PathMatch> {
    match message.kind {
        Some(path_match::Kind::Exact(path)) => place.field("exact").accept(PathMatch::exact(&path)),
        Some(path_match::Kind::Prefix(path)) => {
            place.field("prefix").accept(PathMatch::prefix(&path))
        }
        Some(path_match::Kind::Regex(text)) => {
            let pattern = place.field("regex").accept(Pattern::parse(&text));
            pattern.map(PathMatch::Regex)
        }
        None => place.no_choice(),
    }
}

fn string_match(place: &FieldPath<'_>, message: proto::StringMatch) -> Option<StringMatch> {
    match message.kind {
        Some(string_match::Kind::Exact(text)) => Some(StringMatch::Exact(text)),
        Some(string_match::Kind::Regex(text)) => {
            let pattern = place.field("regex").accept(Pattern::parse(&text));
            pattern.map(StringMatch::Regex)
        }
        None => place.no_choice(),
    }
}

fn header_match(place: &FieldPath<'_>, message: proto::HeaderMatch) -> Option<HeaderMatch> {
    let name = header_name(&place.field("name"), &message.name);
    let value = place.required("value", message.value, string_match);
    Some(HeaderMatch {
        name: name?,
        value: value?,
    })
}

fn query_match(place: &FieldPath<'_>, message: proto::QueryMatch) -> Option<QueryMatch> {
    let name = place.text("name", message.name);
    let value = place.required("value", message.value, string_match);
    Some(QueryMatch {
        name: name?,
        value: value?,
    })
}

/// Rejects duplicates: of two entries with one name Gateway API uses only the first.
fn no_name_twice<'a>(place: &FieldPath<'_>, names: impl Iterator<Item = &'a str>) {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [first, second] = pair
            && first == second
        {
            place.problem::<()>(format!("`{first}` is duplicated"));
        }
    }
}
