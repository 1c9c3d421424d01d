//! What a listener does with requests before their route is chosen (GEP-5224).

use xds::model::{AuthPathPrefix, ExternalAuth, ExternalAuthProtocol, InvalidBackend, Target};

use super::backend::{Referrer, TrafficKind};
use super::external_auth;
use crate::api::{FilterType, GATEWAY_GROUP, ListenerFilter, LocalObjectReference};

use crate::owner::Owner;
use crate::problem::Problem;
use crate::reader::Reader;
use crate::reason::Reason;

/// The filters of a listener, and what is wrong with them.
#[derive(Debug, Default)]
pub(crate) struct ResolvedFilters {
    /// In their order.
    pub(crate) external_auth: Vec<ExternalAuth>,
    /// Why the listener is not accepted.
    pub(crate) refusals: Vec<Problem>,
    /// References that lead nowhere; each lets no request pass.
    pub(crate) refs: Vec<Problem>,
}

impl ResolvedFilters {
    pub(crate) fn resolve(reader: &Reader<'_>, owner: &Owner, specs: &[ListenerFilter]) -> Self {
        let mut resolved = Self::default();
        for (index, spec) in specs.iter().enumerate() {
            let at = format!("filters.requests[{index}]");
            resolved.add(reader, owner, spec, &at);
        }
        resolved
    }

    fn add(&mut self, reader: &Reader<'_>, owner: &Owner, spec: &ListenerFilter, at: &str) {
        let from = Referrer {
            group: GATEWAY_GROUP,
            kind: owner.kind(),
            namespace: &owner.name().namespace,
            carries: TrafficKind::Requests,
        };
        match (spec.kind, &spec.external_auth, &spec.extension_ref) {
            (FilterType::ExternalAuth, Some(filter), None) => {
                match external_auth::lower(reader, from, filter) {
                    Ok((auth, problem)) => {
                        self.external_auth.push(auth);
                        let problem = problem.map(|problem| reference(&problem, at));
                        self.refs.extend(problem);
                    }
                    Err(problem) => {
                        let problem = problem.under("externalAuth").under(at);
                        self.refusals.push(problem);
                    }
                }
            }
            (FilterType::ExtensionRef, None, Some(reference)) => {
                let (auth, problem) = extension(from, reference, at);
                self.external_auth.push(auth);
                self.refs.push(problem);
            }
            (FilterType::ExternalAuth | FilterType::ExtensionRef, ..) => {
                let message =
                    "exactly the field of its type must be there: add it, and remove others";
                self.refusals
                    .push(Problem::new(Reason::InvalidListenerFilter, at, message));
            }
            (kind, ..) => {
                let message =
                    format!("filters of type {kind:?} do not run before routing: use ExternalAuth");
                let field = format!("{at}.type");
                self.refusals
                    .push(Problem::new(Reason::UnsupportedValue, field, message));
            }
        }
    }
}

/// The words of Gateway API for a reference of a filter that leads nowhere.
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

/// No kind of filter is known, and what an unknown one would have refused must not pass.
fn extension(
    from: Referrer<'_>,
    reference: &LocalObjectReference,
    at: &str,
) -> (ExternalAuth, Problem) {
    let LocalObjectReference { group, kind, name } = reference;
    let auth = ExternalAuth {
        target: Target::Invalid {
            why: InvalidBackend::InvalidKind,
            reference: format!("{kind}/{}/{name}", from.namespace),
        },
        protocol: ExternalAuthProtocol::Http {
            path_prefix: AuthPathPrefix::default(),
            request_headers: Vec::new(),
            response_headers: Vec::new(),
        },
        body_bytes: None,
    };
    let message = format!(
        "kind `{kind}` of group `{group}` is no filter that is known here: remove it; until then no \
         request passes"
    );
    let field = format!("{at}.extensionRef");
    let problem = Problem::new(Reason::InvalidListenerFilterRef, field, message);
    (auth, problem)
}
