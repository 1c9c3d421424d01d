//! Compiles rules for connections that are forwarded as bytes.

use xds::model::{L4Backend, L4Rule, Route, Transport};

use super::policy::parts;
use super::rule::RuleCompiler;
use crate::config::{self, Draw};

impl RuleCompiler<'_> {
    pub(super) fn l4_rule(&mut self, route: &Route, rule: &L4Rule) -> config::L4Rule {
        let settings = self.settings_of(route);
        let weights: Vec<u32> = rule.backends.iter().map(|backend| backend.weight).collect();
        let transport = route.rule.transport();
        config::L4Rule {
            id: self.ids.rules.acquire(&route.key),
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
        backend: &L4Backend,
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
