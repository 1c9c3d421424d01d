//! The status of a route.

use std::slice;

use serde::Serialize;

use super::{Condition, ConditionStatus, ConditionType as Type, Conditions, Reason};
use crate::api::ParentReference;
use crate::problem::{self, Problem};
use crate::resolve::route::{Route, RouteParent};

/// The status of a route: our entries of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RouteStatus {
    /// One entry for each parent that is ours, in the order of the spec.
    pub parents: Vec<RouteParentStatus>,
}

/// What a parent makes of a route.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteParentStatus {
    /// The parent, as the route named it.
    pub parent_ref: ParentReference,
    /// Signed by us.
    pub controller_name: String,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl RouteStatus {
    pub(crate) fn of(route: &Route<'_>, controller_name: &str) -> Self {
        let verdict = Verdict::on(route);
        let parents = route.parents.iter().map(|parent| RouteParentStatus {
            parent_ref: parent.reference.clone(),
            controller_name: controller_name.to_owned(),
            conditions: conditions(route, parent, &verdict),
        });
        Self {
            parents: parents.collect(),
        }
    }
}

/// What every parent of a route says alike.
struct Verdict {
    /// Why the route is refused.
    refusals: Vec<Problem>,
    /// Which of its rules are dropped, if others are left.
    dropped: Option<Problem>,
    /// References that lead nowhere.
    refs: Vec<Problem>,
}

impl Verdict {
    fn on(route: &Route<'_>) -> Self {
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

/// The message starts as Gateway API wants it to.
fn dropped(route: &Route<'_>) -> Option<Problem> {
    let rules = route.rules.iter().enumerate();
    let dropped: Vec<_> = rules
        .filter(|(_, rule)| !rule.problems.is_empty())
        .collect();
    let texts = dropped.iter().map(|(index, rule)| {
        let problems = problem::join(rule.problems.iter());
        format!("Dropped Rule {index}: {problems}")
    });
    let first = dropped.first()?.1.problems.first()?;
    Some(Problem {
        message: problem::join(texts),
        ..first.clone()
    })
}

fn conditions(route: &Route<'_>, parent: &RouteParent<'_>, verdict: &Verdict) -> Vec<Condition> {
    let conditions = Conditions::of(route.metadata.generation);
    let accepted = match (&parent.attached, &*verdict.refusals) {
        (Err(problem), _) => conditions.unhappy(Type::Accepted, slice::from_ref(problem)),
        (Ok(_), []) => conditions.happy(Type::Accepted, Reason::Accepted, "the route is attached"),
        (Ok(_), refusals) => conditions.unhappy(Type::Accepted, refusals),
    };
    let resolved = match &*verdict.refs {
        [] => accepted.happy(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "every reference leads somewhere",
        ),
        refs => accepted.unhappy(Type::ResolvedRefs, refs),
    };
    // Gateway API: never on a route that is not accepted.
    match (&parent.attached, &verdict.dropped) {
        (Ok(_), Some(dropped)) => resolved
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
