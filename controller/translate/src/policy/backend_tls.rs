//! Resolves BackendTLSPolicies, and finds the TLS settings of a port.

use std::sync::Arc;

use xds::model::{BackendKey, BackendTls, ObjectName, ServiceKey};

use super::api::{BackendTlsPolicy, PolicyTargetReference};
use crate::backend::api::Service;
use crate::backend::upstream::Upstream;
use crate::backend::validation;
use crate::expiry::Expiries;
use crate::objects::api::Resource as _;
use crate::objects::kinds::{ObjectKind, WrittenKind};
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A resolved policy, with its problems.
#[derive(Debug, PartialEq)]
pub(crate) struct ResolvedBackendTls {
    /// Creation time, as in [`crate::objects::api::ObjectMeta::created`].
    pub(crate) created: i64,
    pub(crate) tls: Arc<BackendTls>,
    /// Why it is rejected.
    pub(crate) refusals: Vec<Problem>,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
    /// CA certificates that have expired, which are used nonetheless.
    pub(crate) expiries: Expiries,
    /// Targets that do not exist, as a whole or in the part that is named.
    pub(crate) missing: Vec<Problem>,
    pub(crate) targets: Vec<BackendTlsTarget>,
}

/// An existing target of a policy.
#[derive(Debug, PartialEq)]
pub(crate) struct BackendTlsTarget {
    pub(crate) upstream: Upstream,
    pub(crate) section: Option<Arc<str>>,
    /// Its field in the policy.
    pub(crate) field: String,
    /// Whether nothing is sent to it unless another policy applies, because the part of it that the policy
    /// names does not exist: without TLS it would receive plain text.
    pub(crate) is_closed: bool,
}

impl ResolvedBackendTls {
    pub(crate) fn resolve(
        reader: &Reader<'_>,
        name: &ObjectName,
        object: &BackendTlsPolicy,
    ) -> Self {
        let namespace = &*name.namespace;
        let validation = &object.spec.validation;
        let resolved = validation::resolve::<BackendTlsPolicy>(reader, namespace, validation);
        let place = |problems: Vec<Problem>| {
            let problems = problems.into_iter();
            problems
                .map(|problem| problem.under("spec.validation"))
                .collect()
        };
        let (mut missing, mut targets) = (Vec::new(), Vec::new());
        for (index, reference) in object.spec.target_refs.iter().enumerate() {
            let field = format!("spec.targetRefs[{index}]");
            match find(reader, namespace, reference) {
                Ok(upstream) => targets.push(BackendTlsTarget {
                    upstream,
                    section: reference.section_name.as_deref().map(Arc::from),
                    field,
                    is_closed: false,
                }),
                Err(Missing { mut problem, whole }) => {
                    if let Some(upstream) = whole {
                        problem.message += CLOSED_UNTIL_THEN;
                        targets.push(BackendTlsTarget {
                            upstream,
                            section: None,
                            field: field.clone(),
                            is_closed: true,
                        });
                    }
                    missing.push(problem.under(field));
                }
            }
        }
        if object.spec.target_refs.is_empty() {
            targets.push(BackendTlsTarget {
                upstream: Upstream::everything_in(namespace),
                section: None,
                field: "spec.targetRefs".to_owned(),
                is_closed: false,
            });
        }
        Self {
            created: object.metadata.created(),
            tls: Arc::new(resolved.tls),
            refusals: place(resolved.refusals),
            refs: place(resolved.refs),
            expiries: resolved.expiries.under("spec.validation"),
            missing,
            targets,
        }
    }
}

/// Why a policy does not apply to a target.
pub(crate) fn conflicted(winner: &ObjectName, field: &str) -> Problem {
    let message = format!(
        "the older BackendTLSPolicy {winner} has the same target: remove it from one of them"
    );
    Problem::new(Reason::Conflicted, field, message)
}

