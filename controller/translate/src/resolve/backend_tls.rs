//! BackendTLSPolicy objects: what each asks of whom, and which one wins a target.

use std::collections::HashMap;

use jiff::Timestamp;
use xds::model::{BackendKey, BackendTls, ObjectName, ServiceKey};

use super::{World, backend_validation};
use crate::api::{Backend, BackendTlsPolicy, PolicyTargetReference, Resource as _, Service};
use crate::expiry::Expiries;
use crate::problem::Problem;
use crate::status::Reason;

/// All policies, and who won which target.
#[derive(Default)]
pub(crate) struct BackendTlsPolicies<'a> {
    /// The oldest first.
    pub(crate) list: Vec<ResolvedBackendTls<'a>>,
    /// The winner of each target and section, by its place in the list.
    winners: HashMap<(String, Option<&'a str>), usize>,
}

/// A policy, and what is wrong with it.
pub(crate) struct ResolvedBackendTls<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) object: &'a BackendTlsPolicy,
    pub(crate) tls: BackendTls,
    /// Why it is refused.
    pub(crate) refusals: Vec<Problem>,
    /// References that lead nowhere.
    pub(crate) refs: Vec<Problem>,
    /// Which certificates of those who vouch have expired.
    pub(crate) expiries: Expiries,
    /// Targets that are not there.
    pub(crate) missing: Vec<Problem>,
    /// The keys of those that are.
    pub(crate) targets: Vec<String>,
}

impl<'a> BackendTlsPolicies<'a> {
    pub(crate) fn of(world: &World<'a>) -> Self {
        let mut by_age: Vec<_> = world.store.backend_tls_policies.iter().collect();
        by_age.sort_by_key(|(name, object)| (object.metadata.created(), *name));
        let mut policies = Self::default();
        for (name, object) in by_age {
            let mut policy = resolve(world, name, object);
            for (index, reference) in object.spec.target_refs.iter().enumerate() {
                let field = format!("spec.targetRefs[{index}]");
                match find(world, &name.namespace, reference) {
                    Ok(key) => policies.claim(&mut policy, key, reference, &field),
                    Err(problem) => policy.missing.push(problem.under(field)),
                }
            }
            policies.list.push(policy);
        }
        policies
    }

    fn claim(
        &mut self,
        policy: &mut ResolvedBackendTls<'a>,
        key: String,
        reference: &'a PolicyTargetReference,
        field: &str,
    ) {
        let section = reference.section_name.as_deref();
        let own = self.list.len();
        let winner = *self.winners.entry((key.clone(), section)).or_insert(own);
        if let Some(winner) = self.list.get(winner) {
            let message = format!(
                "the older BackendTLSPolicy {} has the same target: remove it from one of them",
                winner.name
            );
            policy
                .refusals
                .push(Problem::new(Reason::Conflicted, field, message));
        }
        policy.targets.push(key);
    }

    /// When the first certificate of those who vouch expires that has not done so.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        let policies = self.list.iter();
        policies.filter_map(|policy| policy.expiries.next).min()
    }

    /// What is asked of a port of a service. A policy of the port wins over one of the service.
    pub(crate) fn of_port(&self, service: &ServiceKey, port: &str) -> Option<&BackendTls> {
        let named = Some(port).filter(|name| !name.is_empty());
        named
            .and_then(|name| self.winner(service.as_str(), Some(name)))
            .or_else(|| self.winner(service.as_str(), None))
    }

    /// What is asked of a `Backend`.
    pub(crate) fn of_backend(&self, backend: &BackendKey) -> Option<&BackendTls> {
        self.winner(backend.as_str(), None)
    }

    fn winner(&self, key: &str, section: Option<&str>) -> Option<&BackendTls> {
        if self.winners.is_empty() {
            return None;
        }
        let winner = self.winners.get(&(key.to_owned(), section))?;
        self.list.get(*winner).map(|policy| &policy.tls)
    }
}

/// The key of a target that is there.
fn find(
    world: &World<'_>,
    namespace: &str,
    reference: &PolicyTargetReference,
) -> Result<String, Problem> {
    let name = ObjectName::new(namespace, &reference.name);
    let missing =
        |field: &str, message: String| Err(Problem::new(Reason::TargetNotFound, field, message));
    let section = reference.section_name.as_deref();
    match (&*reference.group, &*reference.kind) {
        (Service::GROUP, Service::KIND) => {
            let Some(service) = world.store.services.get(&name) else {
                return missing("name", format!("Service {name} does not exist: create it"));
            };
            let mut ports = service.spec.ports.iter();
            match section {
                Some(section) if !ports.any(|port| port.name == section) => {
                    let message = format!(
                        "Service {name} has no port named `{section}`: use one that it has, or \
                         leave sectionName out"
                    );
                    missing("sectionName", message)
                }
                _ => Ok(ServiceKey::new(&name).to_string()),
            }
        }
        (Backend::GROUP, Backend::KIND) if section.is_some() => {
            let message = "a Backend has no sections: leave it out";
            Err(Problem::new(Reason::Invalid, "sectionName", message))
        }
        (Backend::GROUP, Backend::KIND) => {
            if world.store.backends.contains_key(&name) {
                Ok(BackendKey::new(&name).to_string())
            } else {
                missing("name", format!("Backend {name} does not exist: create it"))
            }
        }
        (group, kind) => {
            let message =
                format!("kind `{kind}` of group `{group}` is no target: use Service or Backend");
            Err(Problem::new(Reason::Invalid, "kind", message))
        }
    }
}

fn resolve<'a>(
    world: &World<'_>,
    name: &'a ObjectName,
    object: &'a BackendTlsPolicy,
) -> ResolvedBackendTls<'a> {
    let validation = &object.spec.validation;
    let judged = backend_validation::judge::<BackendTlsPolicy>(world, &name.namespace, validation);
    let place = |problems: Vec<Problem>| {
        let problems = problems.into_iter();
        problems
            .map(|problem| problem.under("spec.validation"))
            .collect()
    };
    ResolvedBackendTls {
        name,
        object,
        tls: judged.tls,
        refusals: place(judged.refusals),
        refs: place(judged.refs),
        expiries: judged.expiries.under("spec.validation"),
        missing: Vec::new(),
        targets: Vec::new(),
    }
}
