//! The XBackendTrafficPolicy of an upstream: the oldest.

use std::sync::Arc;

use xds::model::{ObjectName, SessionPersistence};

use crate::backend::upstream::Upstream;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::units::BackendTrafficTargetUnit;

impl Unit for BackendTrafficTargetUnit {
    /// The policy and its session persistence.
    type Output = (ObjectName, Option<Arc<SessionPersistence>>);

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let claims = reader.claims.backend_traffic.at(&self.0)?;
        let ((_, winner), session) = claims.first_key_value()?;
        Some((winner.clone(), session.clone()))
    }

    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let name = |output: Option<&Self::Output>| output.map(|(name, _)| name.clone());
        if name(old) != name(new) {
            changes.fact(Fact::BackendTraffic(self.0.clone()));
        }
        let session = |output: Option<&Self::Output>| output.and_then(|(_, it)| it.clone());
        let (before, after) = (session(old), session(new));
        if before == after {
            return;
        }
        match after {
            Some(session) => changes.objects.sessions.insert(self.0.clone(), session),
            None => changes.objects.sessions.remove(&self.0),
        };
        changes.fact(Fact::Session(self.0.clone()));
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.backend_traffic.at(&self.0).is_some()
    }
}

impl<'a> UnitReader<'a> {
    /// The policy of an upstream.
    pub(crate) fn backend_traffic_winner(&self, upstream: &Upstream) -> Option<&'a ObjectName> {
        self.depend_on(Fact::BackendTraffic(upstream.clone()));
        let unit = BackendTrafficTargetUnit(upstream.clone());
        let winner = self.tables.get(&unit);
        winner.map(|(name, _)| name)
    }
}
