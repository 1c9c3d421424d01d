//! An XBackend that something is sent to, and the status of each.

use xds::model::{BackendKey, ObjectName};

use crate::api::XBackend;
use crate::lower::x_backend;
use crate::status::{PolicyStatus, Status};
use crate::store::ObjectRef;
use crate::translator::emitted::Emitted;
use crate::translator::unit::{Changes, State, Unit, UnitReader};
use crate::upstream::Upstream;

/// An XBackend by name. Comes to nothing where nothing is sent to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct XBackendUnit(pub(crate) ObjectName);

/// What an XBackend comes to for proxies and for the user.
#[derive(Debug, PartialEq)]
pub(crate) struct UsedXBackend {
    emitted: Emitted,
    status: PolicyStatus,
}

impl Unit for XBackendUnit {
    type Output = UsedXBackend;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<UsedXBackend> {
        let users = reader.users(&Upstream::Backend(BackendKey::of_x_backend(&self.0)));
        if users.is_empty() {
            return None;
        }
        let object = reader.object::<XBackend>(&self.0)?;
        let lowered = x_backend::lower(reader, &self.0, object);
        let controller = &reader.options().controller_name;
        let generation = object.metadata.generation;
        let status = PolicyStatus::of_x_backend(generation, &lowered, &users, controller);
        Some(UsedXBackend {
            emitted: Emitted::new(vec![(lowered.backend.into(), users)]),
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
