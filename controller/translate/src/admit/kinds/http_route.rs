//! HTTPRoute.

use xds::model::GatewayDuration;

use super::{Admissible, filter, path_match, reference};
use crate::admit::check::Check;
use crate::admit::finding::Reason;
use crate::admit::syntax;
use crate::api::{
    CookieLifetime, FilterType, HttpHeaderMatch, HttpQueryParamMatch, HttpRoute, HttpRouteMatch,
    HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts, PathMatchType, SessionPersistence,
    SessionPersistenceType, ValueMatchType,
};

impl Admissible for HttpRoute {
    const ALSO: &'static [&'static str] = &["v1beta1"];
    const UNSUPPORTED: &'static [&'static str] = &[
        "spec.useDefaultGateways",
        "spec.rules.filters.externalAuth",
        "spec.rules.backendRefs.filters.externalAuth",
    ];

    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            let spec = &self.spec;
            reference::parents(check, &spec.parent_refs);
            check.at_most("hostnames", spec.hostnames.len(), MAX_HOSTNAMES);
            check.each("hostnames", &spec.hostnames, |check, hostname| {
                check.fits(hostname, syntax::hostname);
            });
            rules(check, &spec.rules);
        });
    }
}

fn rules(check: &mut Check, rules: &[HttpRouteRule]) {
    if rules.is_empty() {
        check.missing("rules", "is empty: leave it out, or give at least one rule");
    }
    check.at_most("rules", rules.len(), MAX_RULES);
    let matches: usize = rules.iter().map(|rule| rule.matches.len()).sum();
    if matches > MAX_MATCHES_OF_ROUTE {
        let text = format!(
            "has {matches} matches in all: at most {MAX_MATCHES_OF_ROUTE} are allowed, \
             split the route"
        );
        check.field("rules", |check| check.refuse_for(Reason::TooMany, text));
    }
    check.distinct("rules", rules, "name", |rule| rule.name.as_ref());
    check.each("rules", rules, rule);
}

fn rule(check: &mut Check, rule: &HttpRouteRule) {
    check.fits_field("name", rule.name.as_deref(), syntax::subdomain);
    check.at_most("matches", rule.matches.len(), MAX_MATCHES);
    check.each("matches", &rule.matches, a_match);
    filter::filters(check, &rule.filters);
    check.at_most("backendRefs", rule.backend_refs.len(), MAX_BACKENDS);
    check.each("backendRefs", &rule.backend_refs, |check, backend| {
        reference::http_backend(check, backend);
        filter::filters(check, &backend.filters);
    });
    let redirects = rule
        .filters
        .iter()
        .any(|filter| filter.kind == FilterType::RequestRedirect);
    if redirects && !rule.backend_refs.is_empty() {
        let text = "goes without a RequestRedirect filter: a redirect reaches no backend";
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
        check.field("sessionPersistence", |check| session(check, given));
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
    check.at_most("headers", given.headers.len(), MAX_VALUES);
    check.distinct("headers", &given.headers, "name", |header| {
        Some(&header.name)
    });
    check.each("headers", &given.headers, |check, header| {
        let HttpHeaderMatch { kind, name, value } = header;
        match_type(check, *kind);
        check.fits_field("name", Some(name), syntax::header_name);
        check.fits_field("value", Some(value), syntax::header_value);
    });
    check.at_most("queryParams", given.query_params.len(), MAX_VALUES);
    check.distinct("queryParams", &given.query_params, "name", |param| {
        Some(&param.name)
    });
    check.each("queryParams", &given.query_params, |check, param| {
        let HttpQueryParamMatch { kind, name, value } = param;
        match_type(check, *kind);
        check.fits_field("name", Some(name), syntax::header_name);
        check.fits_field("value", Some(value), |text| syntax::length(text, 1, 1024));
    });
}

fn match_type(check: &mut Check, kind: ValueMatchType) {
    if kind == ValueMatchType::Unknown {
        check.field("type", |check| {
            check.refuse_all_but(&["Exact", "RegularExpression"]);
        });
    }
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
    // A `request` of 0s is no bound at all.
    if !whole.0.is_zero() && one > whole {
        let text = format!("{one} is longer than request ({whole}), which holds it: shorten it");
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

fn session(check: &mut Check, session: &SessionPersistence) {
    check.fits_field("sessionName", session.session_name.as_deref(), |text| {
        syntax::length(text, 0, MAX_SESSION_NAME)
    });
    check.fits_field(
        "absoluteTimeout",
        session.absolute_timeout.as_deref(),
        syntax::duration,
    );
    check.fits_field(
        "idleTimeout",
        session.idle_timeout.as_deref(),
        syntax::duration,
    );
    if session.idle_timeout.is_some() {
        let text = "is no part of Gateway API since v1.6: an API server takes it out";
        check.field("idleTimeout", |check| check.warn(text));
    }
    if session.kind == SessionPersistenceType::Unknown {
        check.field("type", |check| check.refuse_all_but(&["Cookie", "Header"]));
    }
    let Some(cookie) = &session.cookie_config else {
        return;
    };
    if session.kind == SessionPersistenceType::Header {
        let text = "goes with type Cookie: change type, or remove it";
        check.field("cookieConfig", |check| check.refuse(text));
    }
    let permanent = cookie.lifetime_type == CookieLifetime::Permanent;
    if permanent && session.absolute_timeout.is_none() {
        let text = "is missing: a Permanent cookie needs the time that it lives";
        check.missing("absoluteTimeout", text);
    }
}

const MAX_HOSTNAMES: usize = 16;
const MAX_RULES: usize = 16;
const MAX_MATCHES: usize = 64;
const MAX_MATCHES_OF_ROUTE: usize = 128;
const MAX_BACKENDS: usize = 16;
const MAX_VALUES: usize = 16;
const MAX_SESSION_NAME: usize = 128;
