//! References to missing resources.
//!
//! Resources arrive one by one, so a child may arrive before its parent, which is not an error. The
//! proxy logs the result of [`Model::dangling`] once a change is complete.

use std::fmt;

use super::{
    BackendKey, BindKey, Kind, ListenerKey, Model, PolicyTarget, ServiceKey, Target, Transport,
};

/// A resource that refers to another which is not in the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dangling {
    /// Kind of the referring resource.
    pub kind: Kind,
    /// Key of the referring resource.
    pub key: String,
    /// The resource that it refers to.
    pub missing: Missing,
}

/// A resource that is referred to but missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// A listener's bind is missing.
    Bind(BindKey),
    /// A route's or policy's listener is missing.
    Listener(ListenerKey),
    /// A target service is missing.
    Service(ServiceKey),
    /// A port of an existing service is missing.
    Port(ServiceKey, Transport, u16),
    /// A target backend is missing.
    Backend(BackendKey),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(key) => write!(f, "bind `{key}`"),
            Self::Listener(key) => write!(f, "listener `{key}`"),
            Self::Service(key) => write!(f, "service `{key}`"),
            Self::Port(key, transport, port) => {
                write!(f, "{} port {port} of service `{key}`", transport.as_str())
            }
            Self::Backend(key) => write!(f, "backend `{key}`"),
        }
    }
}

impl fmt::Display for Dangling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, key, missing } = self;
        write!(
            f,
            "{kind} `{key}` refers to the {missing}, which does not exist"
        )
    }
}

impl Model {
    /// All references to missing resources, each once, by kind and key of the referring resource.
    #[must_use]
    pub fn dangling(&self) -> Vec<Dangling> {
        let listeners = self.listeners.values().map(|listener| {
            let servers = listener.external_auth.iter();
            let servers = servers.filter_map(|it| self.missing_target(&it.target, Transport::Tcp));
            let missing = self.missing_bind(&listener.bind).into_iter();
            found(
                Kind::Listener,
                listener.key.as_str(),
                missing.chain(servers),
            )
        });
        let workloads = self.workloads.values().map(|workload| {
            let missing = workload.serves.iter().filter_map(|serves| {
                self.missing_service(&serves.service, serves.transport, serves.port.get())
            });
            found(Kind::Workload, workload.key.as_str(), missing)
        });
        let routes = self.routes.values().map(|route| {
            let transport = route.rule.transport();
            let targets = route.rule.targets();
            let targets = targets.filter_map(|target| self.missing_target(target, transport));
            let listeners = route.attachments.iter();
            let missing = listeners.filter_map(|it| self.missing_listener(&it.listener));
            found(Kind::Route, route.key.as_str(), missing.chain(targets))
        });
        let policies = self.policies.values().map(|policy| {
            let named = policy.spec.named_backends();
            let named = named.filter_map(|target| self.missing_target(target, Transport::Tcp));
            let missing = self.missing_policy_target(&policy.target).into_iter();
            found(Kind::Policy, policy.key.as_str(), missing.chain(named))
        });
        listeners
            .chain(workloads)
            .chain(routes)
            .chain(policies)
            .flatten()
            .collect()
    }

    fn missing_bind(&self, key: &BindKey) -> Option<Missing> {
        (!self.binds.contains_key(key)).then(|| Missing::Bind(key.clone()))
    }

    fn missing_listener(&self, key: &ListenerKey) -> Option<Missing> {
        (!self.listeners.contains_key(key)).then(|| Missing::Listener(key.clone()))
    }

    fn missing_backend(&self, key: &BackendKey) -> Option<Missing> {
        (!self.backends.contains_key(key)).then(|| Missing::Backend(key.clone()))
    }

    fn missing_service(
        &self,
        key: &ServiceKey,
        transport: Transport,
        number: u16,
    ) -> Option<Missing> {
        let Some(service) = self.services.get(key) else {
            return Some(Missing::Service(key.clone()));
        };
        let mut ports = service.ports.iter();
        let known = ports.any(|it| it.port.get() == number && it.transport == transport);
        (!known).then(|| Missing::Port(key.clone(), transport, number))
    }

    fn missing_target(&self, target: &Target, transport: Transport) -> Option<Missing> {
        match target {
            Target::Service { service, port } => self.missing_service(service, transport, *port),
            Target::Backend(key) => self.missing_backend(key),
            // Known not to resolve, and reported in the route's status.
            Target::Invalid { .. } => None,
        }
    }

    fn missing_policy_target(&self, target: &PolicyTarget) -> Option<Missing> {
        match target {
            PolicyTarget::Listener(key) => self.missing_listener(key),
            PolicyTarget::Service(key) if !self.services.contains_key(key) => {
                Some(Missing::Service(key.clone()))
            }
            PolicyTarget::Backend(key) => self.missing_backend(key),
            // Objects, of which the model holds only parts.
            PolicyTarget::Service(_)
            | PolicyTarget::Gateway(_)
            | PolicyTarget::ListenerSet(_)
            | PolicyTarget::Route { .. }
            | PolicyTarget::Rule { .. } => None,
        }
    }
}

/// Lists a target once if several backends of a rule refer to it.
fn found(kind: Kind, key: &str, missing: impl IntoIterator<Item = Missing>) -> Vec<Dangling> {
    let mut missing: Vec<Missing> = missing.into_iter().collect();
    missing.sort();
    missing.dedup();
    let dangling = |missing| Dangling {
        kind,
        key: key.to_owned(),
        missing,
    };
    missing.into_iter().map(dangling).collect()
}

#[cfg(test)]
mod tests;
