//! An XBackend in use, and the statuses of all.

use std::sync::Arc;

use xds::model::{
    BackendKey, Certificate, ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget,
};

use super::api::XBackend;
use super::upstream::Upstream;
use super::x_backend;
use crate::budgets::room::NO_ROOM;
use crate::budgets::rooms::HolderKind;
use crate::engine::emitted::Emitted;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::api::Resource as _;
use crate::objects::object_ref::ObjectRef;
use crate::policy::ancestors::without;
use crate::policy::precedence::target_key;
use crate::policy::status::PolicyStatus;
use crate::status::Status;
use crate::units::XBackendUnit;

/// The resources and the status of an XBackend.
#[derive(Debug, PartialEq)]
pub(crate) struct UsedXBackend {
    emitted: Emitted,
    status: PolicyStatus,
}

impl Unit for XBackendUnit {
    type Output = UsedXBackend;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<UsedXBackend> {
        let upstream = Upstream::Backend(BackendKey::of_x_backend(&self.0));
        let users = reader.users(&upstream);
        if users.is_empty() {
            return None;
        }
        let object = reader.object::<XBackend>(&self.0)?;
        let lowered = x_backend::lower(reader, &self.0, object);
        let controller = &reader.options().controller_name;
        let generation = object.metadata.generation();
        let policy = reader.backend_tls_winner(&upstream, None);
        let left_out = policy.and_then(|it| reader.left_out_by_tls(it));
        let full = reader.full_gateways(HolderKind::XBackend, &self.0, &users);
        let no_room = reader.room_problem(&full, "backend", NO_ROOM);
        let why_not = |gateway: &ObjectName| {
            let left_out = left_out.as_ref();
            let left_out = left_out.and_then(|it| it.problem(gateway, "the backend"));
            left_out.or_else(|| no_room.clone().filter(|_| full.has(gateway)))
        };
        let status =
            PolicyStatus::of_x_backend(generation, &lowered, (&users, &why_not), controller);
        let users = match &left_out {
            Some(it) => without(&it.gateways, users),
            None => users,
        };
        let (users, _) = full.split(users);
        if users.is_empty() {
            return Some(UsedXBackend {
                emitted: Emitted::default(),
                status,
            });
        }
        let mut resources = Vec::new();
        if let Some(certificate) = lowered.certificate {
            let policy = client_certificate(&self.0, certificate);
            resources.push((policy.into(), Arc::clone(&users)));
        }
        resources.push((lowered.backend.into(), users));
        Some(UsedXBackend {
            emitted: Emitted::new(resources),
            status,
        })
    }

    fn publish(
        &self,
        old: Option<&UsedXBackend>,
        new: Option<&UsedXBackend>,
        changes: &mut Changes<'_>,
    ) {
        let emitted = |it: Option<&UsedXBackend>| it.map(|it| it.emitted.clone());
        let (before, after) = (emitted(old), emitted(new));
        Emitted::publish(before.as_ref(), after.as_ref(), changes.outcome);
        let status = |it: Option<&UsedXBackend>| it.map(|it| it.status.clone());
        if status(old) != status(new) {
            let object = ObjectRef::of::<XBackend>(&self.0);
            changes.status(object, status(new).map(Status::Policy));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.x_backends.contains_key(&self.0)
    }
}

/// The client certificate for an XBackend.
pub(crate) fn client_certificate(name: &ObjectName, certificate: Certificate) -> Policy {
    let target = PolicyTarget::Backend(BackendKey::of_x_backend(name));
    Policy {
        key: PolicyKey::new(XBackend::KIND.name(), name, &target_key(&target)),
        target,
        spec: PolicySpec {
            client_certificate: Some(certificate),
            ..PolicySpec::default()
        },
    }
}
