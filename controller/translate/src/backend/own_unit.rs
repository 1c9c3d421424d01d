//! Lowers a `Backend`.

use std::sync::Arc;

use xds::model::ObjectName;

use super::api::Backend;
use super::own;
use super::own::LoweredBackend;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::units::BackendUnit;

impl Unit for BackendUnit {
    type Output = LoweredBackend;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<LoweredBackend> {
        let object = reader.object::<Backend>(&self.0)?;
        Some(own::lower(reader, &self.0, object))
    }

    fn publish(
        &self,
        _: Option<&LoweredBackend>,
        new: Option<&LoweredBackend>,
        changes: &mut Changes<'_>,
    ) {
        let backends = &mut changes.objects.backends;
        match new {
            Some(new) => backends.insert(self.0.clone(), Arc::clone(&new.lowered)),
            None => backends.remove(&self.0),
        };
        changes.fact(Fact::Backend(self.0.clone()));
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.backends.contains_key(&self.0)
    }
}

impl<'a> UnitReader<'a> {
    /// A lowered `Backend` with its problems.
    pub(crate) fn lowered_backend(&self, name: &ObjectName) -> Option<&'a LoweredBackend> {
        self.depend_on(Fact::Backend(name.clone()));
        self.tables.get(&BackendUnit(name.clone()))
    }
}
