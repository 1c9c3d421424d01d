//! XBackendTrafficPolicy, of the experimental channel of Gateway API.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{PolicyEntries, PolicyTargetReference};
use crate::objects::api::ObjectMeta;
use crate::route::api::SessionPersistence;

/// Limits of retries, and session persistence, of the upstreams in `targetRefs` (GEP-3388).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct XBackendTrafficPolicy {
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Its settings and targets.
    pub spec: XBackendTrafficPolicySpec,
    /// The entries of all controllers.
    #[serde(default)]
    pub status: PolicyEntries,
}

/// The settings and targets of a policy.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct XBackendTrafficPolicySpec {
    /// Services and other backends in the policy's namespace.
    #[serde(default)]
    pub target_refs: Vec<PolicyTargetReference>,
    /// Bounds the rate of retries; absent means no bound.
    #[serde(default)]
    pub retry_constraint: Option<RetryConstraint>,
    /// Session persistence of rules that have none. Deprecated in favor of XBackend's.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
}

/// Limit of retries: a retry has to be within the budget or within the least rate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryConstraint {
    /// Share of the requests.
    #[serde(default)]
    pub budget: RetryConstraintBudget,
    /// Rate of retries that is always allowed.
    #[serde(default)]
    pub min_retry_rate: RequestRate,
}

/// A share of the requests of an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RetryConstraintBudget {
    /// Retries, in percent of all requests; 20 by default.
    #[serde(default)]
    pub percent: Option<u32>,
    /// The interval, from 1 s to 1 h; 10 s by default.
    #[serde(default)]
    pub interval: Option<String>,
}

/// A rate of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RequestRate {
    /// Requests in the interval; 10 by default.
    #[serde(default)]
    pub count: Option<NonZeroU32>,
    /// The interval, at most 1 h; 1 s by default.
    #[serde(default)]
    pub interval: Option<String>,
}
