//! Binds with their listeners, and listeners with their rules.

use std::cmp::Reverse;
use std::collections::HashMap;

use xds::model::{
    self, BindKey, Hostname, HttpRule, ListenerKey, ListenerProtocol, Model, RouteRule, Transport,
};

use super::cluster::{Targets, Users};
use super::ids::Ids;
use super::jwt::Authenticators;
use super::l4::L4Route;
use super::policy::{ConnectionSettings, Policies, RequestSettings};
use super::rule::RuleCompiler;
use super::tls::TlsCompiler;
use super::{CompileOptions, address};
use crate::config::{Accepts, Bind, Carries, Listener, Opening};
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
    pub(super) jwt: &'c mut Authenticators,
    pub(super) tls: &'c mut TlsCompiler,
    pub(super) options: &'c CompileOptions,
}

impl<'a> BindCompiler<'a, '_> {
    /// The binds, by id.
    pub(super) fn compile(mut self) -> Vec<Option<Bind>> {
        let mut listeners: HashMap<&BindKey, Vec<&'a model::Listener>> = HashMap::new();
        for listener in self.model.listeners.values() {
            listeners.entry(&listener.bind).or_default().push(listener);
        }
        let mut routes: HashMap<&ListenerKey, Routes<'a>> = HashMap::new();
        for route in self.model.routes.values() {
            routes.entry(&route.listener).or_default().add(route);
        }
        let mut compiled = Vec::new();
        for bind in self.model.binds.values() {
            let id = self.ids.binds.intern(bind.transport, address(bind));
            let listeners = listeners.remove(&bind.key).unwrap_or_default();
            compiled.push((id, self.bind(bind, listeners, &routes)));
        }
        let mut binds: Vec<Option<Bind>> = Vec::new();
        binds.resize_with(self.ids.binds.count(), || None);
        for (id, bind) in compiled {
            // Whoever makes models gives an address away once; the first one would keep it.
            binds[id as usize].get_or_insert(bind);
        }
        binds
    }

    fn bind(
        &mut self,
        bind: &'a model::Bind,
        mut listeners: Vec<&'a model::Listener>,
        routes: &HashMap<&ListenerKey, Routes<'a>>,
    ) -> Bind {
        listeners.sort_by_cached_key(|listener| specificity(listener));
        let settings = self.connection_settings(bind, &listeners);
        let access_log = self.unclaimed_access_log(bind, &listeners);
        let address = address(bind);
        let hostnames = listeners.iter().map(|listener| listener.hostname.as_ref());
        let hosts = HostIndex::build(hostnames);
        let opening = opening(bind, &listeners);
        let none = Routes::default();
        let listeners = listeners
            .iter()
            .map(|listener| self.listener(listener, routes.get(&listener.key).unwrap_or(&none)));
        Bind {
            key: bind.key.clone(),
            transport: bind.transport,
            address,
            opening,
            gateway: bind.gateway.to_string().into(),
            limits: settings.limits,
            proxy_protocol: Acceptance::compile(settings.proxy_protocol),
            path_options: settings.path_options,
            trust: TrustedHops::compile(settings.trust),
            access_log,
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
        let layers = listeners
            .iter()
            .flat_map(|listener| self.policies.of_listener(&listener.key));
        layers.fold(gateway, ConnectionSettings::with)
    }

    /// The access log of what belongs to no listener, by the same order.
    fn unclaimed_access_log(
        &self,
        bind: &model::Bind,
        listeners: &[&model::Listener],
    ) -> model::AccessLog {
        let gateway =
            RequestSettings::new(self.options).with(self.policies.of_gateway(&bind.gateway));
        let layers = listeners
            .iter()
            .flat_map(|listener| self.policies.of_listener(&listener.key));
        layers.fold(gateway, RequestSettings::with).access_log
    }

    fn listener(&mut self, listener: &'a model::Listener, routes: &Routes<'a>) -> Listener {
        let [set, own] = self.policies.of_listener(&listener.key);
        let settings = RequestSettings::new(self.options)
            .with(self.policies.of_gateway(&listener.gateway))
            .with(set)
            .with(own);
        let mut rules = RuleCompiler {
            policies: self.policies,
            targets: self.targets,
            users: self.users,
            ids: self.ids,
            jwt: self.jwt,
            gateway: &listener.gateway,
            settings: &settings,
        };
        let accepts = match &listener.protocol {
            ListenerProtocol::Https(server) | ListenerProtocol::Tls(server) => {
                let tls = self.tls.listener(&listener.key, &listener.gateway, server);
                tls.map_or(Accepts::Nothing, Accepts::Tls)
            }
            _ => Accepts::Plain,
        };
        Listener {
            id: rules.ids.listeners.intern(&listener.key),
            key: listener.key.clone(),
            hostname: listener.hostname.clone(),
            carries: match listener.protocol {
                ListenerProtocol::Http | ListenerProtocol::Https(_) => Carries::Requests,
                _ => Carries::Bytes,
            },
            accepts,
            router: Router::compile(entries(&routes.http)),
            rules: routes.http.iter().map(|it| rules.compile(*it)).collect(),
            l4: rules.l4(&routes.l4),
            access_log: settings.access_log.clone(),
        }
    }
}

/// The routes of a listener, by what they look at.
#[derive(Default)]
struct Routes<'a> {
    http: Vec<HttpRoute<'a>>,
    l4: Vec<L4Route<'a>>,
}

impl<'a> Routes<'a> {
    fn add(&mut self, route: &'a model::Route) {
        if let RouteRule::Http(rule) = &route.rule {
            self.http.push(HttpRoute { route, rule });
        }
        self.l4.extend(L4Route::of(route));
    }
}

/// What the connections of a bind begin with: what any of its listeners says, and without one what
/// can be told of its transport.
fn opening(bind: &model::Bind, listeners: &[&model::Listener]) -> Opening {
    match (listeners.first(), bind.transport) {
        (Some(listener), _) => Opening::of(&listener.protocol),
        (None, Transport::Tcp) => Opening::Http,
        (None, Transport::Udp) => Opening::Udp,
    }
}

/// A route whose rule is of HTTP, and that rule.
#[derive(Clone, Copy)]
pub(super) struct HttpRoute<'a> {
    pub(super) route: &'a model::Route,
    pub(super) rule: &'a HttpRule,
}

/// Every match of every route, which goes by its position.
fn entries<'a>(routes: &[HttpRoute<'a>]) -> impl Iterator<Item = Entry<'a>> {
    (0..)
        .zip(routes)
        .flat_map(|(position, &HttpRoute { route, rule })| {
            let matches = (0..).zip(&rule.matches);
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
