//! The kinds of units, a file each: what each reads, its output, and what other units see of it.

mod ancestors;
mod attached;
mod backend;
mod backend_tls;
mod backend_tls_status;
mod backend_tls_target;
mod backend_traffic;
mod backend_traffic_effect;
mod backend_traffic_target;
mod backend_use;
mod carried;
mod closed_hosts;
mod cost;
mod effect;
mod expressions;
mod gateway;
mod gateway_properties;
mod gateway_status;
mod listeners;
mod overridden;
mod picker;
mod policy;
mod policy_target;
mod pool;
mod room;
mod route;
mod route_conflicts;
mod route_defect;
mod route_sessions;
mod service;
mod set_certificates;
mod set_status;
mod socket;
mod target;
mod tokens;
mod view;
mod x_backend;

pub(crate) use attached::AttachedUnit;
pub(crate) use backend::BackendUnit;
pub(crate) use backend_tls::BackendTlsUnit;
pub(crate) use backend_tls_status::BackendTlsStatusUnit;
pub(crate) use backend_tls_target::BackendTlsTargetUnit;
pub(crate) use backend_traffic::BackendTrafficUnit;
pub(crate) use backend_traffic_effect::BackendTrafficEffectUnit;
pub(crate) use backend_traffic_target::BackendTrafficTargetUnit;
pub(crate) use backend_use::BackendUseUnit;
pub(crate) use carried::CarriedUnit;
pub(crate) use closed_hosts::ClosedHostsUnit;
pub(crate) use cost::CostUnit;
pub(crate) use effect::EffectUnit;
pub(crate) use expressions::ExpressionsUnit;
pub(crate) use gateway::GatewayUnit;
pub(crate) use gateway_properties::GatewayPropertiesUnit;
pub(crate) use gateway_status::GatewayStatusUnit;
pub(crate) use listeners::ListenersUnit;
pub(crate) use picker::PickerUnit;
pub(crate) use policy::PolicyUnit;
pub(crate) use pool::PoolUnit;
pub(crate) use room::RoomUnit;
pub(crate) use route::{RouteKind, RouteName, RouteUnit};
pub(crate) use route_conflicts::RouteConflictsUnit;
pub(crate) use route_sessions::RouteSessionsUnit;
pub(crate) use service::ServiceUnit;
pub(crate) use set_status::SetStatusUnit;
pub(crate) use socket::SocketUnit;
pub(crate) use target::TargetUnit;
pub(crate) use tokens::TokensUnit;
pub(crate) use view::ViewUnit;
pub(crate) use x_backend::XBackendUnit;

use xds::model::ObjectName;

use super::rooms::{Holder, HolderKind};
use super::unit::AnyUnit;
use crate::owner::Owner;
use crate::store::Object;

/// The units of an object.
pub(super) fn of_object(object: &Object) -> Vec<AnyUnit> {
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
