//! The status of a `Backend`.

use std::slice;

use serde::Serialize;

use super::{Condition, ConditionType, Conditions, Reason};
use crate::problem::Problem;

/// The status of a `Backend`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BackendStatus {
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl BackendStatus {
    pub(crate) fn of(generation: i64, problem: Option<&Problem>) -> Self {
        let conditions = Conditions::of(generation);
        let kind = ConditionType::Accepted;
        let conditions = match problem {
            None => conditions.happy(kind, Reason::Accepted, "the backend is valid"),
            Some(problem) => conditions.unhappy(kind, slice::from_ref(problem)),
        };
        Self {
            conditions: conditions.done(),
        }
    }
}
