//! The routes that do not fit into the view of a Gateway.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::ObjectName;

use super::views::ViewRefusal;
use super::{Budget, Use};
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::gateway::api::Gateway;
use crate::objects::object_ref::ObjectRef;
use crate::route::name::RouteName;
use crate::status::problem::Problem;
use crate::status::reason::Reason;
use crate::units::{AttachedUnit, ExpressionsUnit, ViewUnit};

/// The routes of a Gateway that do not fit, and what all would take.
#[derive(Debug, PartialEq)]
pub(crate) struct View {
    refused: BTreeMap<RouteName, ViewRefusal>,
    uses: [(Budget, Use); 4],
}

impl Unit for ViewUnit {
    type Output = View;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<View> {
        let view = reader.claims.views.at(&self.0)?;
        let limits = &reader.options().budgets;
        let refused = view.refused(limits);
        let uses = view.total.by_budget().map(|(budget, used)| {
            let of_budget = refused.values().filter(|it| it.budget == budget).count();
            let used = Use {
                used,
                limit: limits.of(budget),
                refused: u32::try_from(of_budget).unwrap_or(u32::MAX),
            };
            (budget, used)
        });
        Some(View { refused, uses })
    }

    fn publish(&self, old: Option<&View>, new: Option<&View>, changes: &mut Changes<'_>) {
        let gateway = ObjectRef::of::<Gateway>(&self.0);
        changes.uses(&gateway, uses(old), uses(new));
        let none = BTreeMap::new();
        let old = old.map_or(&none, |view| &view.refused);
        let new = new.map_or(&none, |view| &view.refused);
        if old != new {
            changes.run(ExpressionsUnit(self.0.clone()));
        }
        let routes: BTreeSet<&RouteName> = old.keys().chain(new.keys()).collect();
        for route in routes {
            if old.get(route) != new.get(route) {
                changes.run(AttachedUnit(route.clone()));
            }
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.views.at(&self.0).is_some()
    }
}

fn uses(view: Option<&View>) -> &[(Budget, Use)] {
    view.map_or(&[], |view| &view.uses)
}

impl<'a> UnitReader<'a> {
    /// The routes that have no closing rule at a Gateway, for lack of room, by name. That changes only with the
    /// costs of routes.
    pub(crate) fn routes_without_closing_rule(
        &self,
        gateway: &ObjectName,
    ) -> impl Iterator<Item = &'a RouteName> {
        let view = self.tables.get(&ViewUnit(gateway.clone()));
        let refused = view.into_iter().flat_map(|view| &view.refused);
        refused.filter_map(|(route, refusal)| (!refusal.is_closed).then_some(route))
    }
}

impl UnitReader<'_> {
    /// What the view of a Gateway does not take of a route. [`ViewUnit`] has [`AttachedUnit`] and
    /// [`ExpressionsUnit`] run when that changes.
    pub(crate) fn refused_by_view(
        &self,
        gateway: &ObjectName,
        route: &RouteName,
    ) -> Option<ViewRefusal> {
        let view = self.tables.get(&ViewUnit(gateway.clone()))?;
        view.refused.get(route).copied()
    }

    /// Why a route does not fit into the view of a Gateway.
    pub(crate) fn view_problem(&self, gateway: &ObjectName, refusal: ViewRefusal) -> Problem {
        let budget = refusal.budget;
        let limit = self.options().budgets.of(budget);
        let definition = budget.definition();
        let effect = if refusal.is_closed {
            "Its requests get status 500"
        } else {
            "There is no room to reject these one by one either: all requests for its host names get status 500, \
             and so do other routes of its namespace that have them"
        };
        let message = format!(
            "Gateway {gateway} has no room for this route: its limit is {} ({}), and older routes of its \
             namespace, and other namespaces with less, come first. {effect}. Name fewer listeners, remove \
             routes, or use another Gateway",
            definition.unit.text(limit),
            definition.counts
        );
        Problem::new(Reason::GatewayFull, "", message)
    }
}
