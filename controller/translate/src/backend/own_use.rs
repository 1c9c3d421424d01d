//! A `Backend` in use, and the statuses of all.

use xds::model::BackendKey;

use super::api::Backend;
use super::own::with_tls;
use super::own_status::BackendStatus;
use super::upstream::Upstream;
use crate::budgets::room::NO_ROOM;
use crate::budgets::rooms::HolderKind;
use crate::engine::emitted::Emitted;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::status::Status;
use crate::units::BackendUseUnit;

/// A `Backend` for proxies, and its status.
#[derive(Debug, PartialEq)]
pub(crate) struct UsedBackend {
    emitted: Emitted,
    status: BackendStatus,
}

impl Unit for BackendUseUnit {
    type Output = UsedBackend;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<UsedBackend> {
        let object = reader.object::<Backend>(&self.0)?;
        let backend = reader.lowered_backend(&self.0)?;
        let upstream = Upstream::Backend(BackendKey::new(&self.0));
        let users = reader.users(&upstream);
        let users = reader.tls_users(&upstream, [None].into_iter(), users);
        let full = reader.full_gateways(HolderKind::Backend, &self.0, &users);
        let no_room = reader.room_problem(&full, "backend", NO_ROOM);
        let (users, _) = full.split(users);
        let used = (*backend.lowered)
            .as_ref()
            .ok()
            .filter(|_| !users.is_empty());
        let resource = used.map(|backend| (with_tls(reader, backend).into(), users));
        Some(UsedBackend {
            emitted: Emitted::new(resource.into_iter().collect()),
            status: BackendStatus::of(object.metadata.generation(), backend, no_room.as_ref()),
        })
    }

    fn publish(
        &self,
        old: Option<&UsedBackend>,
        new: Option<&UsedBackend>,
        changes: &mut Changes<'_>,
    ) {
        let emitted = |it: Option<&UsedBackend>| it.map(|it| it.emitted.clone());
        Emitted::publish(
            emitted(old).as_ref(),
            emitted(new).as_ref(),
            changes.outcome,
        );
        let status = |it: Option<&UsedBackend>| it.map(|it| it.status.clone());
        if status(old) != status(new) {
            let object = ObjectRef::of::<Backend>(&self.0);
            changes.status(object, status(new).map(Status::Backend));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.backends.contains_key(&self.0)
    }
}
