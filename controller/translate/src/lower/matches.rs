//! Lowers the matches of a rule.
//!
//! A part that is invalid is widened to everything that it may mean. Its rule answers these requests
//! with 500, so that no rule with weaker checks serves them.

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

/// Lowers all matches of a rule.
pub(crate) fn lower(matches: &[HttpRouteMatch], notes: &mut RuleNotes) -> Box<[HttpMatch]> {
    all(matches, notes, lower_one)
}

/// Lowers all matches of a rule by `one`; an empty list means one match without conditions.
pub(crate) fn all<T: Default>(
    matches: &[T],
    notes: &mut RuleNotes,
    one: fn(&T, &mut Vec<Problem>) -> HttpMatch,
) -> Box<[HttpMatch]> {
    if matches.is_empty() {
        // The default of the API, as if the list had been omitted.
        return all(&[T::default()], notes, one);
    }
    let lowered = matches.iter().enumerate().map(|(index, spec)| {
        let mut problems = Vec::new();
        let lowered = one(spec, &mut problems);
        let at = |problem: Problem| problem.under(format_args!("matches[{index}]"));
        notes.problems.extend(problems.into_iter().map(at));
        lowered
    });
    lowered.collect()
}

fn lower_one(spec: &HttpRouteMatch, problems: &mut Vec<Problem>) -> HttpMatch {
    let method = spec.method.as_deref().map(method).transpose();
    HttpMatch {
        path: path(&spec.path).unwrap_or_else(|problem| {
            problems.push(problem);
            widened(&spec.path)
        }),
        method: method.unwrap_or_else(|problem| {
            problems.push(problem);
            None
        }),
        headers: headers(&spec.headers, problems).into(),
        query: query(&spec.query_params, problems).into(),
    }
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

/// All paths that an invalid match may mean.
fn widened(spec: &HttpPathMatch) -> PathMatch {
    match spec.kind {
        PathMatchType::Exact | PathMatchType::PathPrefix => {
            let slashes = spec.value.rmatch_indices('/');
            let mut parents = slashes.map(|(at, _)| PathMatch::prefix(&spec.value[..=at]));
            parents.find_map(Result::ok).unwrap_or_else(every_path)
        }
        PathMatchType::RegularExpression => {
            let any = |start: &str| Pattern::parse(&format!("{start}{ANY_TEXT}"));
            let paths = any(literal_start(&spec.value)).or_else(|_| any(""));
            paths.map_or_else(|_| every_path(), PathMatch::Regex)
        }
        PathMatchType::Unknown => every_path(),
    }
}

fn every_path() -> PathMatch {
    PathMatch::Prefix(Box::default())
}

/// The text that everything begins with that an expression matches, whatever its syntax.
fn literal_start(expression: &str) -> &str {
    if expression.contains('|') {
        return "";
    }
    let expression = expression.strip_prefix('^').unwrap_or(expression);
    let is_special = |c: char| r"\.+*?()[]{}^$".contains(c);
    let (literal, rest) = match expression.find(is_special) {
        Some(end) => expression.split_at(end),
        None => (expression, ""),
    };
    if !rest.starts_with(['*', '?', '{']) {
        return literal;
    }
    // The last character is optional.
    let mut characters = literal.chars();
    characters.next_back();
    characters.as_str()
}

/// Of several entries for one header, Gateway API uses only the first.
pub(crate) fn headers(specs: &[HttpHeaderMatch], problems: &mut Vec<Problem>) -> Vec<HeaderMatch> {
    let mut lowered = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let is_same = |other: &HttpHeaderMatch| other.name.eq_ignore_ascii_case(&spec.name);
        if specs[..index].iter().any(is_same) {
            continue;
        }
        let mut refuse =
            |problem: Problem| problems.push(problem.under(format_args!("headers[{index}]")));
        let Ok(name) = HeaderName::from_bytes(spec.name.as_bytes()) else {
            let message = format!("`{}` is not a header name", spec.name);
            refuse(unsupported("name", message));
            continue;
        };
        let value = value(spec.kind, &spec.value, refuse);
        lowered.extend(value.map(|value| HeaderMatch { name, value }));
    }
    lowered
}

/// Names of parameters are case-sensitive; only the first entry of a name counts.
fn query(specs: &[HttpQueryParamMatch], problems: &mut Vec<Problem>) -> Vec<QueryMatch> {
    let mut seen = HashSet::with_capacity(specs.len());
    let mut lowered = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        if !seen.insert(&spec.name) {
            continue;
        }
        let refuse =
            |problem: Problem| problems.push(problem.under(format_args!("queryParams[{index}]")));
        let value = value(spec.kind, &spec.value, refuse);
        lowered.extend(value.map(|value| QueryMatch {
            name: spec.name.clone(),
            value,
        }));
    }
    lowered
}

/// The values of a header or parameter that match. An invalid expression is widened to any value;
/// a match of unknown type, which may even be met without it, to no condition.
fn value(kind: ValueMatchType, text: &str, mut refuse: impl FnMut(Problem)) -> Option<StringMatch> {
    match kind {
        ValueMatchType::Exact => Some(StringMatch::Exact(text.into())),
        ValueMatchType::RegularExpression => {
            let pattern = pattern(text, "value").map_err(refuse);
            let pattern = pattern.or_else(|()| Pattern::parse(ANY_TEXT));
            pattern.ok().map(StringMatch::Regex)
        }
        ValueMatchType::Unknown => {
            refuse(unknown_type("type"));
            None
        }
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

/// A regular expression for any text.
const ANY_TEXT: &str = "(?s:.*)";

#[cfg(test)]
mod tests {
    use super::literal_start;

    #[test]
    fn the_literal_prefix_of_an_expression_ends_at_the_first_operator() {
        for (expression, start) in [
            ("/admin/(?=x)", "/admin/"),
            ("^/admin/[", "/admin/"),
            ("/admins?(", "/admin"),
            ("/admins*(", "/admin"),
            ("/admins{2", "/admin"),
            ("/admins+(", "/admins"),
            ("/é*(", "/"),
            ("/admin(", "/admin"),
            ("/a.b(", "/a"),
            ("/a|/b(", ""),
            ("/a(b|c)(?=d)", ""),
            ("(?i)/a(", ""),
            ("*", ""),
            ("", ""),
        ] {
            assert_eq!(literal_start(expression), start, "{expression}");
        }
    }
}
