//! An InferencePool in use, and the statuses of all.

use std::sync::Arc;

use xds::model::{BackendKey, ObjectName};

use super::api::{InferencePool, Service, TransportProtocol};
use super::picker::picker_service;
use super::pool;
use super::upstream::Upstream;
use crate::budgets::room::NO_ROOM;
use crate::budgets::rooms::HolderKind;
use crate::engine::emitted::Emitted;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::policy::ancestors::without;
use crate::route::status::RouteStatus;
use crate::status::Status;
use crate::units::PoolUnit;

/// An InferencePool for proxies, and its status.
#[derive(Debug, PartialEq)]
pub(crate) struct UsedPool {
    emitted: Emitted,
    status: RouteStatus,
}

impl Unit for PoolUnit {
    type Output = UsedPool;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<UsedPool> {
        let users = reader.users(&Upstream::Backend(BackendKey::of_pool(&self.0)));
        if users.is_empty() {
            return None;
        }
        let object = reader.object::<InferencePool>(&self.0)?;
        let pool = pool::lower(reader, &self.0, object);
        let controller = &reader.options().controller_name;
        let policy = picker_policy(reader, &self.0, object);
        let left_out = policy.and_then(|it| reader.left_out_by_tls(it));
        let full = reader.full_gateways(HolderKind::Pool, &self.0, &users);
        let no_room = reader.room_problem(&full, "pool", NO_ROOM);
        let why_not = |gateway: &ObjectName| {
            let left_out = left_out.as_ref();
            let left_out = left_out.and_then(|it| it.problem(gateway, "the pool"));
            left_out.or_else(|| no_room.clone().filter(|_| full.has(gateway)))
        };
        let status = RouteStatus::of_pool(object, &pool.refs, (&users, &why_not), controller);
        // They would connect to the picker without the policy's TLS.
        let users = match &left_out {
            Some(it) => without(&it.gateways, users),
            None => users,
        };
        let (users, _) = full.split(users);
        let resource = (!users.is_empty()).then(|| (pool.backend.into(), users));
        Some(UsedPool {
            emitted: Emitted::new(resource.into_iter().collect()),
            status,
        })
    }

    fn publish(&self, old: Option<&UsedPool>, new: Option<&UsedPool>, changes: &mut Changes<'_>) {
        let emitted = |it: Option<&UsedPool>| it.map(|it| it.emitted.clone());
        let (before, after) = (emitted(old), emitted(new));
        Emitted::publish(before.as_ref(), after.as_ref(), changes.outcome);
        let status = |it: Option<&UsedPool>| it.map(|it| it.status.clone());
        if status(old) != status(new) {
            let object = ObjectRef::of::<InferencePool>(&self.0);
            changes.status(object, status(new).map(Status::Route));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.inference_pools.contains_key(&self.0)
    }
}

/// The BackendTLSPolicy of a pool's endpoint picker.
fn picker_policy<'a>(
    reader: &UnitReader<'a>,
    name: &ObjectName,
    object: &InferencePool,
) -> Option<&'a ObjectName> {
    let reference = object.spec.endpoint_picker_ref.as_ref()?;
    let picker = picker_service(name, object)?;
    let service = ObjectName::new(&name.namespace, &reference.name);
    let number = reference.port.map(|port| port.number);
    let service = reader.object::<Service>(&service);
    let ports = service.iter().flat_map(|service| &service.spec.ports);
    let mut ports = ports.filter(|port| port.protocol == TransportProtocol::Tcp);
    let port = ports.find(|port| Some(port.port) == number);
    // A policy of the port takes precedence over one of the whole Service.
    let section = port
        .filter(|port| !port.name.is_empty())
        .map(|port| Arc::from(&*port.name));
    let of_port = section.and_then(|it| reader.backend_tls_winner(&picker, Some(&it)));
    of_port.or_else(|| reader.backend_tls_winner(&picker, None))
}
