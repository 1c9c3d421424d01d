//! The identities of all units, in the order of their strata: a unit reads only those of earlier ones.
//!
//! What a unit computes is in the folder of its subject. Here is what others need to have it run.

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU16;
use std::sync::Arc;

use xds::model::{ListenerKey, ObjectName, PolicyTarget, Transport};

use crate::backend::upstream::Upstream;
use crate::budgets::rooms::{Holder, Room};
use crate::objects::owner::Owner;
use crate::route::name::RouteName;

/// A unit, apart from what it computes.
pub(crate) trait Identity: Clone + fmt::Debug + Eq + Hash + Into<AnyUnit> + 'static {
    /// The number of its stratum.
    const STRATUM: usize;
}

macro_rules! units {
    ($d:tt $($(#[$doc:meta])* $unit:ident($($key:ty),+);)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Hash)]
            pub(crate) struct $unit($(pub(crate) $key),+);

            impl Identity for $unit {
                const STRATUM: usize = Stratum::$unit as usize;
            }

            impl From<$unit> for AnyUnit {
                fn from(unit: $unit) -> Self {
                    Self::$unit(unit)
                }
            }
        )*

        /// A unit of any kind.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[expect(clippy::enum_variant_names, reason = "a variant has the name of its type")]
        pub(crate) enum AnyUnit {
            $($unit($unit),)*
        }

        /// The strata by name, in their order.
        #[expect(clippy::enum_variant_names, reason = "a variant has the name of its unit")]
        enum Stratum {
            $($unit,)*
        }

        /// How many strata there are.
        pub(crate) const STRATA: usize = [$(Stratum::$unit as usize),*].len();

        impl AnyUnit {
            /// The number of its stratum.
            pub(crate) fn stratum(&self) -> usize {
                match self {
                    $(Self::$unit(_) => $unit::STRATUM,)*
                }
            }
        }

        /// Calls a macro with the names of all units.
        macro_rules! with_all_units {
            ($d callback:ident) => {
                $d callback! { $($unit)* }
            };
        }
        pub(crate) use with_all_units;
    };
}

units! {
    $
    /// A `Backend` by name.
    BackendUnit(ObjectName);
    /// A BackendTLSPolicy by name.
    BackendTlsUnit(ObjectName);
    /// A target of BackendTLSPolicy objects.
    BackendTlsTargetUnit(Arc<(Upstream, Option<Arc<str>>)>);
    /// An XBackendTrafficPolicy, apart from its targets.
    BackendTrafficUnit(ObjectName);
    /// A target of XBackendTrafficPolicy objects.
    BackendTrafficTargetUnit(Upstream);
    /// A Gateway apart from its listeners.
    GatewayPropertiesUnit(ObjectName);
    /// The resolved listeners of a Gateway or ListenerSet, before conflicts.
    ListenersUnit(Owner);
    /// A Gateway with the listeners of its ListenerSets.
    GatewayUnit(ObjectName);
    /// A socket of a machine.
    SocketUnit(Transport, NonZeroU16);
    /// The listeners and routes that a Gateway carries.
    CarriedUnit(ObjectName);
    /// A resolved route: its rules and parents.
    RouteUnit(RouteName);
    /// The routes that do not fit into the view of a Gateway.
    ViewUnit(ObjectName);
    /// The host names at which a Gateway rejects every request, for lack of room.
    ClosedHostsUnit(ObjectName);
    /// The routes of HTTP and gRPC at a listener.
    RouteConflictsUnit(ListenerKey);
    /// The regular expressions of the routes at a Gateway.
    ExpressionsUnit(ObjectName);
    /// A route at its listeners.
    AttachedUnit(RouteName);
    /// A resolved `TrafficPolicy`, before conflicts.
    PolicyUnit(ObjectName);
    /// A target of traffic policies.
    TargetUnit(Arc<PolicyTarget>);
    /// The key sets that a `TrafficPolicy` verifies tokens with.
    TokensUnit(ObjectName);
    /// The Gateways that ask the endpoint picker of an InferencePool.
    PickerUnit(ObjectName);
    /// What a policy, backend or Service adds to the views of Gateways.
    CostUnit(Holder);
    /// The policies, backends or Services that a Gateway has no room for.
    RoomUnit(ObjectName, Room);
    /// A Service in use.
    ServiceUnit(ObjectName);
    /// A `Backend` in use.
    BackendUseUnit(ObjectName);
    /// An InferencePool in use.
    PoolUnit(ObjectName);
    /// An XBackend in use.
    XBackendUnit(ObjectName);
    /// A `TrafficPolicy` at its targets.
    EffectUnit(ObjectName);
    /// An XBackendTrafficPolicy at its targets.
    BackendTrafficEffectUnit(ObjectName);
    /// The status of a BackendTLSPolicy.
    BackendTlsStatusUnit(ObjectName);
    /// The rules of a route with session persistence of `XBackendTrafficPolicies`.
    RouteSessionsUnit(RouteName);
    /// The status of a ListenerSet.
    SetStatusUnit(ObjectName);
    /// The status of a Gateway.
    GatewayStatusUnit(ObjectName);
}
