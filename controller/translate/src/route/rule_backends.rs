//! Lowers the backends of an HTTP or gRPC rule, with their filters and session persistence.

use std::sync::Arc;

use xds::model::{ObjectName, Route, RouteBackend, RouteRule, SessionPersistence};

use super::api::HttpBackendRef;
use super::filters;
use super::rule::RuleNotes;
use crate::backend::api::XBackend;
use crate::backend::upstream::Upstream;
use crate::backend::x_backend;
use crate::objects::kinds::ObjectKind;

/// The backends of a rule.
pub(crate) fn lower(
    scope: &filters::Scope<'_>,
    specs: &[HttpBackendRef],
    notes: &mut RuleNotes,
) -> Box<[RouteBackend]> {
    let specs = specs.iter().enumerate();
    let backends = specs.map(|(number, spec)| {
        let (target, problem) = scope.reader.follow(scope.from, spec.into());
        let problem = problem.map(|problem| problem.under(format_args!("backendRefs[{number}]")));
        notes.refs.extend(problem);
        let at = format_args!("backendRefs[{number}].filters");
        RouteBackend {
            target,
            weight: spec.weight,
            filters: filters::lower(scope, &spec.filters, at, notes),
            session: None,
        }
    });
    backends.collect()
}

/// Adds the session persistence of XBackends themselves, for a rule without its own.
pub(crate) fn add_sessions(
    scope: &filters::Scope<'_>,
    specs: &[HttpBackendRef],
    backends: &mut [RouteBackend],
) {
    for (spec, backend) in specs.iter().zip(backends) {
        if Upstream::of(&backend.target).is_some() {
            backend.session = session_of_x_backend(scope, spec).map(Box::new);
        }
    }
}

/// The backends of a rule for which neither it nor they have session persistence of their own.
pub(crate) fn without_session(rule: &RouteRule) -> impl Iterator<Item = Upstream> {
    let rule = rule.http().filter(|rule| rule.session.is_none());
    let backends = rule.into_iter().flat_map(|rule| &rule.backends);
    let backends = backends.filter(|backend| backend.session.is_none());
    backends.filter_map(|backend| Upstream::of(&backend.target))
}

/// Adds session persistence to the backends of [`without_session`].
pub(crate) fn with_sessions(
    route: &Arc<Route>,
    session: impl Fn(&Upstream) -> Option<SessionPersistence>,
) -> Arc<Route> {
    let mut route = Arc::clone(route);
    if without_session(&route.rule).all(|upstream| session(&upstream).is_none()) {
        return route;
    }
    if let RouteRule::Http(rule) = &mut Arc::make_mut(&mut route).rule {
        let backends = rule.backends.iter_mut();
        for backend in backends.filter(|backend| backend.session.is_none()) {
            let upstream = Upstream::of(&backend.target);
            backend.session = upstream.and_then(|it| session(&it)).map(Box::new);
        }
    }
    route
}

/// The session persistence of an XBackend, whose own status reports whether it is valid.
fn session_of_x_backend(
    scope: &filters::Scope<'_>,
    spec: &HttpBackendRef,
) -> Option<SessionPersistence> {
    if ObjectKind::find(&spec.group, &spec.kind) != Some(ObjectKind::XBackend) {
        return None;
    }
    let namespace = spec.namespace.as_deref().unwrap_or(scope.from.namespace);
    let name = ObjectName::new(namespace, &spec.name);
    let object = scope.reader.object::<XBackend>(&name)?;
    x_backend::session(&name, &object.spec)?.ok()
}
