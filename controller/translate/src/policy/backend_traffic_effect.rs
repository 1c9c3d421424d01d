//! An XBackendTrafficPolicy at its targets: the carried settings, and its status.

use xds::model::{ObjectName, Policy, PolicyKey, PolicySpec};

use super::ancestors::without;
use super::api::XBackendTrafficPolicy;
use super::backend_traffic::{conflicted, policy_target};
use super::backend_traffic_status;
use super::precedence::target_key;
use super::status::PolicyStatus;
use crate::engine::emitted::Emitted;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::api::Resource as _;
use crate::objects::object_ref::ObjectRef;
use crate::status::Status;
use crate::units::BackendTrafficEffectUnit;

/// A policy for proxies, and its status.
#[derive(Debug, PartialEq)]
pub(crate) struct BackendTrafficEffect {
    emitted: Emitted,
    status: Option<PolicyStatus>,
    /// The Gateways that it does not apply to, for lack of room in its status.
    left_out: Box<[ObjectName]>,
}

impl Unit for BackendTrafficEffectUnit {
    type Output = BackendTrafficEffect;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<BackendTrafficEffect> {
        let object = reader.object::<XBackendTrafficPolicy>(&self.0)?;
        let policy = reader.backend_traffic_policy(&self.0)?;
        let mut refusals = policy.refusals.clone();
        let (mut resources, mut won) = (Vec::new(), Vec::new());
        let targets = policy.targets.iter().map(|target| &target.upstream);
        let ancestors = reader.ancestors(reader.all_users(targets), &object.status);
        for target in &policy.targets {
            let users = without(&ancestors.left_out, reader.users(&target.upstream));
            match reader.backend_traffic_winner(&target.upstream) {
                Some(winner) if *winner == self.0 => won.push(&target.upstream),
                // A rejected policy competes for no target.
                Some(winner) if policy.refusals.is_empty() => {
                    refusals.push(conflicted(winner, target.index));
                    continue;
                }
                _ => continue,
            }
            if let Some(constraint) = policy.constraint.filter(|_| !users.is_empty()) {
                let target = policy_target(&target.upstream);
                let policy = Policy {
                    key: PolicyKey::new(
                        XBackendTrafficPolicy::KIND.name(),
                        &self.0,
                        &target_key(&target),
                    ),
                    target,
                    spec: PolicySpec {
                        retry_constraint: Some(constraint),
                        ..PolicySpec::default()
                    },
                };
                resources.push((policy.into(), users));
            }
        }
        let name_and_object = (&self.0, &**object);
        let missing = (&*policy.missing, ancestors.spare);
        Some(BackendTrafficEffect {
            emitted: Emitted::new(resources),
            left_out: ancestors.left_out.among(&reader.all_users(won.into_iter())),
            status: backend_traffic_status::status(
                reader,
                name_and_object,
                missing,
                &refusals,
                (&ancestors.listed, &ancestors.left_out),
            ),
        })
    }

    fn publish(
        &self,
        old: Option<&BackendTrafficEffect>,
        new: Option<&BackendTrafficEffect>,
        changes: &mut Changes<'_>,
    ) {
        let emitted = |it: Option<&BackendTrafficEffect>| it.map(|it| it.emitted.clone());
        let (before, after) = (emitted(old), emitted(new));
        Emitted::publish(before.as_ref(), after.as_ref(), changes.outcome);
        let object = ObjectRef::of::<XBackendTrafficPolicy>(&self.0);
        let left_out = |it: Option<&BackendTrafficEffect>| it.map(|it| it.left_out.clone());
        let (before, after) = (left_out(old), left_out(new));
        changes.left_out(
            &object,
            &before.unwrap_or_default(),
            &after.unwrap_or_default(),
        );
        let status = |it: Option<&BackendTrafficEffect>| it.and_then(|it| it.status.clone());
        if status(old) != status(new) {
            changes.status(object, status(new).map(Status::Policy));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.x_backend_traffic_policies;
        policies.contains_key(&self.0)
    }
}
