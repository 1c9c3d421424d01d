//! Lowers a rule of an HTTPRoute.

use http::StatusCode;
use xds::model::{GatewayDuration, HttpRule, RequestProtocol, Retry, Timeout, Timeouts};

use super::api::{HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts};
use super::rule::{LoweredRule, RuleContext, RuleNotes, duration};
use super::{filters, matches, rule_backends, session};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the rule at `context`.
pub(crate) fn lower(context: &RuleContext<'_>, spec: &HttpRouteRule) -> LoweredRule {
    let mut notes = RuleNotes::default();
    let rule = carry_out(context, spec, &mut notes);
    notes.lowered(context.index, rule)
}

fn carry_out(context: &RuleContext<'_>, spec: &HttpRouteRule, notes: &mut RuleNotes) -> HttpRule {
    let matches = matches::lower(&spec.matches, context.expressions, notes);
    let scope = filters::Scope {
        reader: context.reader,
        from: context.from,
        matches: &spec.matches,
    };
    let filters = filters::lower(&scope, &spec.filters, "filters", notes);
    let mut backends = rule_backends::lower(&scope, &spec.backend_refs, notes);
    let timeouts = spec.timeouts.as_deref().map(|it| timeouts(it, notes));
    let retry = spec.retry.as_deref().map(|it| retry(it, notes));
    let session = spec.session_persistence.as_deref();
    let session =
        session.and_then(|it| notes.keep(session::lower(it, context.route, context.index)));
    if spec.session_persistence.is_none() {
        rule_backends::add_sessions(&scope, &spec.backend_refs, &mut backends);
    }
    HttpRule {
        name: spec.name.as_deref().map(Into::into),
        protocol: RequestProtocol::Http,
        matches,
        filters,
        backends,
        timeouts: timeouts.unwrap_or_default(),
        retry: retry.map(Box::new),
        session: session.map(Box::new),
        invalid: None,
    }
}

fn timeouts(spec: &HttpRouteTimeouts, notes: &mut RuleNotes) -> Timeouts {
    let mut read = |text: &Option<String>, field| {
        let duration = text.as_deref().map(|text| duration(text, field));
        duration.and_then(|duration| notes.keep(duration))
    };
    let request = read(&spec.request, "timeouts.request");
    let backend_request = read(&spec.backend_request, "timeouts.backendRequest");
    if let (Some(request), Some(backend)) = (request, backend_request)
        && !request.0.is_zero()
        && backend > request
    {
        notes.problems.push(Problem::new(
            Reason::UnsupportedValue,
            "timeouts.backendRequest",
            format!("{backend} exceeds the request timeout ({request}): shorten it"),
        ));
    }
    let timeout = |duration: Option<GatewayDuration>| {
        duration.map_or(Timeout::Default, |duration| Timeout::from(duration.0))
    };
    Timeouts {
        request: timeout(request),
        backend_request: timeout(backend_request),
    }
}

fn retry(spec: &HttpRouteRetry, notes: &mut RuleNotes) -> Retry {
    let codes = spec.codes.iter().enumerate().filter_map(|(index, &code)| {
        let status = StatusCode::from_u16(code).ok();
        let status = status.filter(|status| RETRIED_CODES.contains(&status.as_u16()));
        notes.keep(status.ok_or_else(|| {
            Problem::new(
                Reason::UnsupportedValue,
                format!("retry.codes[{index}]"),
                format!("{code} cannot be retried: use codes from 400 to 599"),
            )
        }))
    });
    let codes = codes.collect();
    let backoff = spec.backoff.as_deref();
    let backoff = backoff.and_then(|text| notes.keep(duration(text, "retry.backoff")));
    Retry {
        attempts: spec.attempts.unwrap_or(DEFAULT_ATTEMPTS),
        codes,
        backoff: backoff.map(|duration| duration.0),
    }
}

/// The statuses that Gateway API allows to retry.
const RETRIED_CODES: std::ops::RangeInclusive<u16> = 400..=599;
/// The default of Gateway API since v1.7.
const DEFAULT_ATTEMPTS: u32 = 1;
