//! One rule of an HTTPRoute.

use std::num::NonZeroU32;

use http::StatusCode;
use xds::model::{
    Filters, GatewayDuration, HttpRule, ObjectName, Retry, RouteBackend, Timeout, Timeouts,
};

use super::{filters, matches, session};
use crate::api::{self, HttpBackendRef, HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts};
use crate::problem::Problem;
use crate::resolve::World;
use crate::resolve::backend::BackendReference;
use crate::status::Reason;

/// What became of a rule.
pub(crate) struct LoweredRule {
    /// The rule; `None` where it is dropped.
    pub(crate) rule: Option<HttpRule>,
    /// What in it cannot be carried out. If there is still a rule, it fails closed.
    pub(crate) problems: Vec<Problem>,
    /// References that lead nowhere; their share is answered with 500.
    pub(crate) refs: Vec<Problem>,
}

/// Lowers rule number `index` of the route `route`.
pub(crate) fn lower(
    world: &World<'_>,
    route: &ObjectName,
    index: usize,
    spec: &HttpRouteRule,
) -> LoweredRule {
    let mut notes = Notes::default();
    let rule = carry_out(world, route, index, spec, &mut notes);
    let fails_closed = notes.fails_closed;
    let place = |problems: Vec<Problem>| {
        let at = |problem: Problem| problem.under(format_args!("spec.rules[{index}]"));
        problems.into_iter().map(at).collect::<Vec<_>>()
    };
    let rule = match (notes.problems.is_empty(), rule) {
        (true, rule) => rule,
        (false, Some(rule)) if fails_closed => Some(answer_500(rule)),
        (false, _) => None,
    };
    LoweredRule {
        rule,
        problems: place(notes.problems),
        refs: place(notes.refs),
    }
}

/// What is found on the way through a rule.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) problems: Vec<Problem>,
    pub(crate) refs: Vec<Problem>,
    /// Whether a filter that we do not know might have refused the request.
    pub(crate) fails_closed: bool,
}

impl Notes {
    /// Takes the value, or notes the problem.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.problems.push(problem)).ok()
    }
}

/// `None` only where the matches themselves cannot be carried out.
fn carry_out(
    world: &World<'_>,
    route: &ObjectName,
    index: usize,
    spec: &HttpRouteRule,
    notes: &mut Notes,
) -> Option<HttpRule> {
    let matches = matches::lower(&spec.matches, notes);
    let scope = filters::Scope {
        world,
        namespace: &route.namespace,
        matches: &spec.matches,
    };
    let filters = filters::lower(&scope, &spec.filters, "filters", notes);
    let backends = spec.backend_refs.iter().enumerate();
    let backends = backends.map(|(number, spec)| backend(&scope, number, spec, notes));
    let backends = backends.collect();
    let timeouts = spec.timeouts.as_ref().map(|it| timeouts(it, notes));
    let retry = spec.retry.as_ref().map(|it| retry(it, notes));
    let session = spec.session_persistence.as_ref();
    let session = session.and_then(|it| notes.keep(session::lower(it, route, index)));
    Some(HttpRule {
        name: spec.name.clone(),
        matches: matches?,
        filters,
        backends,
        timeouts: timeouts.unwrap_or_default(),
        retry,
        session,
    })
}

fn backend(
    scope: &filters::Scope<'_>,
    number: usize,
    spec: &HttpBackendRef,
    notes: &mut Notes,
) -> RouteBackend {
    let reference = BackendReference::from(spec);
    let (target, problem) = scope
        .world
        .follow::<api::HttpRoute>(scope.namespace, reference);
    let problem = problem.map(|problem| problem.under(format_args!("backendRefs[{number}]")));
    notes.refs.extend(problem);
    let at = format_args!("backendRefs[{number}].filters");
    RouteBackend {
        target,
        weight: spec.weight,
        filters: filters::lower(scope, &spec.filters, at, notes),
    }
}

/// The same matches, but nothing behind them.
fn answer_500(rule: HttpRule) -> HttpRule {
    HttpRule {
        filters: Filters::default(),
        backends: Vec::new(),
        retry: None,
        session: None,
        ..rule
    }
}

fn timeouts(spec: &HttpRouteTimeouts, notes: &mut Notes) -> Timeouts {
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
            format!("{backend} is longer than the whole request's {request}: make it shorter"),
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

fn retry(spec: &HttpRouteRetry, notes: &mut Notes) -> Retry {
    let codes = spec.codes.iter().enumerate().filter_map(|(index, &code)| {
        let status = StatusCode::from_u16(code).ok();
        let status = status.filter(|status| RETRIED_CODES.contains(&status.as_u16()));
        notes.keep(status.ok_or_else(|| {
            Problem::new(
                Reason::UnsupportedValue,
                format!("retry.codes[{index}]"),
                format!("{code} is not retried: use codes from 400 to 599"),
            )
        }))
    });
    let codes = codes.collect();
    let backoff = spec.backoff.as_deref();
    let backoff = backoff.and_then(|text| notes.keep(duration(text, "retry.backoff")));
    Retry {
        attempts: spec.attempts.map_or(DEFAULT_ATTEMPTS, NonZeroU32::get),
        codes,
        backoff: backoff.map(|duration| duration.0),
    }
}

/// Reads a duration of Gateway API.
pub(crate) fn duration(text: &str, field: &str) -> Result<GatewayDuration, Problem> {
    GatewayDuration::parse(text)
        .map_err(|error| Problem::new(Reason::UnsupportedValue, field, error))
}

/// What Gateway API lets a retry name.
const RETRIED_CODES: std::ops::RangeInclusive<u16> = 400..=599;
/// Gateway API leaves it to us; one extra try is what a retry means at least.
const DEFAULT_ATTEMPTS: u32 = 1;