impl<'a> Reader<'a> {
    /// The TLS settings of a service port. A policy of the port takes precedence over one of the
    /// service.
    pub(crate) fn tls_of_port(&self, service: &ServiceKey, port: &str) -> Option<&'a BackendTls> {
        let upstream = Upstream::Service(service.clone());
        let named = Some(port).filter(|name| !name.is_empty());
        named
            .and_then(|name| self.backend_tls(&upstream, Some(name)))
            .or_else(|| self.backend_tls(&upstream, None))
            .or_else(|| self.tls_of_everything(service.namespace()))
    }

    /// The TLS settings of a `Backend` or XBackend from a policy.
    pub(crate) fn tls_of_backend(&self, backend: &BackendKey) -> Option<&'a BackendTls> {
        let upstream = Upstream::Backend(backend.clone());
        self.backend_tls(&upstream, None)
            .or_else(|| self.tls_of_everything(backend.namespace()))
    }

    /// The TLS settings without a policy: none, unless an invalid policy may have meant the target.
    /// API servers accept no such policy.
    fn tls_of_everything(&self, namespace: &str) -> Option<&'a BackendTls> {
        self.is_machine()
            .then(|| self.backend_tls(&Upstream::everything_in(namespace), None))?
    }
}

/// Why there is no target.
struct Missing {
    problem: Problem,
    /// The object, if only the named part of it does not exist.
    whole: Option<Upstream>,
}

/// Finds an existing target.
fn find(
    reader: &Reader<'_>,
    namespace: &str,
    reference: &PolicyTargetReference,
) -> Result<Upstream, Missing> {
    let name = ObjectName::new(namespace, &reference.name);
    let section = reference.section_name.as_deref();
    let PolicyTargetReference { group, kind, .. } = reference;
    let of_kind = |kind: ObjectKind, key| {
        let found = reader.exists(kind, &name).then_some(Upstream::Backend(key));
        backend(found, (kind, &name), section)
    };
    match ObjectKind::find(group, kind) {
        Some(ObjectKind::Service) => service(reader, &name, section),
        Some(kind @ ObjectKind::Backend) => of_kind(kind, BackendKey::new(&name)),
        Some(kind @ ObjectKind::XBackend) => of_kind(kind, BackendKey::of_x_backend(&name)),
        _ => {
            let written = WrittenKind { group, kind };
            let message = format!("{written} cannot be a target: use Service, XBackend or Backend");
            Err(Missing {
                problem: Problem::new(Reason::Invalid, "kind", message),
                whole: None,
            })
        }
    }
}

fn service(
    reader: &Reader<'_>,
    name: &ObjectName,
    section: Option<&str>,
) -> Result<Upstream, Missing> {
    let Some(service) = reader.object::<Service>(name) else {
        return Err(absent(Service::KIND, name));
    };
    let upstream = Upstream::Service(ServiceKey::new(name));
    let mut ports = service.spec.ports.iter();
    match section {
        Some(section) if !ports.any(|port| port.name == section) => {
            let message = format!(
                "Service {name} has no port named `{section}`: use one that it has, or leave \
                 sectionName out"
            );
            Err(Missing {
                problem: Problem::new(Reason::TargetNotFound, "sectionName", message),
                whole: Some(upstream),
            })
        }
        _ => Ok(upstream),
    }
}

/// An object without sections, if it exists.
fn backend(
    found: Option<Upstream>,
    (kind, name): (ObjectKind, &ObjectName),
    section: Option<&str>,
) -> Result<Upstream, Missing> {
    match (found, section) {
        (Some(upstream), None) => Ok(upstream),
        (None, None) => Err(absent(kind, name)),
        (whole, Some(_)) => {
            let message = format!("kind `{kind}` has no sections: leave sectionName out");
            Err(Missing {
                problem: Problem::new(Reason::Invalid, "sectionName", message),
                whole,
            })
        }
    }
}

fn absent(kind: ObjectKind, name: &ObjectName) -> Missing {
    let message = format!("{kind} {name} does not exist: create it");
    Missing {
        problem: Problem::new(Reason::TargetNotFound, "name", message),
        whole: None,
    }
}

/// What happens to a target of which a part is named that does not exist.
const CLOSED_UNTIL_THEN: &str = "; until then requests to it get status 503 (upstream_tls_unset), \
                                 unless another BackendTLSPolicy applies";
