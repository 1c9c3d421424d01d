//! Lowers the matches of a rule.

use std::collections::HashSet;

use http::{HeaderName, Method};
use xds::model::{HeaderMatch, HttpMatch, PathMatch, Pattern, QueryMatch, StringMatch};

use super::rule::RuleNotes;
use crate::api::{
    HttpHeaderMatch, HttpPathMatch, HttpQueryParamMatch, HttpRouteMatch, PathMatchType,
    ValueMatchType,
};
use crate::problem::Problem;
use crate::reason::Reason;

/// Lowers all matches of a rule; `None` if one of them is invalid.
pub(crate) fn lower(matches: &[HttpRouteMatch], notes: &mut RuleNotes) -> Option<Vec<HttpMatch>> {
    // The default of the API, as if the list had been omitted.
    all(matches, notes, lower_one)
}

/// Lowers all matches of a rule by `one`; an empty list means one match without conditions.
pub(crate) fn all<T: Default>(
    matches: &[T],
    notes: &mut RuleNotes,
    one: fn(&T) -> Result<HttpMatch, Problem>,
) -> Option<Vec<HttpMatch>> {
    if matches.is_empty() {
        return all(&[T::default()], notes, one);
    }
    let lowered = matches.iter().enumerate().map(|(index, spec)| {
        let result = one(spec);
        notes.keep(result.map_err(|problem| problem.under(format_args!("matches[{index}]"))))
    });
    let lowered: Vec<_> = lowered.collect();
    lowered.into_iter().collect()
}

fn lower_one(spec: &HttpRouteMatch) -> Result<HttpMatch, Problem> {
    let method = spec.method.as_deref().map(method).transpose()?;
    Ok(HttpMatch {
        path: path(&spec.path)?,
        method,
        headers: headers(&spec.headers)?,
        query: query(&spec.query_params)?,
    })
}

fn method(text: &str) -> Result<Method, Problem> {
    Method::from_bytes(text.as_bytes()).map_err(|_| {
        let message = format!("`{text}` is not a method: use one such as GET");
        unsupported("method", message)
    })
}

fn path(spec: &HttpPathMatch) -> Result<PathMatch, Problem> {
    let value = &spec.value;
    let invalid = |error| unsupported("path.value", error);
    match spec.kind {
        PathMatchType::Exact => PathMatch::exact(value).map_err(invalid),
        PathMatchType::PathPrefix => PathMatch::prefix(value).map_err(invalid),
        PathMatchType::RegularExpression => pattern(value, "path.value").map(PathMatch::Regex),
        PathMatchType::Unknown => Err(unknown_type("path.type")),
    }
}

/// Of several entries for one header, Gateway API uses only the first.
pub(crate) fn headers(specs: &[HttpHeaderMatch]) -> Result<Vec<HeaderMatch>, Problem> {
    let mut lowered: Vec<HeaderMatch> = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let at = |problem: Problem| problem.under(format_args!("headers[{index}]"));
        let name = HeaderName::from_bytes(spec.name.as_bytes()).map_err(|_| {
            let message = format!("`{}` is not a header name", spec.name);
            at(unsupported("name", message))
        })?;
        if lowered.iter().all(|other| other.name != name) {
            let value = value(spec.kind, &spec.value).map_err(at)?;
            lowered.push(HeaderMatch { name, value });
        }
    }
    Ok(lowered)
}

/// Names of parameters are case-sensitive; only the first entry of a name counts.
fn query(specs: &[HttpQueryParamMatch]) -> Result<Vec<QueryMatch>, Problem> {
    let mut seen = HashSet::with_capacity(specs.len());
    let first = specs
        .iter()
        .enumerate()
        .filter(|(_, spec)| seen.insert(&spec.name));
    first
        .map(|(index, spec)| {
            let at = |problem: Problem| problem.under(format_args!("queryParams[{index}]"));
            Ok(QueryMatch {
                name: spec.name.clone(),
                value: value(spec.kind, &spec.value).map_err(at)?,
            })
        })
        .collect()
}

fn value(kind: ValueMatchType, text: &str) -> Result<StringMatch, Problem> {
    match kind {
        ValueMatchType::Exact => Ok(StringMatch::Exact(text.to_owned())),
        ValueMatchType::RegularExpression => pattern(text, "value").map(StringMatch::Regex),
        ValueMatchType::Unknown => Err(unknown_type("type")),
    }
}

pub(crate) fn pattern(text: &str, field: &str) -> Result<Pattern, Problem> {
    Pattern::parse(text).map_err(|error| {
        let message = format!("{error}; use a short one in the syntax of RE2, without look-around");
        unsupported(field, message)
    })
}

pub(crate) fn unsupported(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::UnsupportedValue, field, message)
}

pub(crate) fn unknown_type(field: &str) -> Problem {
    unsupported(field, "this type of match is not supported: use another")
}
