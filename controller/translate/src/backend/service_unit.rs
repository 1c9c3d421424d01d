//! A Service in use, with its workloads.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use xds::model::{Resource, ServiceKey};

use super::upstream::{PortOfService, Upstream};
use super::{api, service};
use crate::budgets::room::NO_ROOM;
use crate::budgets::rooms::HolderKind;
use crate::budgets::{Budget, Use};
use crate::engine::emitted::Emitted;
use crate::engine::fact::Fact;
use crate::engine::outcome::Gateways;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::units::ServiceUnit;

/// A Service as proxies get it.
#[derive(Debug, PartialEq)]
pub(crate) struct EmittedService {
    resources: Emitted,
    /// The use of the budget of endpoints, if that is much.
    endpoints: Option<Use>,
    /// What is not used of its slices, and why. Few Services have any.
    warning: Option<Box<str>>,
}

impl Unit for ServiceUnit {
    type Output = EmittedService;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<EmittedService> {
        let key = ServiceKey::new(&self.0);
        let ports = reader.ports_in_use(&key);
        let upstream = Upstream::Service(key);
        let users = reader.users(&upstream);
        if users.is_empty() {
            return None;
        }
        let object = reader.object::<api::Service>(&self.0)?;
        let lowered = service::lower(reader, &self.0, object, &ports);
        let limit = reader.options().budgets.of(Budget::ServiceEndpoints);
        let full = reader.full_gateways(HolderKind::Service, &self.0, &users);
        let no_room = reader.room_problem(&full, "Service", NO_ROOM);
        let warnings = [
            refused(&lowered.refused),
            left_out(lowered.endpoints, limit),
            no_room.map(|it| it.message),
        ];
        let warnings: Vec<String> = warnings.into_iter().flatten().collect();
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        let service = lowered.service;
        let workloads = lowered.workloads.into_iter().map(Resource::from);
        let ports = service.ports.iter();
        let sections = ports.map(|port| Some(&*port.name).filter(|name| !name.is_empty()));
        let sections = sections.chain([None]).map(|name| name.map(Arc::from));
        let users = reader.tls_users(&upstream, sections, users);
        let (users, _) = full.split(users);
        let resources = workloads.chain([service.into()]);
        let resources = resources.filter(|_| !users.is_empty());
        let resources = resources.map(|resource| (resource, Arc::clone(&users)));
        Some(EmittedService {
            resources: Emitted::new(resources.collect()),
            endpoints: Use::of_object(lowered.endpoints, limit),
            warning: warning.map(String::into_boxed_str),
        })
    }

    fn publish(
        &self,
        old: Option<&EmittedService>,
        new: Option<&EmittedService>,
        changes: &mut Changes<'_>,
    ) {
        let (before, after) = (old.map(|it| &it.resources), new.map(|it| &it.resources));
        Emitted::publish(before, after, changes.outcome);
        let uses = |it: Option<&EmittedService>| {
            let used = it.and_then(|it| it.endpoints);
            used.map(|it| (Budget::ServiceEndpoints, it))
        };
        let service = ObjectRef::of::<api::Service>(&self.0);
        let (before, after) = (uses(old), uses(new));
        changes.uses(&service, before.as_slice(), after.as_slice());
        let warning = |it: Option<&EmittedService>| it.and_then(|it| it.warning.clone());
        let (old, new) = (warning(old), warning(new));
        if old != new {
            changes.outcome.service_warnings.insert(self.0.clone(), new);
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.services.contains_key(&self.0)
    }
}

fn left_out(endpoints: u64, limit: u64) -> Option<String> {
    (endpoints > limit).then(|| {
        format!(
            "it has more than {limit} endpoints, so those of its newest EndpointSlices are not used: spread \
             them over several Services"
        )
    })
}

fn refused(refused: &BTreeSet<IpAddr>) -> Option<String> {
    let first = refused.first()?;
    let number = refused.len();
    Some(format!(
        "{number} addresses in its EndpointSlices are not used, {first} for one: they are loopback, \
         unspecified or link-local, or of a cloud's metadata server, and lead to the proxy itself or to its \
         node. Remove them, and see who may write EndpointSlices"
    ))
}

impl UnitReader<'_> {
    /// The Gateways whose proxies send requests to an upstream.
    pub(crate) fn users(&self, upstream: &Upstream) -> Gateways {
        self.depend_on(Fact::Users(upstream.clone()));
        self.counts.users.at(upstream).cloned().collect()
    }

    /// The ports of a Service that proxies send requests or connections to.
    pub(crate) fn ports_in_use(&self, service: &ServiceKey) -> Vec<PortOfService> {
        self.depend_on(Fact::PortsInUse(service.clone()));
        self.counts.ports.at(service).copied().collect()
    }
}
