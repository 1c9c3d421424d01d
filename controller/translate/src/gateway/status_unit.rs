//! The status of a Gateway, and its infrastructure.

use super::api::Gateway;
use super::infrastructure::Infrastructure;
use super::properties::GatewayProperties;
use super::status::{GatewayStatus, GatewaySummary};
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner::Owner;
use crate::policy::status::left_out_of;
use crate::status::Status;
use crate::status::problem::Problem;
use crate::units::GatewayStatusUnit;

/// The status and infrastructure of a Gateway.
#[derive(Debug, PartialEq)]
pub(crate) struct StatusOfGateway {
    status: GatewayStatus,
    infrastructure: Option<Infrastructure>,
}

impl Unit for GatewayStatusUnit {
    type Output = StatusOfGateway;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<StatusOfGateway> {
        let object = reader.object::<Gateway>(&self.0)?;
        let Some(properties) = reader.properties(&self.0) else {
            // On one machine, also Gateways of other classes: nothing else would report them.
            let classes = &reader.options().classes;
            return reader.is_machine().then(|| StatusOfGateway {
                status: GatewayStatus::of_foreign(object, classes),
                infrastructure: None,
            });
        };
        let owner = Owner::Gateway(self.0.clone());
        let listeners = reader.resolved(&self.0, &owner);
        let overall = self.overall(reader, properties);
        let deployed = !reader.is_machine() && properties.is_carried;
        Some(StatusOfGateway {
            status: GatewayStatus::of(object, properties, &listeners, &overall),
            infrastructure: deployed.then(|| Infrastructure::of(&self.0, &object.spec)),
        })
    }

    fn publish(
        &self,
        old: Option<&StatusOfGateway>,
        new: Option<&StatusOfGateway>,
        changes: &mut Changes<'_>,
    ) {
        let status = |it: Option<&StatusOfGateway>| it.map(|it| it.status.clone());
        if status(old) != status(new) {
            let object = ObjectRef::of::<Gateway>(&self.0);
            changes.status(object, status(new).map(Status::Gateway));
        }
        let deployed = |it: Option<&StatusOfGateway>| it.and_then(|it| it.infrastructure.clone());
        if deployed(old) != deployed(new) {
            let infrastructure = &mut changes.outcome.infrastructure;
            infrastructure.insert(self.0.clone(), deployed(new));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.gateways.contains_key(&self.0)
    }
}

impl GatewayStatusUnit {
    /// The combined state of the listeners of the Gateway and of its ListenerSets, and of policies.
    fn overall(&self, reader: &UnitReader<'_>, properties: &GatewayProperties) -> GatewaySummary {
        let joined = reader.joined(&self.0);
        let owners = joined.map_or(&[][..], |joined| &joined.owners);
        let is_accepted = owners.iter().any(|owner| {
            let listeners = reader.listeners(owner).map_or(&[][..], |it| &it.list);
            let conflicts = reader
                .listener_conflicts(&self.0, owner)
                .unwrap_or_default();
            let mut listeners = listeners.iter().zip(conflicts);
            listeners.any(|(listener, conflicts)| listener.is_accepted(conflicts))
        });
        let is_programmed =
            is_accepted && properties.is_served() && reader.has_served_listener(&self.0);
        reader.depend_on(Fact::AttachedSets(self.0.clone()));
        let mut unusable: Vec<Problem> = Vec::new();
        if !is_programmed {
            for owner in owners {
                let problems = reader.unusable(&self.0, owner).into_iter().flatten();
                unusable.extend(problems.map(|(_, problem)| problem.clone()));
            }
        }
        GatewaySummary {
            is_accepted,
            is_programmed,
            unusable,
            attached_sets: reader.counts.sets.total(&self.0),
            over_limit: joined.map(|it| it.over_limit.clone()).unwrap_or_default(),
            left_out_of: reader.policies_without(&self.0).map(left_out_of).collect(),
        }
    }
}
