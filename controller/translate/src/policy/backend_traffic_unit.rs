//! An XBackendTrafficPolicy, apart from its targets.

use std::sync::Arc;

use xds::model::{ObjectName, SessionPersistence};

use super::api::XBackendTrafficPolicy;
use super::backend_traffic::ResolvedBackendTraffic;
use crate::backend::upstream::Upstream;
use crate::engine::claims::Age;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::units::{BackendTrafficTargetUnit, BackendTrafficUnit};

impl Unit for BackendTrafficUnit {
    type Output = ResolvedBackendTraffic;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<ResolvedBackendTraffic> {
        let object = reader.object::<XBackendTrafficPolicy>(&self.0)?;
        let resolved = ResolvedBackendTraffic::resolve(reader, &self.0, object);
        Some(resolved)
    }

    fn publish(
        &self,
        old: Option<&ResolvedBackendTraffic>,
        new: Option<&ResolvedBackendTraffic>,
        changes: &mut Changes<'_>,
    ) {
        let claims = |output| claims(&self.0, output);
        let table = &mut changes.claims.backend_traffic;
        let changed = table.replace(claims(old), claims(new));
        for upstream in changed {
            changes.run(BackendTrafficTargetUnit(upstream));
        }
        changes.fact(Fact::BackendTrafficPolicy(self.0.clone()));
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.x_backend_traffic_policies;
        policies.contains_key(&self.0)
    }
}

type Claim = (Upstream, Age, Option<Arc<SessionPersistence>>);

/// A rejected policy claims nothing.
fn claims(
    name: &ObjectName,
    policy: Option<&ResolvedBackendTraffic>,
) -> impl Iterator<Item = Claim> {
    let policy = policy.filter(|policy| policy.refusals.is_empty());
    policy.into_iter().flat_map(move |policy| {
        policy.targets.iter().map(move |target| {
            let age = (policy.created, name.clone());
            (target.upstream.clone(), age, target.session.clone())
        })
    })
}

impl<'a> UnitReader<'a> {
    /// An XBackendTrafficPolicy with its targets resolved.
    pub(crate) fn backend_traffic_policy(
        &self,
        name: &ObjectName,
    ) -> Option<&'a ResolvedBackendTraffic> {
        self.depend_on(Fact::BackendTrafficPolicy(name.clone()));
        self.tables.get(&BackendTrafficUnit(name.clone()))
    }
}
