//! The status of one object of any kind.

use crate::backend::own_status::BackendStatus;
use crate::gateway::class_status::GatewayClassStatus;
use crate::gateway::listener_set::ListenerSetStatus;
use crate::gateway::status::GatewayStatus;
use crate::policy::status::PolicyStatus;
use crate::route::status::RouteStatus;

/// The status of an object: our own entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Status {
    /// A GatewayClass.
    GatewayClass(GatewayClassStatus),
    /// Status of a Gateway, with its listeners.
    Gateway(GatewayStatus),
    /// Status of a ListenerSet, with its listeners.
    ListenerSet(ListenerSetStatus),
    /// A route of any kind, or an InferencePool.
    Route(RouteStatus),
    /// Status of a `Backend` object.
    Backend(BackendStatus),
    /// Of a `TrafficPolicy`, an XBackendTrafficPolicy, a BackendTLSPolicy or an XBackend.
    Policy(PolicyStatus),
}
