//! One rule of a route that looks at connections alone.

use xds::model::{L4Backend, L4Rule, RouteRule};

use super::rule::{LoweredRule, Site, of_rule};
use crate::api::L4RouteRule;

/// Lowers the rule of a TLSRoute.
pub(crate) fn tls<'a>(site: &Site<'_>, spec: &'a L4RouteRule) -> LoweredRule<'a> {
    lower(site, spec, RouteRule::Tls)
}

/// Lowers the rule of a TCPRoute.
pub(crate) fn tcp<'a>(site: &Site<'_>, spec: &'a L4RouteRule) -> LoweredRule<'a> {
    lower(site, spec, RouteRule::Tcp)
}

/// Lowers the rule of a UDPRoute.
pub(crate) fn udp<'a>(site: &Site<'_>, spec: &'a L4RouteRule) -> LoweredRule<'a> {
    lower(site, spec, RouteRule::Udp)
}

fn lower<'a>(
    site: &Site<'_>,
    spec: &'a L4RouteRule,
    kind: fn(L4Rule) -> RouteRule,
) -> LoweredRule<'a> {
    let mut refs = Vec::new();
    let specs = spec.backend_refs.iter().enumerate();
    let backends = specs.map(|(number, spec)| {
        let (target, problem) = site.world.follow(site.from, spec.into());
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
        name: spec.name.as_deref(),
        rule: Some(kind(rule)),
        problems: Vec::new(),
        refs: of_rule(site.index, refs),
    }
}
