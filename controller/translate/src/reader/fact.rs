//! What a unit can ask for. A fact is a key; whether there is anything at it is part of the answer.

use std::num::NonZeroU16;
use std::sync::Arc;

use xds::model::{ListenerKey, ObjectName, PolicyTarget, Transport};

use super::grants::Way;
use super::ground::PodLabel;
use crate::owner::Owner;
use crate::upstream::Upstream;

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
    Object(&'static str, ObjectName);
    /// Whether there is an object of this kind and name.
    Exists(&'static str, ObjectName);
    /// What grants allow from one kind and namespace to another.
    Way(Arc<Way>);
    /// The labels of a namespace.
    Labels(Arc<str>);
    /// The names of the slices of a Service.
    Slices(ObjectName);
    /// The names of the Pods of a namespace that have a label, by its key and value.
    Pods(Arc<PodLabel>);
    /// The names of the ListenerSets that name a Gateway.
    Sets(ObjectName);
    /// The names of the default Gateways.
    DefaultGateways();
    /// The addresses of this machine.
    MachineAddresses();
    /// The addresses assigned to a Gateway.
    AssignedAddresses(ObjectName);
    /// Whether there are ClusterTrustBundle objects at all.
    TrustBundles();
    /// What a `Backend` comes to.
    Backend(ObjectName);
    /// The BackendTLSPolicy that holds for an upstream, or for a section of it.
    BackendTls(Upstream, Option<Arc<str>>);
    /// What a BackendTLSPolicy says.
    BackendTlsPolicy(ObjectName);
    /// Whether a Gateway is ours, and on what terms it takes ListenerSets and clients.
    Terms(ObjectName);
    /// All that a Gateway says apart from its listeners.
    Frame(ObjectName);
    /// The listeners of an object, each by itself.
    Listeners(Owner);
    /// What an object offers to routes.
    Offers(Owner);
    /// How the listeners of an object stand among those of the Gateway.
    Standings(Owner);
    /// How all listeners of a Gateway stand.
    Gateway(ObjectName);
    /// Who has a socket of the machine.
    Socket(Transport, NonZeroU16);
    /// What a Gateway carries.
    Carried(ObjectName);
    /// Whether a listener is carried, and by which Gateway.
    CarriedListener(ListenerKey);
    /// Whether any listener of a ListenerSet is carried, and by which Gateway.
    CarriedSet(ObjectName);
    /// Which listeners of an object have no socket.
    Unusable(Owner);
    /// What a route comes to, by kind and name.
    Route(&'static str, ObjectName);
    /// Whether a route is ours, and the names of its rules.
    RuleNames(&'static str, ObjectName);
    /// Whether a route lost a listener to routes of another kind.
    LostListener(ListenerKey, &'static str, ObjectName);
    /// By which Gateways a route is carried, and which of its rules are.
    CarriedRoute(&'static str, ObjectName);
    /// How many routes are attached to a listener.
    AttachedRoutes(ListenerKey);
    /// How many ListenerSets are attached to a Gateway.
    AttachedSets(ObjectName);
    /// What a `TrafficPolicy` says.
    Policy(ObjectName);
    /// What is left of a `TrafficPolicy` at a target.
    Settled(Arc<PolicyTarget>, ObjectName);
    /// The Gateways that send something to an upstream.
    Users(Upstream);
    /// The objects of a namespace that requests pass and that are ours.
    OursIn(Arc<str>);
}
