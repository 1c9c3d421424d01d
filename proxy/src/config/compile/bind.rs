//! Binds with their listeners.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use xds::model::{
    self, Hostname, ListenerKey, ListenerProtocol, Model, NetworkPolicy, PolicySpec, Precedence,
    ProxyProtocolMode, Transport,
};

use super::enforced::Enforced;
use super::head::HeadCompiler;
use super::index::Index;
use super::listener::Listeners;
use super::policy::{ConnectionSettings, Policies, RequestSettings};
use super::{CompileOptions, address};
use crate::config::{Bind, BindProtocol, BindSettings, Chunked, HeadPolicies, Listener};
use crate::policy::client_networks::ClientNetworks;
use crate::policy::forwarded::TrustedHops;
use crate::policy::proxy_protocol::Acceptance;
use crate::route::HostIndex;

/// A compiled bind, and the positions of its listeners.
#[derive(Debug)]
pub(super) struct CompiledBind {
    pub(super) bind: Arc<Bind>,
    positions: HashMap<ListenerKey, usize>,
}

impl CompiledBind {
    /// Replaces a listener by its new form.
    pub(super) fn replace(&mut self, listener: &Arc<Listener>) {
        if let Some(at) = self.positions.get(&listener.key) {
            let mut bind = Bind::clone(&self.bind);
            bind.listeners.set(*at, Some(Arc::clone(listener)));
            self.bind = Arc::new(bind);
        }
    }
}

pub(super) struct BindCompiler<'c> {
    pub(super) model: &'c Model,
    pub(super) index: &'c Index,
    pub(super) policies: &'c Policies,
    pub(super) listeners: &'c Listeners,
    pub(super) options: &'c CompileOptions,
    pub(super) head: HeadCompiler<'c>,
}

impl<'c> BindCompiler<'c> {
    pub(super) fn compile(&mut self, bind: &model::Bind) -> CompiledBind {
        let keys = self.index.listeners_of(&bind.key);
        let listeners = keys.filter_map(|key| self.model.listeners.get(key));
        let mut listeners: Vec<&model::Listener> = listeners.map(Arc::as_ref).collect();
        listeners.sort_by_cached_key(|listener| specificity(listener));
        let settings = self.connection_settings(bind, &listeners);
        let hostnames = listeners.iter().map(|listener| listener.hostname.as_ref());
        let keys = listeners.iter().map(|listener| &listener.key);
        let compiled = keys.clone().filter_map(|key| self.listeners.compiled(key));
        let own = BindSettings {
            key: bind.key.clone(),
            transport: bind.transport,
            address: address(bind),
            opening: opening(bind, &listeners),
            gateway: bind.gateway.to_string().into(),
            limits: settings.limits,
            proxy_protocol: Acceptance::compile(settings.proxy_protocol),
            path_options: settings.path_options,
            health_path: settings.health_path.cloned(),
            trust: TrustedHops::compile(settings.trust),
            networks: self.networks_at_accept(bind, &listeners, &settings),
            head_policies: self.head_policies(bind),
            access_log: self.unclaimed_access_log(bind, &listeners),
        };
        let compiled = Bind {
            settings: Arc::new(own),
            listeners: compiled.cloned().collect::<Chunked<Listener>>(),
            hosts: Arc::new(HostIndex::build(hostnames)),
        };
        CompiledBind {
            bind: Arc::new(compiled),
            positions: keys.cloned().zip(0..).collect(),
        }
    }

    /// Connection settings of a bind, from its Gateway and the Gateway's own listeners.
    fn connection_settings(
        &self,
        bind: &model::Bind,
        listeners: &[&model::Listener],
    ) -> ConnectionSettings<'c> {
        let own = listeners.iter();
        let own = own.map(|listener| self.policies.of_own_listener(&listener.key));
        let gateway = self.policies.of_gateway(&bind.gateway);
        ConnectionSettings::of(gateway, &own.collect::<Vec<_>>())
    }

    /// The networks that are checked when a connection is accepted: those of the Gateway as a whole, which no
    /// other policy replaces, and only if nobody in front speaks for clients, and no load balancer is to be
    /// answered whatever its address. If a list is missing, requests say so.
    fn networks_at_accept(
        &mut self,
        bind: &model::Bind,
        listeners: &[&model::Listener],
        settings: &ConnectionSettings<'_>,
    ) -> Option<Arc<ClientNetworks>> {
        let is_direct = settings.trust.is_none()
            && settings
                .proxy_protocol
                .is_none_or(|it| it.mode == ProxyProtocolMode::Off);
        let has_requests = |it: &&model::Listener| {
            matches!(
                it.protocol,
                ListenerProtocol::Http | ListenerProtocol::Https(_)
            )
        };
        let is_asked = settings.health_path.is_some() && listeners.iter().any(has_requests);
        if !is_direct || is_asked || bind.transport != Transport::Tcp {
            return None;
        }
        let gateway = self.policies.of_gateway(&bind.gateway);
        let has_lists =
            |spec: &PolicySpec| matches!(spec.networks, Some(NetworkPolicy::Lists { .. }));
        let policy = gateway.policy_with(Precedence::Overrides, has_lists)?;
        let networks = policy.spec.networks.as_ref()?;
        Some(self.head.networks.of(policy, networks))
    }

    /// The head policies of the Gateway, for requests that match no listener.
    fn head_policies(&mut self, bind: &model::Bind) -> Option<Box<HeadPolicies>> {
        let mut enforced = Enforced::default();
        enforced.add(self.policies.of_gateway(&bind.gateway));
        self.head.compile(&enforced)
    }

    /// The access log of requests without a listener, by the same order.
    fn unclaimed_access_log(
        &self,
        bind: &model::Bind,
        listeners: &[&model::Listener],
    ) -> model::AccessLog {
        let gateway =
            RequestSettings::new(self.options).with(self.policies.of_gateway(&bind.gateway));
        let layers = listeners
            .iter()
            .map(|listener| self.policies.of_own_listener(&listener.key));
        let settings = layers.fold(gateway, RequestSettings::with);
        settings.access_log_in_force().clone()
    }
}

/// The protocol that a bind's connections begin with: that of any of its listeners, or else the
/// transport's.
fn opening(bind: &model::Bind, listeners: &[&model::Listener]) -> BindProtocol {
    match (listeners.first(), bind.transport) {
        (Some(listener), _) => BindProtocol::of(&listener.protocol),
        (None, Transport::Tcp) => BindProtocol::Http,
        (None, Transport::Udp) => BindProtocol::Udp,
    }
}

/// Sorts exact names before wildcards, longer wildcards before shorter ones, and every host last.
fn specificity(listener: &model::Listener) -> (bool, bool, Reverse<usize>) {
    let hostname = listener.hostname.as_ref();
    let suffix = hostname.and_then(Hostname::wildcard_suffix);
    let labels = suffix.map_or(0, |suffix| suffix.split('.').count());
    (hostname.is_none(), suffix.is_some(), Reverse(labels))
}
