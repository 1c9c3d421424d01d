//! The rules of a route with session persistence of `XBackendTrafficPolicies`: none at Gateways that a
//! policy's status has no room for.

use xds::model::{ObjectName, SessionPersistence};

use super::rule_backends;
use crate::backend::upstream::Upstream;
use crate::engine::emitted::Emitted;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::policy::api::XBackendTrafficPolicy;
use crate::units::RouteSessionsUnit;

impl Unit for RouteSessionsUnit {
    type Output = Emitted;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Emitted> {
        let rules = reader.rules_with_sessions(&self.0);
        if rules.is_empty() {
            return None;
        }
        let resources = rules.iter().map(|(rule, gateway)| {
            let rule = rule_backends::with_sessions(rule, |upstream| {
                reader.session_at(upstream, gateway).cloned()
            });
            (rule.into(), [gateway.clone()].into())
        });
        Some(Emitted::new(resources.collect()))
    }

    fn publish(&self, old: Option<&Emitted>, new: Option<&Emitted>, changes: &mut Changes<'_>) {
        Emitted::publish(old, new, changes.outcome);
    }

    fn is_alive(&self, state: &State) -> bool {
        state.has_sessions(&self.0)
    }
}

impl<'a> UnitReader<'a> {
    /// The session persistence of an upstream by a policy that applies to this Gateway.
    fn session_at(
        &self,
        upstream: &Upstream,
        gateway: &ObjectName,
    ) -> Option<&'a SessionPersistence> {
        let session = self.session(upstream)?;
        let policy = self.backend_traffic_winner(upstream)?;
        let policy = ObjectRef::of::<XBackendTrafficPolicy>(policy);
        let mut left_out_of = self.policies_without(gateway);
        let is_left_out = left_out_of.any(|it| *it == policy);
        (!is_left_out).then_some(session)
    }
}
