//! The interface of all kinds of routes.

use std::sync::Arc;

use super::api::{
    DefaultScope, GrpcRoute, GrpcRouteRule, HttpRoute, HttpRouteRule, L4RouteRule, ParentReference,
    TcpRoute, TlsRoute, UdpRoute,
};
use super::rule::{LoweredRule, RuleContext};
use super::{grpc_rule, http_rule, l4_rule};
use crate::backend::referrer::TrafficKind;
use crate::objects::store::StoredKind;

/// A kind of route.
pub(crate) trait RouteObject: StoredKind {
    /// Its rules, as they are written.
    type Rule;

    /// The traffic of its rules.
    const CARRIES: TrafficKind;

    fn parent_refs(&self) -> &[Arc<ParentReference>];

    /// Whether it attaches to default Gateways too.
    fn default_scope(&self) -> DefaultScope;

    /// Its host names; empty means every host of a listener.
    fn hostnames(&self) -> &[String];

    fn rules(&self) -> &[Self::Rule];

    /// Lowers a rule, with its problems.
    fn lower(context: &RuleContext<'_>, rule: &Self::Rule) -> LoweredRule;
}

macro_rules! routes {
    ($($type:ident of $rule:ident: $carries:ident, $hostnames:expr, $lower:path;)*) => {$(
        impl RouteObject for $type {
            type Rule = $rule;

            const CARRIES: TrafficKind = TrafficKind::$carries;

            fn parent_refs(&self) -> &[Arc<ParentReference>] {
                &self.spec.parent_refs
            }

            fn default_scope(&self) -> DefaultScope {
                self.spec.use_default_gateways
            }

            fn hostnames(&self) -> &[String] {
                let hostnames: fn(&Self) -> &[String] = $hostnames;
                hostnames(self)
            }

            fn rules(&self) -> &[$rule] {
                &self.spec.rules
            }

            fn lower(context: &RuleContext<'_>, rule: &$rule) -> LoweredRule {
                $lower(context, rule)
            }
        }
    )*};
}

routes! {
    HttpRoute of HttpRouteRule: Requests, |it| &it.spec.hostnames, http_rule::lower;
    GrpcRoute of GrpcRouteRule: Calls, |it| &it.spec.hostnames, grpc_rule::lower;
    TlsRoute of L4RouteRule: Streams, |it| &it.spec.hostnames, l4_rule::tls;
    TcpRoute of L4RouteRule: Streams, |_| &[], l4_rule::tcp;
    UdpRoute of L4RouteRule: Datagrams, |_| &[], l4_rule::udp;
}
