//! HTTPRoute.

use xds::model::GatewayDuration;

use super::{filter, header_match, path_match, rules, session};
use crate::files::check::Check;
use crate::files::syntax;
use crate::objects::admission::Admissible;
use crate::objects::checks::reference;
use crate::route::api::{
    FilterType, HttpQueryParamMatch, HttpRoute, HttpRouteMatch, HttpRouteRetry, HttpRouteRule,
    HttpRouteTimeouts, PathMatchType,
};

impl Admissible for HttpRoute {
    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            let spec = &self.spec;
            reference::parents(check, &spec.parent_refs);
            rules::hostnames(check, &spec.hostnames, MAX_HOSTNAMES);
            if spec.rules.is_empty() {
                check.missing("rules", "is empty: leave it out, or give at least one rule");
            }
            rules::bounds(check, &spec.rules);
            check.each("rules", &spec.rules, rule);
        });
    }
}

impl rules::Rule for HttpRouteRule {
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn matches(&self) -> usize {
        self.matches.len()
    }
}

fn rule(check: &mut Check, rule: &HttpRouteRule) {
    check.each("matches", &rule.matches, a_match);
    rules::filters_and_backends(check, &rule.filters, &rule.backend_refs, &filter::HTTP);
    let redirects = rule
        .filters
        .iter()
        .any(|filter| filter.kind == FilterType::RequestRedirect);
    if redirects && !rule.backend_refs.is_empty() {
        let text =
            "cannot be combined with a RequestRedirect filter: a redirect reaches no backend";
        check.field("backendRefs", |check| check.refuse(text));
    }
    if !matches_one_prefix(rule) {
        filter::prefix_replaced(check, &rule.filters);
        check.each("backendRefs", &rule.backend_refs, |check, backend| {
            filter::prefix_replaced(check, &backend.filters);
        });
    }
    if let Some(given) = &rule.timeouts {
        check.field("timeouts", |check| timeouts(check, given));
    }
    if let Some(given) = &rule.retry {
        check.field("retry", |check| retry(check, given));
    }
    if let Some(given) = &rule.session_persistence {
        check.field("sessionPersistence", |check| session::session(check, given));
    }
}

fn matches_one_prefix(rule: &HttpRouteRule) -> bool {
    matches!(rule.matches.as_slice(), [only] if only.path.kind == PathMatchType::PathPrefix)
}

fn a_match(check: &mut Check, given: &HttpRouteMatch) {
    check.field("path", |check| path_match::path(check, &given.path));
    if let Some(given) = &given.method {
        check.field("method", |check| filter::method(check, given));
    }
    header_match::headers(check, &given.headers);
    check.at_most("queryParams", given.query_params.len(), MAX_VALUES);
    check.distinct("queryParams", &given.query_params, "name", |param| {
        Some(&param.name)
    });
    check.each("queryParams", &given.query_params, |check, param| {
        let HttpQueryParamMatch { kind, name, value } = param;
        header_match::match_type(check, *kind);
        check.fits_field("name", Some(name), syntax::header_name);
        check.fits_field("value", Some(value), |text| syntax::length(text, 1, 1024));
    });
}

fn timeouts(check: &mut Check, timeouts: &HttpRouteTimeouts) {
    check.fits_field("request", timeouts.request.as_deref(), syntax::duration);
    check.fits_field(
        "backendRequest",
        timeouts.backend_request.as_deref(),
        syntax::duration,
    );
    let parsed = |text: &Option<String>| GatewayDuration::parse(text.as_deref()?).ok();
    let Some((whole, one)) = parsed(&timeouts.request).zip(parsed(&timeouts.backend_request))
    else {
        return;
    };
    // A `request` of 0s means no timeout.
    if !whole.0.is_zero() && one > whole {
        let text = format!("{one} exceeds the request timeout ({whole}): shorten it");
        check.field("backendRequest", |check| check.refuse(text));
    }
}

fn retry(check: &mut Check, retry: &HttpRouteRetry) {
    check.each("codes", &retry.codes, |check, code| {
        if !(400..=599).contains(code) {
            check.refuse(format!(
                "{code} is not a status that can be retried: write 400 to 599"
            ));
        }
    });
    check.distinct("codes", &retry.codes, "code", Some);
    check.fits_field("backoff", retry.backoff.as_deref(), syntax::duration);
}

const MAX_HOSTNAMES: usize = 16;
const MAX_VALUES: usize = 16;
