//! The statuses of routes and InferencePools: an entry for each parent.

use std::slice;

use serde::Serialize;
use xds::model::ObjectName;

use super::api::ParentReference;
use super::lowered::ResolvedRoute;
use crate::backend::api::InferencePool;
use crate::objects::kinds::ObjectKind;
use crate::policy::status::WhyNot;
use crate::status::problem::Problem;
use crate::status::{
    Condition, ConditionStatus, ConditionType as Type, Conditions, Reason, problem,
};

/// The status of a route or an InferencePool: our entries of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct RouteStatus {
    /// One entry for each parent of this controller, in the order of the route's spec.
    pub parents: Vec<RouteParentStatus>,
}

/// The status of a route at a parent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteParentStatus {
    /// The parent, as the route named it.
    pub parent_ref: ParentReference,
    /// Name of this controller, by which it finds its entries among others'.
    pub controller_name: String,
    /// Conditions, at most one of each type.
    pub conditions: Vec<Condition>,
}

impl RouteStatus {
    /// The status of a route, with an entry for each parent.
    pub(crate) fn of<T>(
        route: &ResolvedRoute,
        outcomes: &[Result<T, Problem>],
        controller_name: &str,
    ) -> Self {
        let verdict = Verdict::on(route);
        let parents = route.parents.iter().zip(outcomes);
        let parents = parents.map(|(parent, outcome)| RouteParentStatus {
            parent_ref: (*parent.reference).clone(),
            controller_name: controller_name.to_owned(),
            conditions: conditions(route, outcome.as_ref().err(), &verdict),
        });
        Self {
            parents: parents.collect(),
        }
    }
}

impl RouteStatus {
    /// The status of an InferencePool, whose parents are the Gateways that send requests to it. `why_not` says
    /// why one of them cannot reach it.
    pub(crate) fn of_pool(
        pool: &InferencePool,
        refs: &[Problem],
        (gateways, why_not): (&[ObjectName], WhyNot<'_>),
        controller_name: &str,
    ) -> Self {
        let parents = gateways.iter().map(|gateway| RouteParentStatus {
            parent_ref: ParentReference {
                group: ObjectKind::Gateway.group().into(),
                kind: ObjectKind::Gateway.name().into(),
                namespace: Some((&*gateway.namespace).into()),
                name: (&*gateway.name).into(),
                section_name: None,
                port: None,
            },
            controller_name: controller_name.to_owned(),
            conditions: pool_conditions(pool, refs, why_not(gateway).as_ref()),
        });
        Self {
            parents: parents.collect(),
        }
    }
}

fn pool_conditions(
    pool: &InferencePool,
    refs: &[Problem],
    left_out: Option<&Problem>,
) -> Vec<Condition> {
    let text = match pool.spec.endpoint_picker_ref {
        Some(_) => "the pool is valid",
        None => "the pool is valid; without an endpoint picker, requests are balanced by load",
    };
    let conditions = Conditions::of(pool.metadata.generation());
    let conditions = match left_out {
        None => conditions.normal(Type::Accepted, Reason::Accepted, text),
        Some(problem) => conditions.abnormal(Type::Accepted, slice::from_ref(problem)),
    };
    let conditions = match refs {
        [] => conditions.normal(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "all references are resolved",
        ),
        refs => conditions.abnormal(Type::ResolvedRefs, refs),
    };
    conditions.done()
}

/// The conditions that are the same for every parent of a route.
struct Verdict {
    /// Why the route is refused.
    refusals: Vec<Problem>,
    /// Which of its rules are invalid, if others are valid.
    dropped: Option<Problem>,
    /// References that do not resolve.
    refs: Vec<Problem>,
}

impl Verdict {
    fn on(route: &ResolvedRoute) -> Self {
        let problems = route.rules.iter().flat_map(|rule| &rule.problems);
        let (refusals, dropped) = if route.is_refused() {
            let all = route.refusals.iter().chain(problems);
            (all.cloned().collect(), None)
        } else {
            (Vec::new(), dropped(route))
        };
        let refs = route.rules.iter().flat_map(|rule| &rule.refs);
        Self {
            refusals,
            dropped,
            refs: refs.cloned().collect(),
        }
    }
}

/// Gateway API prescribes the beginning of the message. A dropped rule serves nothing, but still takes
/// its requests.
fn dropped(route: &ResolvedRoute) -> Option<Problem> {
    let rules = route.rules.iter().enumerate();
    let dropped: Vec<_> = rules
        .filter(|(_, rule)| !rule.problems.is_empty())
        .collect();
    let texts = dropped.iter().map(|(index, rule)| {
        let problems = problem::join(rule.problems.iter());
        format!("Dropped Rule {index}, whose requests get status 500: {problems}")
    });
    let first = dropped.first()?.1.problems.first()?;
    Some(Problem {
        message: problem::join(texts),
        ..first.clone()
    })
}

fn conditions(
    route: &ResolvedRoute,
    detached: Option<&Problem>,
    verdict: &Verdict,
) -> Vec<Condition> {
    let conditions = Conditions::of(route.generation);
    let accepted = match (detached, &*verdict.refusals) {
        (Some(problem), _) => conditions.abnormal(Type::Accepted, slice::from_ref(problem)),
        (None, []) => conditions.normal(Type::Accepted, Reason::Accepted, "the route is attached"),
        (None, refusals) => conditions.abnormal(Type::Accepted, refusals),
    };
    let resolved = match &*verdict.refs {
        [] => accepted.normal(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "all references are resolved",
        ),
        refs => accepted.abnormal(Type::ResolvedRefs, refs),
    };
    // Gateway API: never on a route that is not accepted.
    match (detached, &verdict.dropped) {
        (None, Some(dropped)) => resolved
            .with(
                Type::PartiallyInvalid,
                ConditionStatus::True,
                dropped.reason,
                dropped.message.clone().into(),
                Some(dropped.field.clone()),
            )
            .done(),
        _ => resolved.done(),
    }
}
