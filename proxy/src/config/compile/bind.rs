//! Binds with their listeners, and listeners with their rules.

use std::cmp::Reverse;
use std::collections::HashMap;

use xds::model::{self, BindKey, Hostname, ListenerKey, Model, Transport};

use super::cluster::{Targets, Users};
use super::ids::Ids;
use super::policy::{ConnectionSettings, Policies, RequestSettings};
use super::rule::RuleCompiler;
use super::{CompileOptions, address};
use crate::config::{Bind, Listener};
use crate::policy::forwarded::TrustedHops;
use crate::policy::proxy_protocol::Acceptance;
use crate::route::{Entry, HostIndex, Router};

/// Compiles all binds of a model.
pub(super) struct BindCompiler<'a, 'c> {
    pub(super) model: &'a Model,
    pub(super) policies: &'c Policies<'a>,
    pub(super) targets: &'c Targets<'a>,
    pub(super) users: &'c mut Users<'a>,
    pub(super) ids: &'c mut Ids,
    pub(super) options: &'c CompileOptions,
}

impl<'a> BindCompiler<'a, '_> {
    /// The binds, by id.
    pub(super) fn compile(mut self) -> Vec<Option<Bind>> {
        let mut listeners: HashMap<&BindKey, Vec<&'a model::Listener>> = HashMap::new();
        for listener in self.model.listeners.values() {
            listeners.entry(&listener.bind).or_default().push(listener);
        }
        let mut routes: HashMap<&ListenerKey, Vec<&'a model::Route>> = HashMap::new();
        for route in self.model.routes.values() {
            routes.entry(&route.listener).or_default().push(route);
        }
        let mut compiled = Vec::new();
        let all = self.model.binds.values();
        for bind in all.filter(|bind| bind.transport == Transport::Tcp) {
            let id = self.ids.binds.intern(&bind.key, address(bind));
            let listeners = listeners.remove(&bind.key).unwrap_or_default();
            compiled.push((id, self.bind(bind, listeners, &routes)));
        }
        let mut binds: Vec<Option<Bind>> = Vec::new();
        binds.resize_with(self.ids.binds.count(), || None);
        for (id, bind) in compiled {
            binds[id as usize] = Some(bind);
        }
        binds
    }

    fn bind(
        &mut self,
        bind: &'a model::Bind,
        mut listeners: Vec<&'a model::Listener>,
        routes: &HashMap<&ListenerKey, Vec<&'a model::Route>>,
    ) -> Bind {
        listeners.sort_by_cached_key(|listener| specificity(listener));
        let settings = self.connection_settings(bind, &listeners);
        let gateway =
            RequestSettings::new(self.options).with(self.policies.of_gateway(&bind.gateway));
        let address = address(bind);
        let hostnames = listeners.iter().map(|listener| listener.hostname.as_ref());
        let hosts = HostIndex::build(hostnames);
        let listeners = listeners.iter().map(|listener| {
            let routes = routes.get(&listener.key).map_or(&[][..], Vec::as_slice);
            self.listener(listener, routes)
        });
        Bind {
            key: bind.key.clone(),
            address,
            gateway: bind.gateway.to_string().into(),
            limits: settings.limits,
            proxy_protocol: Acceptance::compile(settings.proxy_protocol),
            path_options: settings.path_options,
            trust: TrustedHops::compile(settings.trust),
            access_log: gateway.access_log,
            listeners: listeners.collect(),
            hosts,
        }
    }

    /// Of two listeners of a bind that say different things of its connections, the less specific
    /// one has the say: it is where everything unknown goes.
    fn connection_settings(
        &self,
        bind: &'a model::Bind,
        listeners: &[&'a model::Listener],
    ) -> ConnectionSettings<'a> {
        let gateway = ConnectionSettings::default().with(self.policies.of_gateway(&bind.gateway));
        listeners.iter().fold(gateway, |settings, listener| {
            settings.with(self.policies.of_listener(&listener.key))
        })
    }

    fn listener(&mut self, listener: &'a model::Listener, routes: &[&'a model::Route]) -> Listener {
        let settings = RequestSettings::new(self.options)
            .with(self.policies.of_gateway(&listener.gateway))
            .with(self.policies.of_listener(&listener.key));
        let mut rules = RuleCompiler {
            policies: self.policies,
            targets: self.targets,
            users: self.users,
            ids: self.ids,
            gateway: &listener.gateway,
            settings: &settings,
        };
        Listener {
            id: rules.ids.listeners.intern(&listener.key),
            key: listener.key.clone(),
            hostname: listener.hostname.clone(),
            router: Router::compile(entries(routes)),
            rules: routes.iter().map(|route| rules.compile(route)).collect(),
            access_log: settings.access_log.clone(),
        }
    }
}

/// Every match of every route, which goes by its position.
fn entries<'a>(routes: &[&'a model::Route]) -> impl Iterator<Item = Entry<'a>> {
    (0..).zip(routes).flat_map(|(position, route)| {
        let matches = (0..).zip(&route.rule.matches);
        matches.map(move |(match_index, matches)| Entry {
            hostnames: &route.hostnames,
            matches,
            order: &route.order,
            match_index,
            route: position,
        })
    })
}

/// Sorts exact names before wildcards, longer wildcards before shorter ones, and every host last.
fn specificity(listener: &model::Listener) -> (bool, bool, Reverse<usize>) {
    let hostname = listener.hostname.as_ref();
    let suffix = hostname.and_then(Hostname::wildcard_suffix);
    let labels = suffix.map_or(0, |suffix| suffix.split('.').count());
    (hostname.is_none(), suffix.is_some(), Reverse(labels))
}
