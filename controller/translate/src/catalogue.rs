//! The kinds of units, a file each: what each reads, its output, and what other units see of it.

use crate::route::name::{RouteKind, RouteName};

use xds::model::ObjectName;

use crate::budgets::rooms::{Holder, HolderKind};
use crate::objects::owner::Owner;
use crate::objects::store::Object;
use crate::units::{
    AnyUnit, AttachedUnit, BackendTlsStatusUnit, BackendTlsUnit, BackendTrafficEffectUnit,
    BackendTrafficUnit, BackendUnit, BackendUseUnit, CarriedUnit, CostUnit, EffectUnit,
    GatewayPropertiesUnit, GatewayStatusUnit, GatewayUnit, ListenersUnit, PickerUnit, PolicyUnit,
    PoolUnit, RouteUnit, ServiceUnit, SetStatusUnit, TokensUnit, XBackendUnit,
};

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
        cost(HolderKind::Answers),
        cost(HolderKind::PathRewrite),
        cost(HolderKind::HashTables),
        EffectUnit(name).into(),
    ]
}
