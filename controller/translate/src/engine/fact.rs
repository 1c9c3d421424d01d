//! The facts that units can read. A fact is a key; whether it has a value is part of the answer.

use std::num::NonZeroU16;
use std::sync::Arc;

use xds::model::{ListenerKey, ObjectName, PolicyTarget, ServiceKey, Transport};

use crate::backend::upstream::Upstream;
use crate::objects::grants::ReferenceDirection;
use crate::objects::index::PodLabel;
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner::Owner;

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident($($type:ty),*);)*) => {
        /// Something that a unit's output can depend on.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub(crate) enum Fact {
            $($(#[$doc])* $name($($type),*),)*
        }

        impl Fact {
            /// The names of all kinds of facts.
            #[cfg(test)]
            pub(crate) const KINDS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The name of its kind.
            #[cfg(test)]
            pub(crate) fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(..) => stringify!($name),)*
                }
            }
        }
    };
}

facts! {
    /// The object of this kind and name.
    Object(ObjectRef);
    /// Whether an object of this kind and name exists.
    Exists(ObjectRef);
    /// The references that grants allow from one kind and namespace to another.
    ReferenceDirection(Arc<ReferenceDirection>);
    /// The limits of listeners in `GatewayParameters`.
    ListenerLimits(ObjectName);
    /// The `GatewayParameters` of a GatewayClass.
    ClassParameters(Arc<str>);
    /// The labels of a namespace.
    Labels(Arc<str>);
    /// The names of the EndpointSlices of a Service.
    Slices(ObjectName);
    /// The names of the Pods of a namespace with a label, by its key and value.
    Pods(Arc<PodLabel>);
    /// The names of the ListenerSets of a Gateway.
    Sets(ObjectName);
    /// The names of the default Gateways.
    DefaultGateways();
    /// The addresses of this machine.
    MachineAddresses();
    /// The addresses assigned to a Gateway.
    AssignedAddresses(ObjectName);
    /// The session keys of a Gateway.
    SessionKeys(ObjectName);
    /// Whether ClusterTrustBundles are served.
    TrustBundles();
    /// A `Backend`, lowered to the model.
    Backend(ObjectName);
    /// The BackendTLSPolicy of an upstream, or of a section of it.
    BackendTls(Upstream, Option<Arc<str>>);
    /// A BackendTLSPolicy with its references resolved.
    BackendTlsPolicy(ObjectName);
    /// The name of the XBackendTrafficPolicy of an upstream.
    BackendTraffic(Upstream);
    /// The session persistence of an upstream by an XBackendTrafficPolicy.
    Session(Upstream);
    /// An XBackendTrafficPolicy with its targets resolved.
    BackendTrafficPolicy(ObjectName);
    /// The policies whose statuses have no room for a Gateway.
    LeftOutOf(ObjectName);
    /// Whether a Gateway belongs to this controller, and its terms for ListenerSets and clients.
    ListenerSetTerms(ObjectName);
    /// A Gateway without its listeners.
    GatewayProperties(ObjectName);
    /// The resolved listeners of an object, before conflicts.
    Listeners(Owner);
    /// The listeners that an object offers to routes.
    ListenerOffers(Owner);
    /// The conflicts of an object's listeners with others of the Gateway.
    ListenerConflicts(Owner);
    /// The conflicts among all listeners of a Gateway.
    Gateway(ObjectName);
    /// The owner of a socket of the machine.
    Socket(Transport, NonZeroU16);
    /// The listeners and routes that a Gateway carries.
    Carried(ObjectName);
    /// Whether a listener is carried, and by which Gateway.
    CarriedListener(ListenerKey);
    /// Whether any listener of a ListenerSet is carried, and by which Gateway.
    CarriedSet(ObjectName);
    /// The listeners of an object without a socket.
    Unusable(Owner);
    /// A resolved route.
    Route(ObjectRef);
    /// Whether a route belongs to this controller, and the names of its rules.
    RuleNames(ObjectRef);
    /// Whether a route lost a listener to routes of another kind.
    LostListener(ListenerKey, ObjectRef);
    /// Whether a Gateway refuses a route for its regular expressions.
    RefusedExpressions(ObjectName, ObjectRef);
    /// The Gateways that carry a route, and which of its rules.
    CarriedRoute(ObjectRef);
    /// Number of routes attached to a listener.
    AttachedRoutes(ListenerKey);
    /// Number of ListenerSets attached to a Gateway.
    AttachedSets(ObjectName);
    /// A `TrafficPolicy` with its references resolved.
    Policy(ObjectName);
    /// The settings of a `TrafficPolicy` that take effect at a target.
    ClaimedPolicy(Arc<PolicyTarget>, ObjectName);
    /// The targets of a Gateway with policies that take precedence over those of targets within them, and what
    /// these override.
    Overriding(ObjectName);
    /// The Gateways that send to an upstream.
    Users(Upstream);
    /// The ports of a Service that something is sent to.
    PortsInUse(ServiceKey);
    /// The Gateways that ask an endpoint picker at a Service.
    PickerUsers(Upstream);
    /// Our objects of a namespace that requests pass.
    OursIn(Arc<str>);
}
