//! The kinds of units, a file each: what each reads, its output, and what other units see of it.

use crate::backend::own_unit::BackendUnit;
use crate::backend::own_use::BackendUseUnit;
use crate::backend::picker::PickerUnit;
use crate::backend::pool_unit::PoolUnit;
use crate::backend::service_unit::ServiceUnit;
use crate::backend::x_backend_unit::XBackendUnit;
use crate::budgets::cost::CostUnit;
use crate::gateway::all_listeners::GatewayUnit;
use crate::gateway::carried::CarriedUnit;
use crate::gateway::listener_set_status_unit::SetStatusUnit;
use crate::gateway::listeners_unit::ListenersUnit;
use crate::gateway::properties_unit::GatewayPropertiesUnit;
use crate::gateway::status_unit::GatewayStatusUnit;
use crate::policy::backend_tls_status_unit::BackendTlsStatusUnit;
use crate::policy::backend_tls_unit::BackendTlsUnit;
use crate::policy::backend_traffic_effect::BackendTrafficEffectUnit;
use crate::policy::backend_traffic_unit::BackendTrafficUnit;
use crate::policy::effect::EffectUnit;
use crate::policy::tokens::TokensUnit;
use crate::policy::traffic::PolicyUnit;
use crate::route::attached::AttachedUnit;
use crate::route::resolved::{RouteKind, RouteName, RouteUnit};

use xds::model::ObjectName;

use crate::budgets::rooms::{Holder, HolderKind};
use crate::engine::unit::AnyUnit;
use crate::objects::owner::Owner;
use crate::objects::store::Object;

/// The units of an object.
pub(crate) fn of_object(object: &Object) -> Vec<AnyUnit> {
    let name = object.metadata().name.clone();
    let route = |kind| {
        let route = RouteName {
            kind,
            name: name.clone(),
        };
        vec![RouteUnit(route.clone()).into(), AttachedUnit(route).into()]
    };
    let cost = |kind| {
        let name = name.clone();
        CostUnit(Holder { kind, name }).into()
    };
    match object {
        Object::Gateway(_) => vec![
            GatewayPropertiesUnit(name.clone()).into(),
            ListenersUnit(Owner::Gateway(name.clone())).into(),
            GatewayUnit(name.clone()).into(),
            CarriedUnit(name.clone()).into(),
            GatewayStatusUnit(name).into(),
        ],
        Object::ListenerSet(_) => vec![
            ListenersUnit(Owner::ListenerSet(name.clone())).into(),
            SetStatusUnit(name).into(),
        ],
        Object::HttpRoute(_) => route(RouteKind::Http),
        Object::GrpcRoute(_) => route(RouteKind::Grpc),
        Object::TlsRoute(_) => route(RouteKind::Tls),
        Object::TcpRoute(_) => route(RouteKind::Tcp),
        Object::UdpRoute(_) => route(RouteKind::Udp),
        Object::BackendTlsPolicy(_) => vec![
            BackendTlsUnit(name.clone()).into(),
            BackendTlsStatusUnit(name).into(),
        ],
        Object::XBackendTrafficPolicy(_) => vec![
            BackendTrafficUnit(name.clone()).into(),
            BackendTrafficEffectUnit(name).into(),
        ],
        Object::Service(_) => vec![cost(HolderKind::Service), ServiceUnit(name).into()],
        Object::InferencePool(_) => vec![
            PickerUnit(name.clone()).into(),
            cost(HolderKind::Pool),
            PoolUnit(name).into(),
        ],
        Object::XBackend(_) => vec![cost(HolderKind::XBackend), XBackendUnit(name).into()],
        Object::Backend(_) => vec![
            BackendUnit(name.clone()).into(),
            cost(HolderKind::Backend),
            BackendUseUnit(name).into(),
        ],
        Object::TrafficPolicy(_) => of_policy(name),
        Object::ReferenceGrant(_)
        | Object::EndpointSlice(_)
        | Object::Pod(_)
        | Object::Secret(_)
        | Object::ConfigMap(_)
        | Object::Namespace(_)
        | Object::ClusterTrustBundle(_) => Vec::new(),
    }
}

fn of_policy(name: ObjectName) -> Vec<AnyUnit> {
    let cost = |kind| {
        let name = name.clone();
        CostUnit(Holder { kind, name }).into()
    };
    vec![
        PolicyUnit(name.clone()).into(),
        TokensUnit(name.clone()).into(),
        cost(HolderKind::TrafficPolicy),
        cost(HolderKind::Networks),
        cost(HolderKind::RateTables),
        EffectUnit(name).into(),
    ]
}
