//! An InferencePool in use, and the statuses of all.

use xds::model::{BackendKey, ObjectName};

use crate::api::InferencePool;
use crate::lower::pool;
use crate::status::{RouteStatus, Status};
use crate::store::ObjectRef;
use crate::translator::emitted::Emitted;
use crate::translator::unit::{Changes, State, Unit, UnitReader};
use crate::upstream::Upstream;

/// An InferencePool by name. No output if it is unused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolUnit(pub(crate) ObjectName);

/// An InferencePool for proxies, and its status.
#[derive(Debug, PartialEq)]
pub(crate) struct UsedPool {
    emitted: Emitted,
    status: RouteStatus,
}

impl Unit for PoolUnit {
    type Output = UsedPool;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<UsedPool> {
        let users = reader.users(&Upstream::Backend(BackendKey::of_pool(&self.0)));
        if users.is_empty() {
            return None;
        }
        let object = reader.object::<InferencePool>(&self.0)?;
        let pool = pool::lower(reader, &self.0, object);
        let controller = &reader.options().controller_name;
        let status = RouteStatus::of_pool(object, &pool.refs, &users, controller);
        Some(UsedPool {
            emitted: Emitted::new(vec![(pool.backend.into(), users)]),
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
