//! Filters that a listener applies to requests before a route is selected (GEP-5224).

use xds::model::{AuthPathPrefix, ExternalAuth, ExternalAuthProtocol, InvalidBackend, Target};

use crate::backend::referrer::{Referrer, TrafficKind};
use crate::objects::kinds::WrittenKind;
use crate::objects::owner::Owner;
use crate::objects::reader::Reader;
use crate::route::api::{FilterType, ListenerFilter, LocalObjectReference};
use crate::route::external_auth;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The filters of a listener, with their problems. An invalid one rejects all requests. Neither the
/// filter nor its listener is left out: another listener of the port would serve the requests
/// without authorization.
#[derive(Debug, Default)]
pub(crate) struct ResolvedFilters {
    pub(crate) external_auth: Vec<ExternalAuth>,
    /// Why the listener is not accepted.
    pub(crate) refusals: Vec<Problem>,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
}

impl ResolvedFilters {
    pub(crate) fn resolve(reader: &Reader<'_>, owner: &Owner, specs: &[ListenerFilter]) -> Self {
        let mut resolved = Self::default();
        for (index, spec) in specs.iter().enumerate() {
            let at = format!("filters.requests[{index}]");
            let auth = resolved.lower(reader, owner, spec, &at);
            resolved.external_auth.push(auth);
        }
        resolved
    }

    fn lower(
        &mut self,
        reader: &Reader<'_>,
        owner: &Owner,
        spec: &ListenerFilter,
        at: &str,
    ) -> ExternalAuth {
        let namespace = &owner.name().namespace;
        match (spec.kind, &spec.external_auth, &spec.extension_ref) {
            (FilterType::ExternalAuth, Some(filter), None) => {
                let from = Referrer {
                    kind: owner.kind(),
                    namespace,
                    carries: TrafficKind::Requests,
                };
                match external_auth::lower(reader, from, filter) {
                    Ok((auth, problem)) => {
                        let problem = problem.map(|problem| reference(&problem, at));
                        self.refs.extend(problem);
                        auth
                    }
                    Err(problem) => self.refuse(problem.under("externalAuth").under(at), at),
                }
            }
            (FilterType::ExtensionRef, None, Some(reference)) => {
                let LocalObjectReference { kind, name, .. } = reference;
                self.refs.push(unknown_extension(reference, at));
                rejecting_server(format!("{kind}/{namespace}/{name}"))
            }
            (FilterType::ExternalAuth | FilterType::ExtensionRef, ..) => {
                let message = "exactly the field of its type must be there: add it, and remove \
                               others; until then no request passes";
                self.refuse(Problem::new(Reason::InvalidListenerFilter, at, message), at)
            }
            (kind, ..) => {
                let message = format!(
                    "filters of type {kind:?} do not run before routing: use ExternalAuth; until \
                     then no request passes"
                );
                let field = format!("{at}.type");
                self.refuse(Problem::new(Reason::UnsupportedValue, field, message), at)
            }
        }
    }

    fn refuse(&mut self, problem: Problem, at: &str) -> ExternalAuth {
        self.refusals.push(problem);
        rejecting_server(at.to_owned())
    }
}

/// Gateway API's wording for an unresolved reference of a filter.
fn reference(problem: &Problem, at: &str) -> Problem {
    let reason = match problem.reason {
        Reason::RefNotPermitted => Reason::RefNotPermitted,
        _ => Reason::InvalidListenerFilterRef,
    };
    Problem {
        reason,
        ..problem.clone()
    }
    .under("externalAuth")
    .under(at)
}

/// No kind of filter is supported, and requests that an unknown one might reject must not pass.
fn unknown_extension(reference: &LocalObjectReference, at: &str) -> Problem {
    let LocalObjectReference { group, kind, .. } = reference;
    let written = WrittenKind { group, kind };
    let message =
        format!("{written} is not a supported filter: remove it; until then no request passes");
    let field = format!("{at}.extensionRef");
    Problem::new(Reason::InvalidListenerFilterRef, field, message)
}

/// A server that cannot be reached.
fn rejecting_server(reference: String) -> ExternalAuth {
    ExternalAuth {
        target: Target::Invalid {
            why: InvalidBackend::InvalidKind,
            reference,
        },
        protocol: ExternalAuthProtocol::Http {
            path_prefix: AuthPathPrefix::default(),
            request_headers: Vec::new(),
            response_headers: Vec::new(),
        },
        body_bytes: None,
    }
}
