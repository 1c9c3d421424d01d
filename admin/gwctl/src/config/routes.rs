//! `gwctl config routes`: route rules with their matches and backends.

use std::fmt::Write as _;

use admin_types::dump::{HttpMatch, MatchKind, PathKind, Route, RouteBackend, Target};

use super::key::Key;
use crate::table::Table;

/// One row per rule and listener.
pub(super) fn table(routes: &[Route]) -> Table<8> {
    let mut table = Table::new([
        "KIND",
        "NAMESPACE",
        "NAME",
        "RULE",
        "LISTENER",
        "HOSTNAMES",
        "MATCHES",
        "BACKENDS",
    ]);
    for route in routes {
        let key = Key::parse(&route.key);
        let hostnames = match route.hostnames.as_slice() {
            [] => "*".to_owned(),
            hostnames => hostnames.join(","),
        };
        table.row([
            key.kind.to_owned(),
            key.namespace.to_owned(),
            key.name.to_owned(),
            route.name.clone().unwrap_or_else(|| key.part.to_owned()),
            route.listener.clone(),
            hostnames,
            matches(&route.matches),
            backends(&route.backends),
        ]);
    }
    table.sort();
    table
}

/// The matches of a rule on one line.
pub(super) fn matches(matches: &[HttpMatch]) -> String {
    let texts: Vec<_> = matches.iter().map(one_match).collect();
    texts.join(" or ")
}

/// `GET PathPrefix /api, header x-tenant=a, query q~[0-9]+`.
fn one_match(rule: &HttpMatch) -> String {
    let path = &rule.path;
    let kind = match path.kind {
        PathKind::Exact => "Exact",
        PathKind::PathPrefix => "PathPrefix",
        PathKind::RegularExpression => "RegularExpression",
    };
    let method = rule.method.as_ref().map(|method| format!("{method} "));
    let mut text = format!("{}{kind} {}", method.unwrap_or_default(), path.value);
    for (what, values) in [("header", &rule.headers), ("query", &rule.query)] {
        for value in values {
            let sign = match value.kind {
                MatchKind::Exact => '=',
                MatchKind::RegularExpression => '~',
            };
            let _ = write!(text, ", {what} {}{sign}{}", value.name, value.value);
        }
    }
    text
}

/// The backends of a rule with their weights.
pub(super) fn backends(backends: &[RouteBackend]) -> String {
    let texts: Vec<_> = backends.iter().map(backend).collect();
    texts.join(", ")
}

fn backend(backend: &RouteBackend) -> String {
    let weight = backend.weight;
    match &backend.target {
        Target::Service { service, port } => format!("{service}:{port} ({weight})"),
        Target::Backend { backend } => format!("{backend} ({weight})"),
        Target::Invalid { reason, reference } if reference.is_empty() => {
            format!("invalid: {reason} ({weight})")
        }
        Target::Invalid { reason, reference } => {
            format!("invalid: {reference}: {reason} ({weight})")
        }
    }
}
