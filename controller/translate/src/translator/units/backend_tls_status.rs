//! The status of a BackendTLSPolicy: one entry for each Gateway that sends to a target of it.

use xds::model::ObjectName;

use crate::api::BackendTlsPolicy;
use crate::resolve::backend_tls::conflicted;
use crate::status::{PolicyStatus, Status, backend_tls};
use crate::store::ObjectRef;
use crate::translator::unit::{Changes, State, Unit, UnitReader};

/// A BackendTLSPolicy by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BackendTlsStatusUnit(pub(crate) ObjectName);

impl Unit for BackendTlsStatusUnit {
    type Output = PolicyStatus;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<PolicyStatus> {
        let object = reader.object::<BackendTlsPolicy>(&self.0)?;
        let policy = reader.backend_tls_policy(&self.0)?;
        let mut refusals = policy.refusals.clone();
        for target in &policy.targets {
            let winner = reader.backend_tls_winner(&target.upstream, target.section.as_ref());
            let winner = winner.filter(|winner| **winner != self.0);
            refusals.extend(winner.map(|winner| conflicted(winner, &target.field)));
        }
        let targets = policy.targets.iter().map(|target| &target.upstream);
        let ancestors = reader.ancestors(targets, &object.status);
        let users = (&ancestors.listed, &ancestors.left_out);
        backend_tls::status(reader, (&self.0, object), policy, &refusals, users)
    }

    fn publish(
        &self,
        _: Option<&PolicyStatus>,
        new: Option<&PolicyStatus>,
        changes: &mut Changes<'_>,
    ) {
        let object = ObjectRef::of::<BackendTlsPolicy>(&self.0);
        changes.status(object, new.cloned().map(Status::Policy));
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.backend_tls_policies;
        policies.contains_key(&self.0)
    }
}
