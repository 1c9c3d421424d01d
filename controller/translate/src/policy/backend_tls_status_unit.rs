//! The status of a BackendTLSPolicy: one entry for each Gateway that sends to a target of it.

use xds::model::ObjectName;

use super::api::BackendTlsPolicy;
use super::backend_tls::conflicted;
use super::backend_tls_status;
use super::status::PolicyStatus;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::status::Status;
use crate::units::BackendTlsStatusUnit;

/// The status of a BackendTLSPolicy.
#[derive(Debug, PartialEq)]
pub(crate) struct BackendTlsStatus {
    status: Option<PolicyStatus>,
    /// The Gateways that cannot reach its targets, for lack of room in the status.
    left_out: Box<[ObjectName]>,
}

impl Unit for BackendTlsStatusUnit {
    type Output = BackendTlsStatus;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<BackendTlsStatus> {
        let object = reader.object::<BackendTlsPolicy>(&self.0)?;
        let policy = reader.backend_tls_policy(&self.0)?;
        let mut refusals = policy.refusals.clone();
        let mut won = Vec::new();
        for target in &policy.targets {
            match reader.backend_tls_winner(&target.upstream, target.section.as_ref()) {
                Some(winner) if *winner == self.0 => won.push(&target.upstream),
                Some(_) if target.is_closed => {}
                Some(winner) => refusals.push(conflicted(winner, &target.field)),
                None => {}
            }
        }
        let targets = policy.targets.iter().map(|target| &target.upstream);
        let ancestors = reader.ancestors(reader.all_tls_users(targets), &object.status);
        let users = (&ancestors.listed, &ancestors.left_out);
        Some(BackendTlsStatus {
            status: backend_tls_status::status(reader, (&self.0, object), policy, &refusals, users),
            left_out: ancestors
                .left_out
                .among(&reader.all_tls_users(won.into_iter())),
        })
    }

    fn publish(
        &self,
        old: Option<&BackendTlsStatus>,
        new: Option<&BackendTlsStatus>,
        changes: &mut Changes<'_>,
    ) {
        let object = ObjectRef::of::<BackendTlsPolicy>(&self.0);
        let left_out = |it: Option<&'_ BackendTlsStatus>| it.map(|it| it.left_out.clone());
        let (before, after) = (left_out(old), left_out(new));
        changes.left_out(
            &object,
            &before.unwrap_or_default(),
            &after.unwrap_or_default(),
        );
        let status = |it: Option<&BackendTlsStatus>| it.and_then(|it| it.status.clone());
        if status(old) != status(new) {
            changes.status(object, status(new).map(Status::Policy));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.backend_tls_policies;
        policies.contains_key(&self.0)
    }
}
