//! Rules whose requests nobody can answer: without backends, and with backends that have no endpoint.

use super::services::{lacks_hints, service_of, why_unavailable};
use super::view::{RouteView, RuleView, View};
use super::{Diagnosis, finding};
use crate::backend::api::TrafficDistribution;
use crate::backend::referrer::TrafficKind;
use crate::level::Level;
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, route: &RouteView<'_>, found: &mut Vec<Diagnosis>) {
    if route.rules.is_empty() {
        let field = ("spec.rules".to_owned(), Reason::NoBackends);
        let text = "the route has no rules, so it serves nothing: add one".to_owned();
        found.push(finding(&route.object, Level::Error, field, text));
    }
    for (index, rule) in route.rules.iter().enumerate() {
        without_backends(view, route, (index, rule), found);
        without_endpoints(view, route, (index, rule), found);
        without_hints(view, route, (index, rule), found);
        of_filters(view, route, (index, rule), found);
    }
}

fn without_backends(
    view: &View<'_>,
    route: &RouteView<'_>,
    (index, rule): (usize, &RuleView<'_>),
    found: &mut Vec<Diagnosis>,
) {
    let effect = effect(route.carries, "500");
    let text = if rule.backends.is_empty() {
        if rule.responds() || view.responds(route, rule) {
            return;
        }
        let redirect = match route.carries {
            TrafficKind::Requests => ", or a filter RequestRedirect",
            _ => "",
        };
        format!("the rule has no backendRefs, so {effect}: add one{redirect}")
    } else if rule.backends.iter().all(|(_, weight)| *weight == 0) {
        format!("all backends of the rule have weight 0, so {effect}: give one a weight")
    } else {
        return;
    };
    let field = format!("spec.rules[{index}].backendRefs");
    let field = (field, Reason::NoBackends);
    found.push(finding(&route.object, Level::Error, field, text));
}

/// Backends that get copies of requests.
fn of_filters(
    view: &View<'_>,
    route: &RouteView<'_>,
    (index, rule): (usize, &RuleView<'_>),
    found: &mut Vec<Diagnosis>,
) {
    for (at, filter) in rule.filters.iter().enumerate() {
        let Some(mirror) = &filter.request_mirror else {
            continue;
        };
        let field = format!("spec.rules[{index}].filters[{at}].requestMirror.backendRef");
        if let Some((reason, why)) = why_unavailable(view, route, (&mirror.backend_ref).into()) {
            let text = format!("{why}; nothing is mirrored until then");
            let field = (field, reason);
            found.push(finding(&route.object, Level::Error, field, text));
        }
    }
}

/// Backends without endpoints: an error if no other has any, else those of its weight fail.
fn without_endpoints(
    view: &View<'_>,
    route: &RouteView<'_>,
    (index, rule): (usize, &RuleView<'_>),
    found: &mut Vec<Diagnosis>,
) {
    let backends = rule.backends.iter().enumerate();
    let empty = backends.filter(|(_, (_, weight))| *weight > 0);
    let empty = empty.filter_map(|(at, (backend, weight))| {
        let (reason, why) = why_unavailable(view, route, *backend)?;
        Some((at, *weight, reason, why))
    });
    let empty: Vec<(usize, u32, Reason, String)> = empty.collect();
    let sum = |weights: &mut dyn Iterator<Item = u32>| weights.map(u64::from).sum::<u64>();
    let all = sum(&mut rule.backends.iter().map(|it| it.1));
    let failing = sum(&mut empty.iter().map(|it| it.1));
    for (at, weight, reason, why) in empty {
        let field = format!("spec.rules[{index}].backendRefs[{at}]");
        let (level, share) = if failing == all {
            (Level::Error, String::new())
        } else {
            (
                Level::Warning,
                format!(" for {weight} of {all}, its weight"),
            )
        };
        let text = format!("{why}; until then {}{share}", effect(route.carries, "503"));
        found.push(finding(&route.object, level, (field, reason), text));
    }
}

/// Services that prefer endpoints by where they are, and say nothing of that in their slices. While only some endpoints
/// lack hints, as during a rollout, others will follow.
fn without_hints(
    view: &View<'_>,
    route: &RouteView<'_>,
    (index, rule): (usize, &RuleView<'_>),
    found: &mut Vec<Diagnosis>,
) {
    for (at, (backend, _)) in rule.backends.iter().enumerate() {
        let Some((name, service)) = service_of(view, route, *backend) else {
            continue;
        };
        let preferred = match service.spec.traffic_distribution {
            Some(TrafficDistribution::PreferSameNode) => "node",
            Some(TrafficDistribution::PreferClose | TrafficDistribution::PreferSameZone) => "zone",
            Some(TrafficDistribution::Other) | None => continue,
        };
        if !lacks_hints(view, &name) {
            continue;
        }
        let advice = if view.is_machine() {
            "add `zone` and `hints` to its EndpointSlices"
        } else {
            "have the nodes labels topology.kubernetes.io/zone?"
        };
        let text = format!(
            "Service {name} prefers endpoints of the same {preferred} (trafficDistribution), and none of its endpoints \
             has a hint, so requests go to all of them: {advice}"
        );
        let field = format!("spec.rules[{index}].backendRefs[{at}]");
        let field = (field, Reason::NoTopologyHints);
        found.push(finding(&route.object, Level::Warning, field, text));
    }
}

fn effect(carries: TrafficKind, status: &str) -> String {
    match carries {
        TrafficKind::Requests => format!("its requests get status {status}"),
        TrafficKind::Calls => "its calls get an error".to_owned(),
        TrafficKind::Streams => "its connections are closed".to_owned(),
        TrafficKind::Datagrams => "its datagrams are dropped".to_owned(),
    }
}
