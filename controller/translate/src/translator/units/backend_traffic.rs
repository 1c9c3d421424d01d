//! An XBackendTrafficPolicy, apart from its targets.

use std::sync::Arc;

use xds::model::{ObjectName, SessionPersistence};

use super::BackendTrafficTargetUnit;
use crate::api::XBackendTrafficPolicy;
use crate::reader::Fact;
use crate::resolve::backend_traffic::ResolvedBackendTraffic;
use crate::translator::claims::Age;
use crate::translator::unit::{Changes, State, Unit, UnitReader};
use crate::upstream::Upstream;

/// An XBackendTrafficPolicy by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BackendTrafficUnit(pub(crate) ObjectName);

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
    pub(super) fn backend_traffic_policy(
        &self,
        name: &ObjectName,
    ) -> Option<&'a ResolvedBackendTraffic> {
        self.depend_on(Fact::BackendTrafficPolicy(name.clone()));
        let policies = &self.tables.backend_traffic;
        policies.get(&BackendTrafficUnit(name.clone()))
    }
}
