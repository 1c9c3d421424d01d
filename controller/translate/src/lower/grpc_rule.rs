//! Lowers a rule of a GRPCRoute: a call is a POST to `/service/method`.

use http::Method;
use xds::model::{HttpMatch, HttpRule, PathMatch, RequestProtocol, Timeouts};

use super::matches::{self, pattern, unknown_type, unsupported};
use super::rule::{LoweredRule, RuleContext, RuleNotes};
use super::{filters, rule_backends, session};
use crate::api::{GrpcMethodMatch, GrpcRouteMatch, GrpcRouteRule, ValueMatchType};
use crate::problem::Problem;

/// Lowers the rule at `context`.
pub(crate) fn lower(context: &RuleContext<'_>, spec: &GrpcRouteRule) -> LoweredRule {
    let mut notes = RuleNotes::default();
    let scope = filters::Scope {
        reader: context.reader,
        from: context.from,
        matches: &[],
    };
    let matches = matches::all(&spec.matches, &mut notes, a_match);
    let filters = filters::lower(&scope, &spec.filters, "filters", &mut notes);
    let mut backends = rule_backends::lower(&scope, &spec.backend_refs, &mut notes);
    let session = spec.session_persistence.as_deref();
    let session =
        session.and_then(|it| notes.keep(session::lower(it, context.route, context.index)));
    if spec.session_persistence.is_none() {
        rule_backends::add_sessions(&scope, &spec.backend_refs, &mut backends);
    }
    let rule = matches.map(|matches| HttpRule {
        name: spec.name.clone(),
        protocol: RequestProtocol::Grpc,
        matches,
        filters,
        backends,
        // Calls have their own deadlines.
        timeouts: Timeouts::default(),
        retry: None,
        session: session.map(Box::new),
    });
    notes.lowered(spec.name.as_deref(), context.index, rule)
}

fn a_match(spec: &GrpcRouteMatch) -> Result<HttpMatch, Problem> {
    let path = spec.method.as_ref().map(path).transpose();
    let path = path.map_err(|problem| problem.under("method"))?.flatten();
    Ok(HttpMatch {
        // Every call is a POST. Requiring it ranks a method of any service before a match for every
        // call: both are patterns, and Gateway API counts the letters of the method.
        method: path.is_some().then_some(Method::POST),
        path: path.map_or_else(every_call, Ok)?,
        headers: matches::headers(&spec.headers)?,
        query: Vec::new(),
    })
}

/// A pattern, since a prefix would be tried before the patterns of methods.
fn every_call() -> Result<PathMatch, Problem> {
    pattern("/.*", "method").map(PathMatch::Regex)
}

/// The path of the calls that match; `None` if the match names neither service nor method.
fn path(spec: &GrpcMethodMatch) -> Result<Option<PathMatch>, Problem> {
    let given = |text: &'_ Option<String>| text.clone().filter(|text| !text.is_empty());
    let (service, method) = (given(&spec.service), given(&spec.method));
    if service.is_none() && method.is_none() {
        return Ok(None);
    }
    match spec.kind {
        ValueMatchType::Exact => exact(service.as_deref(), method.as_deref()).map(Some),
        ValueMatchType::RegularExpression => {
            // Each is checked alone first, so that neither reaches beyond its part.
            for (text, field) in [(&service, "service"), (&method, "method")] {
                text.as_deref()
                    .map(|text| pattern(text, field))
                    .transpose()?;
            }
            either(service.as_deref(), method.as_deref()).map(Some)
        }
        ValueMatchType::Unknown => Err(unknown_type("type")),
    }
}

fn exact(service: Option<&str>, method: Option<&str>) -> Result<PathMatch, Problem> {
    for (text, field) in [(service, "service"), (method, "method")] {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if text.is_some_and(|text| !text.chars().all(name)) {
            let message = "this is not a gRPC name: use letters, digits, `_` and `.`";
            return Err(unsupported(field, message));
        }
    }
    let invalid = |error| unsupported("service", error);
    match (service, method) {
        (Some(service), Some(method)) => {
            PathMatch::exact(&format!("/{service}/{method}")).map_err(invalid)
        }
        (Some(service), None) => PathMatch::prefix(&format!("/{service}")).map_err(invalid),
        (None, method) => {
            let method = method.map(|method| method.replace('.', r"\."));
            either(None, method.as_deref())
        }
    }
}

/// Patterns; a missing one matches anything.
fn either(service: Option<&str>, method: Option<&str>) -> Result<PathMatch, Problem> {
    let any = |text: Option<&str>| text.map_or("[^/]+".to_owned(), |text| format!("(?:{text})"));
    let whole = format!("/{}/{}", any(service), any(method));
    pattern(&whole, "service").map(PathMatch::Regex)
}
