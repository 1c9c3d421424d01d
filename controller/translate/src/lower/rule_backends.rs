//! Lowers the backends of an HTTP or gRPC rule, with their filters.

use xds::model::{ObjectName, RouteBackend, SessionPersistence};

use super::rule::RuleNotes;
use super::{filters, x_backend};
use crate::api::{HttpBackendRef, Resource as _, XBackend};

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
        }
    });
    backends.collect()
}

/// The session persistence that a rule has by its backend: an XBackend that is the only one. Whether it
/// is valid, the XBackend tells.
pub(crate) fn session(
    scope: &filters::Scope<'_>,
    specs: &[HttpBackendRef],
) -> Option<SessionPersistence> {
    let [spec] = specs else {
        return None;
    };
    if (&*spec.group, &*spec.kind) != (XBackend::GROUP, XBackend::KIND) {
        return None;
    }
    let namespace = spec.namespace.as_deref().unwrap_or(scope.from.namespace);
    let name = ObjectName::new(namespace, &spec.name);
    let object = scope.reader.object::<XBackend>(&name)?;
    x_backend::session(&name, &object.spec)?.ok()
}
