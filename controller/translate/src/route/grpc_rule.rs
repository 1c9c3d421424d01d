//! Lowers a rule of a GRPCRoute: a call is a POST to `/service/method`.

use http::Method;
use xds::model::{HttpMatch, HttpRule, PathMatch, Pattern, RequestProtocol, Timeouts};

use super::api::{GrpcMethodMatch, GrpcRouteMatch, GrpcRouteRule, ValueMatchType};
use super::expressions::RouteExpressions;
use super::matches::{MatchNotes, unknown_type};
use super::rule::{LoweredRule, RuleContext, RuleNotes};
use super::{filters, matches, rule_backends, session};
use crate::status::problem::{Problem, unsupported};

/// Lowers the rule at `context`.
pub(crate) fn lower(context: &RuleContext<'_>, spec: &GrpcRouteRule) -> LoweredRule {
    let mut notes = RuleNotes::default();
    let scope = filters::Scope {
        reader: context.reader,
        from: context.from,
        matches: &[],
    };
    let matches = matches::all(&spec.matches, context.expressions, &mut notes, a_match);
    let filters = filters::lower(&scope, &spec.filters, "filters", &mut notes);
    let mut backends = rule_backends::lower(&scope, &spec.backend_refs, &mut notes);
    let session = spec.session_persistence.as_deref();
    let session =
        session.and_then(|it| notes.keep(session::lower(it, context.route, context.index)));
    if spec.session_persistence.is_none() {
        rule_backends::add_sessions(&scope, &spec.backend_refs, &mut backends);
    }
    let rule = HttpRule {
        name: spec.name.as_deref().map(Into::into),
        protocol: RequestProtocol::Grpc,
        matches,
        filters,
        backends,
        // Calls have their own deadlines.
        timeouts: Timeouts::default(),
        retry: None,
        session: session.map(Box::new),
        invalid: None,
    };
    notes.lowered(context.index, rule)
}

fn a_match(spec: &GrpcRouteMatch, notes: &mut MatchNotes<'_>) -> HttpMatch {
    let (problems, expressions) = (&mut notes.problems, notes.expressions);
    let mut refuse = |problem: Problem| problems.push(problem.under("method"));
    let method = spec.method.as_ref();
    let path = method.and_then(|it| path(it, expressions, &mut refuse));
    HttpMatch {
        // Every call is a POST. Requiring it ranks a method of any service before a match for every
        // call: both are patterns, and Gateway API counts the letters of the method.
        method: path.is_some().then_some(Method::POST),
        path: path.unwrap_or_else(match_every_call),
        headers: matches::headers(&spec.headers, notes).into(),
        query: Box::default(),
    }
}

/// A pattern, since a prefix would be tried before the patterns of methods.
fn match_every_call() -> PathMatch {
    let every = Pattern::parse("/.*").expect("a constant that compiles");
    PathMatch::Regex(every)
}

/// Checks a part of a method, which a field has.
type Check<'a> = &'a dyn Fn(&str, &str) -> Result<(), Problem>;

/// The path of the calls that match; `None` if the match names neither service nor method. An invalid
/// part is widened to any service or method.
fn path(
    spec: &GrpcMethodMatch,
    expressions: &RouteExpressions,
    refuse: &mut impl FnMut(Problem),
) -> Option<PathMatch> {
    let given = |text: &'_ Option<String>| text.clone().filter(|text| !text.is_empty());
    let (service, method) = (given(&spec.service), given(&spec.method));
    if service.is_none() && method.is_none() {
        return None;
    }
    let mut valid = |part: Option<String>, field, check: Check<'_>| {
        part.filter(|text| check(text, field).map_err(&mut *refuse).is_ok())
    };
    let path = match spec.kind {
        ValueMatchType::Exact => {
            let service = valid(service, "service", &check_name);
            let method = valid(method, "method", &check_name);
            exact(service.as_deref(), method.as_deref(), expressions)
        }
        ValueMatchType::RegularExpression => {
            // Each is checked alone first, so that neither reaches beyond its part.
            let check = |text: &str, field: &str| expressions.check(text, field);
            let service = valid(service, "service", &check);
            let method = valid(method, "method", &check);
            method_pattern(service.as_deref(), method.as_deref(), expressions)
        }
        ValueMatchType::Unknown => Err(unknown_type("type")),
    };
    let path = path.unwrap_or_else(|problem| {
        refuse(problem);
        match_every_call()
    });
    Some(path)
}

fn check_name(text: &str, field: &str) -> Result<(), Problem> {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if text.chars().all(name) {
        return Ok(());
    }
    let message = "this is not a gRPC name: use letters, digits, `_` and `.`";
    Err(unsupported(field, message))
}

fn exact(
    service: Option<&str>,
    method: Option<&str>,
    expressions: &RouteExpressions,
) -> Result<PathMatch, Problem> {
    let invalid = |error| unsupported("service", error);
    match (service, method) {
        (Some(service), Some(method)) => {
            PathMatch::exact(&format!("/{service}/{method}")).map_err(invalid)
        }
        (Some(service), None) => PathMatch::prefix(&format!("/{service}")).map_err(invalid),
        (None, method) => {
            let method = method.map(|method| method.replace('.', r"\."));
            method_pattern(None, method.as_deref(), expressions)
        }
    }
}

/// Patterns; a missing one matches anything.
fn method_pattern(
    service: Option<&str>,
    method: Option<&str>,
    expressions: &RouteExpressions,
) -> Result<PathMatch, Problem> {
    let any = |text: Option<&str>| text.map_or("[^/]+".to_owned(), |text| format!("(?:{text})"));
    let whole = format!("/{}/{}", any(service), any(method));
    let pattern = expressions.parse(&whole, "service");
    pattern.map(PathMatch::Regex)
}
