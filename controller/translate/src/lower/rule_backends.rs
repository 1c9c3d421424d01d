//! Lowers the backends of an HTTP or gRPC rule, with their filters.

use xds::model::RouteBackend;

use super::filters;
use super::rule::Notes;
use crate::api::HttpBackendRef;

/// The backends of a rule.
pub(crate) fn lower(
    scope: &filters::Scope<'_>,
    specs: &[HttpBackendRef],
    notes: &mut Notes,
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
