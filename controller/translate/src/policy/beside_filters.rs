//! What `URLRewrite` filters mean for a policy that rewrites paths too.

use xds::model::{Filters, HttpRule, PolicyTarget, RouteRule};

use crate::engine::unit::UnitReader;
use crate::route::name::{RouteKind, RouteName};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A policy meets filters that rewrite paths.
#[derive(Debug)]
pub(super) enum BesideFilters {
    /// They win over the policy of the whole route.
    Win(Problem),
    /// It targets that very rule, so that nothing says which of both is meant.
    Ambiguous(Problem),
}

impl BesideFilters {
    /// Why the policy is rejected.
    pub(super) fn refusal(&self) -> Option<&Problem> {
        match self {
            Self::Win(_) => None,
            Self::Ambiguous(problem) => Some(problem),
        }
    }

    /// Where it has no effect.
    pub(super) fn inapplicable(&self) -> Option<&Problem> {
        match self {
            Self::Win(problem) => Some(problem),
            Self::Ambiguous(_) => None,
        }
    }
}

/// What filters of the rules of a target mean for its rewrite.
pub(super) fn beside_filters(
    reader: &UnitReader<'_>,
    target: &PolicyTarget,
) -> Option<BesideFilters> {
    let (kind, object, only) = match target {
        PolicyTarget::Route { kind, object } => (kind, object, None),
        PolicyTarget::Rule { kind, object, rule } => (kind, object, Some(&**rule)),
        _ => return None,
    };
    let name = object.clone();
    let kind_of = RouteKind::named(kind)?;
    let route = reader.route(&RouteName {
        kind: kind_of,
        name,
    })?;
    let rules = route.templates.iter().enumerate();
    let rewriting = rules.filter_map(|(index, route)| match &route.rule {
        RouteRule::Http(rule) if rewrites_path(rule) => Some((index, rule)),
        _ => None,
    });
    let is_meant = |rule: &HttpRule| only.is_none() || rule.name.as_deref() == only;
    let rewriting = rewriting.filter(|(_, rule)| is_meant(rule));
    let rewriting: Vec<String> = rewriting
        .map(|(index, _)| format!("rules[{index}]"))
        .collect();
    let first = rewriting.first()?;
    let message = match only {
        None => format!(
            "a URLRewrite filter of {} of {kind} {object} sets the path, and wins there: target the rules that the \
             policy is meant for by their names, or remove the filter",
            rewriting.join(", ")
        ),
        Some(_) => format!(
            "a URLRewrite filter of {first} of {kind} {object} sets the path too, so requests of that rule get \
             status 500 (bad_rewrite): remove the filter or the policy"
        ),
    };
    let problem = Problem::new(Reason::Conflicted, "spec.pathRewrite", message);
    Some(match only {
        None => BesideFilters::Win(problem),
        Some(_) => BesideFilters::Ambiguous(problem),
    })
}

fn rewrites_path(rule: &HttpRule) -> bool {
    let of_backends = rule.backends.iter().map(|backend| &backend.filters);
    let mut all = of_backends.chain([&rule.filters]);
    all.any(|filters: &Filters| filters.rewrite.as_ref().is_some_and(|it| it.path.is_some()))
}
