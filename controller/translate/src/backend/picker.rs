//! The Gateways that ask the endpoint picker of an InferencePool. They send its Service no requests
//! of clients, so that they do not count as its users, but its BackendTLSPolicy applies to them.

use std::collections::BTreeSet;

use xds::model::{BackendKey, ObjectName, ServiceKey};

use super::api::InferencePool;
use super::upstream::Upstream;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::kinds::ObjectKind;
use crate::units::PickerUnit;

impl Unit for PickerUnit {
    /// The Service of the picker, by Gateway.
    type Output = BTreeSet<(Upstream, ObjectName)>;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let users = reader.users(&Upstream::Backend(BackendKey::of_pool(&self.0)));
        if users.is_empty() {
            return None;
        }
        let object = reader.object::<InferencePool>(&self.0)?;
        let picker = picker_service(&self.0, object)?;
        let users = users.iter();
        Some(users.map(|it| (picker.clone(), it.clone())).collect())
    }

    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let users = |output: Option<&Self::Output>| output.cloned().unwrap_or_default().into_iter();
        let changed = changes.counts.picker_users.replace(users(old), users(new));
        for (upstream, is_other_set) in changed {
            if is_other_set {
                changes.fact(Fact::PickerUsers(upstream));
            }
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.inference_pools.contains_key(&self.0)
    }
}

/// The Service of a pool's endpoint picker.
pub(crate) fn picker_service(pool: &ObjectName, object: &InferencePool) -> Option<Upstream> {
    let reference = object.spec.endpoint_picker_ref.as_ref()?;
    let kind = ObjectKind::find(&reference.group, &reference.kind);
    let name = ObjectName::new(&pool.namespace, &reference.name);
    (kind == Some(ObjectKind::Service)).then(|| Upstream::Service(ServiceKey::new(&name)))
}

impl<'a> UnitReader<'a> {
    /// The Gateways that ask an endpoint picker at this Service.
    pub(crate) fn picker_users(
        &self,
        upstream: &Upstream,
    ) -> impl Iterator<Item = &'a ObjectName> + use<'a> {
        self.depend_on(Fact::PickerUsers(upstream.clone()));
        self.counts.picker_users.at(upstream)
    }
}
