//! A Service in use, with its workloads.

use std::sync::Arc;

use xds::model::{ObjectName, Resource, ServiceKey};

use crate::api;
use crate::lower::service;
use crate::reader::Fact;
use crate::translator::emitted::{Emitted, Gateways};
use crate::translator::unit::{Changes, State, Unit, UnitReader};
use crate::upstream::Upstream;

/// A Service by name. No output if it is unused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ServiceUnit(pub(crate) ObjectName);

impl Unit for ServiceUnit {
    type Output = Emitted;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Emitted> {
        let users = reader.users(&Upstream::Service(ServiceKey::new(&self.0)));
        if users.is_empty() {
            return None;
        }
        let object = reader.object::<api::Service>(&self.0)?;
        let (service, workloads) = service::lower(reader, &self.0, object);
        let workloads = workloads.into_iter().map(Resource::from);
        let upstream = Upstream::Service(ServiceKey::new(&self.0));
        let ports = object.spec.ports.iter();
        let sections = ports.map(|port| Some(&*port.name).filter(|name| !name.is_empty()));
        let sections = sections.chain([None]).map(|name| name.map(Arc::from));
        let users = reader.tls_users(&upstream, sections, users);
        let resources = workloads.chain([service.into()]);
        let resources = resources.map(|resource| (resource, Arc::clone(&users)));
        Some(Emitted::new(resources.collect()))
    }

    fn publish(&self, old: Option<&Emitted>, new: Option<&Emitted>, changes: &mut Changes<'_>) {
        Emitted::publish(old, new, changes.outcome);
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.services.contains_key(&self.0)
    }
}

impl UnitReader<'_> {
    /// The Gateways whose proxies send requests to an upstream.
    pub(super) fn users(&self, upstream: &Upstream) -> Gateways {
        self.depend_on(Fact::Users(upstream.clone()));
        self.counts.users.at(upstream).cloned().collect()
    }
}
