//! The status of a `Backend`.

use std::slice;

use serde::Serialize;

use super::{Condition, ConditionType, Conditions, Reason};
use crate::lower::backend::LoweredBackend;

/// The status of a `Backend`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct BackendStatus {
    /// Conditions, at most one of each type.
    pub conditions: Vec<Condition>,
}

impl BackendStatus {
    pub(crate) fn of(generation: i64, backend: &LoweredBackend) -> Self {
        let conditions = Conditions::of(generation);
        let kind = ConditionType::Accepted;
        let conditions = match &*backend.lowered {
            Ok(_) => conditions.normal(kind, Reason::Accepted, "the backend is valid"),
            Err(problem) => conditions.abnormal(kind, slice::from_ref(problem)),
        };
        let expired = &backend.expiries.expired;
        let conditions = conditions.abnormal(ConditionType::CertificateExpired, expired);
        Self {
            conditions: conditions.done(),
        }
    }
}
