//! The status of a `Backend`.

use std::slice;

use serde::Serialize;

use super::own::LoweredBackend;
use crate::status::problem::Problem;
use crate::status::{Condition, ConditionType, Conditions, Reason};

/// The status of a `Backend`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct BackendStatus {
    /// Conditions, at most one of each type.
    pub conditions: Vec<Condition>,
}

impl BackendStatus {
    /// Of a backend in this generation. `no_room` says that Gateways have no room for it.
    pub(crate) fn of(generation: i64, backend: &LoweredBackend, no_room: Option<&Problem>) -> Self {
        let conditions = Conditions::of(generation);
        let kind = ConditionType::Accepted;
        let conditions = match (&*backend.lowered, no_room) {
            (Ok(_), None) => conditions.normal(kind, Reason::Accepted, "the backend is valid"),
            (Err(problem), _) | (Ok(_), Some(problem)) => {
                conditions.abnormal(kind, slice::from_ref(problem))
            }
        };
        let conditions = conditions.certificates(&backend.expiries.problems);
        Self {
            conditions: conditions.done(),
        }
    }
}
