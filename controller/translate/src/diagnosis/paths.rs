//! Paths that probably match something else than was meant.

use super::view::{Matches, RouteView};
use super::{Diagnosis, finding};
use crate::level::Level;
use crate::route::api::{HttpHeaderMatch, HttpRouteMatch, PathMatchType, ValueMatchType};
use crate::status::Reason;

pub(super) fn examine(route: &RouteView<'_>, found: &mut Vec<Diagnosis>) {
    for (index, rule) in route.rules.iter().enumerate() {
        let Matches::Http(rule) = rule.matches else {
            continue;
        };
        for (at, of_match) in rule.matches.iter().enumerate() {
            let place = format!("spec.rules[{index}].matches[{at}]");
            let headers = of_match.headers.iter().enumerate();
            let headers = headers.filter(|(_, it)| it.kind == ValueMatchType::Exact);
            let headers =
                headers.map(|(at, it)| (format!("{place}.headers[{at}].value"), &it.value));
            let params = of_match.query_params.iter().enumerate();
            let params = params.filter(|(_, it)| it.kind == ValueMatchType::Exact);
            let params =
                params.map(|(at, it)| (format!("{place}.queryParams[{at}].value"), &it.value));
            for (field, value) in headers.chain(params) {
                if let Some(text) = surprising_value(value) {
                    let field = (field, Reason::LiteralWildcard);
                    found.push(finding(&route.object, Level::Warning, field, text));
                }
            }
            for (field, text) in repeated(of_match) {
                let field = (format!("{place}.{field}"), Reason::NoEffect);
                found.push(finding(&route.object, Level::Warning, field, text));
            }
            let path = &of_match.path;
            let Some(text) = surprise(path.kind, &path.value) else {
                continue;
            };
            let field = format!("{place}.path.value");
            let field = (field, Reason::LiteralWildcard);
            found.push(finding(&route.object, Level::Warning, field, text));
        }
    }
}

/// Headers of a match with the name of one before them, in another case, which is the one that counts.
fn repeated(it: &HttpRouteMatch) -> Vec<(String, String)> {
    let headers = &it.headers;
    let repeated = headers.iter().enumerate().filter_map(|(at, header)| {
        let mut before = headers[..at].iter();
        let is_same = |it: &HttpHeaderMatch| it.name.eq_ignore_ascii_case(&header.name);
        let first = before.position(is_same)?;
        (headers[first].value != header.value).then(|| {
            let text = format!(
                "has no effect, since headers[{first}] has the same name, and the first counts: use one entry, with a \
                 regular expression for several values"
            );
            (format!("headers[{at}].name"), text)
        })
    });
    repeated.collect()
}

/// A value of a header or parameter that ends with a `*`, unless it is a range of media types.
fn surprising_value(value: &str) -> Option<String> {
    let start = value.strip_suffix('*')?;
    let is_word = start.ends_with(|it: char| it.is_ascii_alphanumeric() || "-_.".contains(it));
    is_word.then(|| {
        format!("`*` stands for itself here: use type RegularExpression with `{start}.*` for values that begin so")
    })
}

fn surprise(kind: PathMatchType, value: &str) -> Option<String> {
    let (start, _) = value.split_once('*')?;
    match kind {
        PathMatchType::PathPrefix => {
            let prefix = match start.trim_end_matches('/') {
                "" => "/",
                prefix => prefix,
            };
            Some(format!(
                "`*` stands for itself here: `{value}` matches only paths that contain it. PathPrefix `{prefix}` \
                 matches every path below"
            ))
        }
        PathMatchType::Exact => Some(format!(
            "`*` stands for itself here: `{value}` matches only this path. Use PathPrefix for every path below, or \
             RegularExpression"
        )),
        PathMatchType::RegularExpression | PathMatchType::Unknown => None,
    }
}
