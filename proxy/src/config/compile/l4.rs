//! Rules that look at connections alone.

use std::sync::Arc;

use xds::model::{L4Backend, L4Rule, Route, RouteRule, Transport};

use super::policy::parts;
use super::rule::RuleCompiler;
use crate::config;
use crate::upstream::balance::Draw;

/// A route whose rule is of connections, and that rule.
#[derive(Clone, Copy)]
pub(super) struct L4Route<'a> {
    route: &'a Route,
    rule: &'a L4Rule,
}

impl<'a> L4Route<'a> {
    /// It, where it is one.
    pub(super) fn of(route: &'a Route) -> Option<Self> {
        match &route.rule {
            RouteRule::Tls(rule) | RouteRule::Tcp(rule) | RouteRule::Udp(rule) => {
                Some(Self { route, rule })
            }
            RouteRule::Http(_) => None,
        }
    }
}

impl<'a> RuleCompiler<'a, '_> {
    /// The rules of a listener: those chosen by server name go before those for all connections,
    /// and of equal ones the first by order.
    pub(super) fn l4(&mut self, routes: &[L4Route<'a>]) -> config::L4Routes {
        let mut routes = routes.to_vec();
        routes.sort_by_key(|it| (!matches!(it.route.rule, RouteRule::Tls(_)), &it.route.order));
        let mut named = Vec::new();
        for L4Route { route, rule } in routes {
            let compiled = Arc::new(self.l4_rule(route, rule));
            if route.hostnames.is_empty() {
                named.push((None, compiled));
                continue;
            }
            let names = route.hostnames.iter().map(Some);
            named.extend(names.map(|name| (name, Arc::clone(&compiled))));
        }
        config::L4Routes::new(named)
    }

    fn l4_rule(&mut self, route: &'a Route, rule: &'a L4Rule) -> config::L4Rule {
        let settings = self.settings_of(route);
        let weights: Vec<u32> = rule.backends.iter().map(|backend| backend.weight).collect();
        let transport = route.rule.transport();
        config::L4Rule {
            id: self.ids.rules.intern(&route.key),
            name: parts(route.key.as_str(), 4).into(),
            gateway: self.gateway.to_string().into(),
            listener: route.listener.as_str().into(),
            draw: Draw::new(&weights),
            backends: rule
                .backends
                .iter()
                .map(|backend| self.l4_backend(backend, transport, &settings.limits))
                .collect(),
            limits: settings.limits,
            access_log: settings.access_log,
        }
    }

    fn l4_backend(
        &mut self,
        backend: &'a L4Backend,
        transport: Transport,
        limits: &crate::limits::Limits,
    ) -> config::L4Backend {
        let cluster = self.cluster(&backend.target, transport);
        config::L4Backend {
            cluster,
            unresolved: cluster.is_err().then(|| backend.target.to_string().into()),
            connect_timeout: self.limits_towards(&backend.target, limits).connect_timeout,
        }
    }
}
