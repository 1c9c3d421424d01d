//! Validation shared by HTTP and gRPC rules.

use super::filter;
use crate::files::check::Check;
use crate::files::finding::Reason;
use crate::files::syntax;
use crate::objects::checks::reference;
use crate::route::api::{HttpBackendRef, HttpRouteFilter};

/// A rule that matches requests.
pub(crate) trait Rule {
    fn name(&self) -> Option<&str>;

    /// Number of its matches.
    fn matches(&self) -> usize;
}

/// The hosts of a route.
pub(crate) fn hostnames(check: &mut Check, hostnames: &[String], max: usize) {
    check.at_most("hostnames", hostnames.len(), max);
    check.each("hostnames", hostnames, |check, hostname| {
        check.fits(hostname, syntax::hostname);
    });
}

/// Limits of rules and matches, and unique rule names.
pub(crate) fn bounds<T: Rule>(check: &mut Check, rules: &[T]) {
    check.at_most("rules", rules.len(), MAX_RULES);
    let matches: usize = rules.iter().map(Rule::matches).sum();
    if matches > MAX_MATCHES_OF_ROUTE {
        let text = format!(
            "has {matches} matches in all: at most {MAX_MATCHES_OF_ROUTE} are allowed, \
             split the route"
        );
        check.field("rules", |check| check.refuse_for(Reason::TooMany, text));
    }
    check.distinct("rules", rules, "name", Rule::name);
    check.each("rules", rules, |check, rule| {
        check.fits_field("name", rule.name(), syntax::subdomain);
        check.at_most("matches", rule.matches(), MAX_MATCHES);
    });
}

/// Filters of `types` and backends of a rule.
pub(crate) fn filters_and_backends(
    check: &mut Check,
    filters: &[HttpRouteFilter],
    backends: &[HttpBackendRef],
    types: &[&str],
) {
    filter::filters(check, filters, types);
    check.at_most("backendRefs", backends.len(), MAX_BACKENDS);
    check.each("backendRefs", backends, |check, backend| {
        reference::http_backend(check, backend);
        filter::filters(check, &backend.filters, types);
    });
}

const MAX_RULES: usize = 16;
const MAX_MATCHES: usize = 64;
const MAX_MATCHES_OF_ROUTE: usize = 128;
/// The backends of one rule.
pub(crate) const MAX_BACKENDS: usize = 16;
