//! The statuses of all objects of a translation.

use std::collections::BTreeMap;

use super::{ProblemCondition, Status};
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;

/// The statuses of all our objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statuses(BTreeMap<ObjectRef, Status>);

impl Statuses {
    /// The status of every object, in the order in which people look for a problem: from Gateways to what
    /// their requests pass.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectRef, &Status)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(object, _)| READING_ORDER.iter().position(|kind| *kind == object.kind));
        all.into_iter()
    }

    /// The statuses, to complete their messages.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&ObjectRef, &mut Status)> {
        self.0.iter_mut()
    }

    /// The status of an object.
    #[must_use]
    pub fn get(&self, object: &ObjectRef) -> Option<&Status> {
        self.0.get(object)
    }

    /// Sets the status of an object; `None` removes it.
    pub fn set(&mut self, object: ObjectRef, status: Option<Status>) {
        match status {
            Some(status) => drop(self.0.insert(object, status)),
            None => drop(self.0.remove(&object)),
        }
    }

    /// All conditions that report problems and do not merely follow from others.
    pub fn problem_conditions(&self) -> impl Iterator<Item = ProblemCondition<'_>> {
        let all = self.iter();
        all.flat_map(|(object, status)| status.problem_conditions(object))
    }
}

const READING_ORDER: [ObjectKind; 13] = [
    ObjectKind::Gateway,
    ObjectKind::ListenerSet,
    ObjectKind::GrpcRoute,
    ObjectKind::HttpRoute,
    ObjectKind::TcpRoute,
    ObjectKind::TlsRoute,
    ObjectKind::UdpRoute,
    ObjectKind::InferencePool,
    ObjectKind::Backend,
    ObjectKind::TrafficPolicy,
    ObjectKind::BackendTlsPolicy,
    ObjectKind::XBackendTrafficPolicy,
    ObjectKind::XBackend,
];
