//! The statuses of objects, in Kubernetes' JSON form.
//!
//! Each subject finds the problems of its objects, these types report them. Conditions have no `lastTransitionTime`:
//! the writer knows the previous ones.

mod condition;
mod length;
mod of_object;
pub(crate) mod problem;
mod problem_condition;
pub(crate) mod reason;
mod shorten;
mod statuses;

pub use crate::backend::own_status::BackendStatus;
pub use crate::gateway::class_status::{GatewayClassStatus, SupportedFeature};
pub use crate::gateway::listener_set::ListenerSetStatus;
pub use crate::gateway::release::{Channel, Installed, Release, Version};
pub use crate::gateway::status::{GatewayStatus, ListenerStatus};
pub use crate::policy::status::{AncestorReference, PolicyAncestorStatus, PolicyStatus};
pub use crate::route::status::{RouteParentStatus, RouteStatus};
pub(crate) use condition::Conditions;
pub use condition::{Blame, Condition, ConditionStatus, ConditionType, level_of};
pub use length::shortened;
pub use of_object::Status;
pub use problem_condition::ProblemCondition;
pub use reason::Reason;
pub use statuses::Statuses;
