//! Lowers rules of TLSRoutes, TCPRoutes and UDPRoutes.

use std::sync::Arc;

use xds::model::{L4Backend, L4Rule, RouteRule};

use super::api::L4RouteRule;
use super::rule::{LoweredRule, RuleContext, of_rule};

/// Lowers the rule of a TLSRoute.
pub(crate) fn tls(context: &RuleContext<'_>, spec: &L4RouteRule) -> LoweredRule {
    lower(context, spec, RouteRule::Tls)
}

/// Lowers the rule of a TCPRoute.
pub(crate) fn tcp(context: &RuleContext<'_>, spec: &L4RouteRule) -> LoweredRule {
    lower(context, spec, RouteRule::Tcp)
}

/// Lowers the rule of a UDPRoute.
pub(crate) fn udp(context: &RuleContext<'_>, spec: &L4RouteRule) -> LoweredRule {
    lower(context, spec, RouteRule::Udp)
}

fn lower(
    context: &RuleContext<'_>,
    spec: &L4RouteRule,
    kind: fn(L4Rule) -> RouteRule,
) -> LoweredRule {
    let mut refs = Vec::new();
    let specs = spec.backend_refs.iter().enumerate();
    let backends = specs.map(|(number, spec)| {
        let (target, problem) = context.reader.follow(context.from, spec.into());
        refs.extend(problem.map(|problem| problem.under(format_args!("backendRefs[{number}]"))));
        L4Backend {
            target,
            weight: spec.weight,
        }
    });
    let rule = L4Rule {
        name: spec.name.clone(),
        backends: backends.collect(),
    };
    LoweredRule {
        name: spec.name.as_deref().map(Arc::from),
        rule: kind(rule),
        problems: Vec::new(),
        refs: of_rule(context.index, refs),
    }
}
