//! Lowers the backends of an HTTP or gRPC rule, with their filters.

use xds::model::{ObjectName, RouteBackend, SessionPersistence};

use super::rule::RuleNotes;
use super::{filters, x_backend};
use crate::api::{HttpBackendRef, Resource as _, XBackend};
use crate::upstream::Upstream;

/// The backends of a rule.
pub(crate) fn lower(
    scope: &filters::Scope<'_>,
    specs: &[HttpBackendRef],
    notes: &mut RuleNotes,
) -> Vec<RouteBackend> {
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

/// Adds the session persistence of the backends themselves, for a rule without its own.
pub(crate) fn add_sessions(
    scope: &filters::Scope<'_>,
    specs: &[HttpBackendRef],
    backends: &mut [RouteBackend],
) {
    for (spec, backend) in specs.iter().zip(backends) {
        if let Some(upstream) = Upstream::of(&backend.target) {
            let own = session_of_x_backend(scope, spec);
            let session = own.or_else(|| scope.reader.session(&upstream).cloned());
            backend.session = session.map(Box::new);
        }
    }
}

/// The session persistence of an XBackend, whose own status reports whether it is valid.
fn session_of_x_backend(
    scope: &filters::Scope<'_>,
    spec: &HttpBackendRef,
) -> Option<SessionPersistence> {
    if (&*spec.group, &*spec.kind) != (XBackend::GROUP, XBackend::KIND) {
        return None;
    }
    let namespace = spec.namespace.as_deref().unwrap_or(scope.from.namespace);
    let name = ObjectName::new(namespace, &spec.name);
    let object = scope.reader.object::<XBackend>(&name)?;
    x_backend::session(&name, &object.spec)?.ok()
}
