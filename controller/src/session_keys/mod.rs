//! The session keys of Gateways, with which proxies authenticate session tokens: sessions hold across replicas and
//! restarts of proxies, and while keys are replaced.
//!
//! The keys of a Gateway are in a Secret of the controller's namespace (`secret`). Every replica follows these
//! Secrets, and publishes their keys; the leader alone writes (`keeper`). `stored` decides how keys follow one
//! another, and `given` reads the keys of users.

mod given;
mod keeper;
mod secret;
mod stored;

use std::sync::Arc;

use translate::status::{Blame, Condition, ConditionStatus, ConditionType, Reason, Status};

pub use keeper::SessionKeyKeeper;

/// What is wrong with the session keys of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionKeyProblem {
    /// The reason of the condition.
    pub reason: Reason,
    /// What is wrong, its effect, and what to do.
    pub message: Arc<str>,
}

impl SessionKeyProblem {
    /// Adds the condition to the status of a Gateway.
    pub fn report(&self, status: &mut Status) {
        let Status::Gateway(status) = status else {
            return;
        };
        let generation = status.conditions.first().map(|it| it.observed_generation);
        status.conditions.push(Condition {
            kind: ConditionType::DependencyUnavailable,
            status: ConditionStatus::True,
            reason: self.reason,
            message: self.message.to_string().into(),
            observed_generation: generation.unwrap_or_default(),
            field: None,
            blame: Blame::Own,
        });
    }
}
