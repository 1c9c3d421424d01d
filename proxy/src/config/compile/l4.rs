//! Compiles rules for connections that are forwarded as bytes.

use xds::model::{L4Backend, L4Rule, ListenerKey, Route, Transport};

use super::policy::{RequestSettings, parts};
use super::rule::{RuleCompiler, policy_name};
use crate::config::{self, Draw};
use crate::names::Interned;

impl RuleCompiler<'_> {
    /// A rule at a listener, where it has this id.
    pub(super) fn l4_rule(
        &mut self,
        route: &Route,
        listener: &ListenerKey,
        id: Interned,
        rule: &L4Rule,
    ) -> config::L4Rule {
        let settings = self.settings;
        let weights: Vec<u32> = rule.backends.iter().map(|backend| backend.weight).collect();
        let transport = route.rule.transport();
        let networks = self.networks_of(settings);
        config::L4Rule {
            id,
            name: parts(route.key.as_str(), 4).into(),
            gateway: self.gateway.to_string().into(),
            listener: listener.as_str().into(),
            networks,
            refused_by: settings.invalid_for_connections.map(policy_name),
            draw: Draw::new(&weights),
            hashed_draw: self
                .hash
                .of_draw({ rule.backends.iter() }.map(|it| (&it.target, it.weight))),
            backends: rule
                .backends
                .iter()
                .map(|backend| self.l4_backend(backend, transport, settings))
                .collect(),
            limits: settings.bounded_limits(),
            access_log: settings.access_log_in_force().clone(),
        }
    }

    fn l4_backend(
        &mut self,
        backend: &L4Backend,
        transport: Transport,
        settings: &RequestSettings<'_>,
    ) -> config::L4Backend {
        let cluster = self.cluster(&backend.target, transport);
        config::L4Backend {
            cluster,
            unresolved: cluster.is_err().then(|| backend.target.to_string().into()),
            connect_timeout: self
                .limits_towards(&backend.target, settings)
                .connect_timeout,
        }
    }
}
