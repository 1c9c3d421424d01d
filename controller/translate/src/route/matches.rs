//! Lowers the matches of a rule.
//!
//! A part that is invalid is widened to everything that it may mean. Its rule answers these requests
//! with 500, so that no rule with weaker checks serves them.

use std::collections::HashSet;

use http::{HeaderName, Method};
use xds::model::{HeaderMatch, HttpMatch, PathMatch, QueryMatch, StringMatch};

use super::api::{
    HttpHeaderMatch, HttpPathMatch, HttpQueryParamMatch, HttpRouteMatch, PathMatchType,
    ValueMatchType,
};
use super::expressions::{RouteExpressions, any_text};
use super::rule::RuleNotes;
use crate::status::problem::{Problem, unsupported};

/// Lowers all matches of a rule.
pub(crate) fn lower(
    matches: &[HttpRouteMatch],
    expressions: &RouteExpressions,
    notes: &mut RuleNotes,
) -> Box<[HttpMatch]> {
    all(matches, expressions, notes, lower_one)
}

/// The findings about a match, and the expressions of its route.
pub(crate) struct MatchNotes<'a> {
    pub(crate) problems: Vec<Problem>,
    pub(crate) expressions: &'a RouteExpressions,
}

/// Lowers all matches of a rule by `one`; an empty list means one match without conditions.
pub(crate) fn all<T: Default>(
    matches: &[T],
    expressions: &RouteExpressions,
    notes: &mut RuleNotes,
    one: fn(&T, &mut MatchNotes<'_>) -> HttpMatch,
) -> Box<[HttpMatch]> {
    if matches.is_empty() {
        // The default of the API, as if the list had been omitted.
        return all(&[T::default()], expressions, notes, one);
    }
    let lowered = matches.iter().enumerate().map(|(index, spec)| {
        let mut found = MatchNotes {
            problems: Vec::new(),
            expressions,
        };
        let lowered = one(spec, &mut found);
        let at = |problem: Problem| problem.under(format_args!("matches[{index}]"));
        notes.problems.extend(found.problems.into_iter().map(at));
        lowered
    });
    lowered.collect()
}

fn lower_one(spec: &HttpRouteMatch, notes: &mut MatchNotes<'_>) -> HttpMatch {
    let method = spec.method.as_deref().map(method).transpose();
    HttpMatch {
        path: path(&spec.path, notes.expressions).unwrap_or_else(|problem| {
            notes.problems.push(problem);
            widened(&spec.path, notes.expressions)
        }),
        method: method.unwrap_or_else(|problem| {
            notes.problems.push(problem);
            None
        }),
        headers: headers(&spec.headers, notes).into(),
        query: query(&spec.query_params, notes).into(),
    }
}

fn method(text: &str) -> Result<Method, Problem> {
    Method::from_bytes(text.as_bytes()).map_err(|_| {
        let message = format!("`{text}` is not a method: use one such as GET");
        unsupported("method", message)
    })
}

fn path(spec: &HttpPathMatch, expressions: &RouteExpressions) -> Result<PathMatch, Problem> {
    let value = &spec.value;
    let invalid = |error| unsupported("path.value", error);
    match spec.kind {
        PathMatchType::Exact => PathMatch::exact(value).map_err(invalid),
        PathMatchType::PathPrefix => PathMatch::prefix(value).map_err(invalid),
        PathMatchType::RegularExpression => {
            let pattern = expressions.parse(value, "path.value");
            pattern.map(PathMatch::Regex)
        }
        PathMatchType::Unknown => Err(unknown_type("path.type")),
    }
}

/// All paths that an invalid match may mean.
fn widened(spec: &HttpPathMatch, expressions: &RouteExpressions) -> PathMatch {
    match spec.kind {
        PathMatchType::Exact | PathMatchType::PathPrefix => {
            let slashes = spec.value.rmatch_indices('/');
            let mut parents = slashes.map(|(at, _)| PathMatch::prefix(&spec.value[..=at]));
            parents.find_map(Result::ok).unwrap_or_else(every_path)
        }
        PathMatchType::RegularExpression => {
            PathMatch::Regex(expressions.beginning_with(literal_start(&spec.value)))
        }
        PathMatchType::Unknown => every_path(),
    }
}

/// Every path.
pub(crate) fn every_path() -> PathMatch {
    PathMatch::Prefix(Box::default())
}

/// The text that everything begins with that an expression matches, whatever its syntax.
pub(crate) fn literal_start(expression: &str) -> &str {
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
pub(crate) fn headers(specs: &[HttpHeaderMatch], notes: &mut MatchNotes<'_>) -> Vec<HeaderMatch> {
    let MatchNotes {
        problems,
        expressions,
    } = notes;
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
        let value = value(spec.kind, &spec.value, expressions, refuse);
        lowered.extend(value.map(|value| HeaderMatch { name, value }));
    }
    lowered
}

/// Names of parameters are case-sensitive; only the first entry of a name counts.
fn query(specs: &[HttpQueryParamMatch], notes: &mut MatchNotes<'_>) -> Vec<QueryMatch> {
    let MatchNotes {
        problems,
        expressions,
    } = notes;
    let mut seen = HashSet::with_capacity(specs.len());
    let mut lowered = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        if !seen.insert(&spec.name) {
            continue;
        }
        let refuse =
            |problem: Problem| problems.push(problem.under(format_args!("queryParams[{index}]")));
        let value = value(spec.kind, &spec.value, expressions, refuse);
        lowered.extend(value.map(|value| QueryMatch {
            name: spec.name.clone(),
            value,
        }));
    }
    lowered
}

/// The values of a header or parameter that match. An invalid expression is widened to any value;
/// a match of unknown type, which may even be met without it, to no condition.
fn value(
    kind: ValueMatchType,
    text: &str,
    expressions: &RouteExpressions,
    mut refuse: impl FnMut(Problem),
) -> Option<StringMatch> {
    match kind {
        ValueMatchType::Exact => Some(StringMatch::Exact(text.into())),
        ValueMatchType::RegularExpression => {
            let pattern = expressions.parse(text, "value").unwrap_or_else(|problem| {
                refuse(problem);
                any_text()
            });
            Some(StringMatch::Regex(pattern))
        }
        ValueMatchType::Unknown => {
            refuse(unknown_type("type"));
            None
        }
    }
}

pub(crate) fn unknown_type(field: &str) -> Problem {
    unsupported(field, "this type of match is not supported: use another")
}

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
