//! What routes add to the views of Gateways: the input for deciding which of them fit.

use std::collections::BTreeMap;

use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

use super::units::RouteName;
use crate::budgets::{Budget, Limits};
use crate::lower::route_cost::Cost;

/// The rank of a route at a Gateway: the older one first, for equal times the first by kind and name.
pub(crate) type RouteRank = (i64, RouteName);

/// The costs of all routes, by Gateway.
#[derive(Debug, Default)]
pub(crate) struct ViewCosts(FastHashMap<ObjectName, ViewCost>);

/// The costs of the routes of a Gateway.
#[derive(Debug, Default)]
pub(crate) struct ViewCost {
    /// Their sum.
    pub(crate) total: Cost,
    routes: BTreeMap<RouteRank, Cost>,
}

impl ViewCosts {
    /// Replaces the costs of a route, each at another Gateway. Returns the Gateways where they changed.
    pub(crate) fn replace(
        &mut self,
        (old_rank, old): (Option<RouteRank>, &[(ObjectName, Cost)]),
        (new_rank, new): (Option<RouteRank>, &[(ObjectName, Cost)]),
    ) -> Vec<ObjectName> {
        if (&old_rank, old) == (&new_rank, new) {
            return Vec::new();
        }
        let mut changed: Vec<ObjectName> = Vec::new();
        for (gateway, _) in old {
            if let (Some(view), Some(rank)) = (self.0.get_mut(gateway), &old_rank) {
                view.remove(rank);
            }
            changed.push(gateway.clone());
        }
        for (gateway, cost) in new {
            if let Some(rank) = &new_rank {
                let view = self.0.entry(gateway.clone()).or_default();
                view.add(rank.clone(), *cost);
            }
            if !changed.contains(gateway) {
                changed.push(gateway.clone());
            }
        }
        for gateway in &changed {
            if self
                .0
                .get(gateway)
                .is_some_and(|view| view.routes.is_empty())
            {
                self.0.remove(gateway);
            }
        }
        changed
    }

    pub(crate) fn at(&self, gateway: &ObjectName) -> Option<&ViewCost> {
        self.0.get(gateway)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ViewCost {
    fn add(&mut self, rank: RouteRank, cost: Cost) {
        self.total += cost;
        if let Some(before) = self.routes.insert(rank, cost) {
            self.total -= before;
        }
    }

    fn remove(&mut self, rank: &RouteRank) {
        if let Some(cost) = self.routes.remove(rank) {
            self.total -= cost;
        }
    }

    /// The routes that do not fit, each with the budget that it exceeds: a route fits if it does together
    /// with the older ones that do. Costs as much as there are routes that are newer than the first that
    /// does not fit, which are none as long as all fit.
    pub(crate) fn refused(&self, limits: &Limits) -> BTreeMap<RouteName, Budget> {
        let mut taken = self.total;
        let mut newest = self.routes.iter().rev();
        let mut left_out: Vec<(&RouteRank, Cost)> = Vec::new();
        while taken.exceeded(limits).is_some()
            && let Some((rank, cost)) = newest.next()
        {
            taken -= *cost;
            left_out.push((rank, *cost));
        }
        let mut refused = BTreeMap::new();
        for ((_, route), cost) in left_out.into_iter().rev() {
            taken += cost;
            if let Some(budget) = taken.exceeded(limits) {
                taken -= cost;
                refused.insert(route.clone(), budget);
            }
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translator::units::RouteKind;

    fn rank(created: i64, name: &str) -> RouteRank {
        let name = ObjectName::new("app", name);
        (
            created,
            RouteName {
                kind: RouteKind::Http,
                name,
            },
        )
    }

    fn cost(resources: u64) -> Cost {
        Cost {
            resources,
            bytes: 10 * resources,
            report: resources,
        }
    }

    /// The names of the refused routes of a view, in order.
    fn refused(routes: &[(RouteRank, Cost)], limits: &Limits) -> Vec<String> {
        let mut view = ViewCost::default();
        for (rank, cost) in routes {
            view.add(rank.clone(), *cost);
        }
        let refused = view.refused(limits).into_keys();
        refused.map(|it| it.name.name.to_string()).collect()
    }

    #[test]
    fn the_newest_routes_are_refused_and_smaller_ones_that_fit_are_not() {
        let limits = Limits::default().with(Budget::ViewResources, 10);
        let mut routes = vec![
            (rank(1, "old"), cost(4)),
            (rank(2, "large"), cost(8)),
            (rank(3, "small"), cost(6)),
            (rank(4, "last"), cost(1)),
        ];
        assert_eq!(refused(&routes, &limits), ["large", "last"]);
        routes.reverse();
        assert_eq!(refused(&routes, &limits), ["large", "last"]);
        routes.pop();
        assert_eq!(refused(&routes, &limits), ["small"]);
    }

    #[test]
    fn a_view_that_fits_refuses_nothing() {
        let limits = Limits::default().with(Budget::ViewResources, 10);
        let routes = [(rank(1, "a"), cost(4)), (rank(1, "b"), cost(6))];
        assert!(refused(&routes, &limits).is_empty());
        let limits = limits.with(Budget::ViewBytes, 99);
        assert_eq!(refused(&routes, &limits), ["b"]);
        let limits = Limits::default().with(Budget::ViewReport, 5);
        assert_eq!(refused(&routes, &limits), ["b"]);
    }

    #[test]
    fn costs_are_replaced_by_gateway() {
        let gateway = |name| ObjectName::new("infra", name);
        let (one, two) = (gateway("one"), gateway("two"));
        let mut costs = ViewCosts::default();
        let (first, second) = (Some(rank(1, "a")), Some(rank(2, "a")));
        let before = [(one.clone(), cost(1)), (two.clone(), cost(2))];
        let after = [(two.clone(), cost(3))];
        let changed = costs.replace((None, &[]), (first.clone(), &before));
        assert_eq!(changed, [one.clone(), two.clone()]);
        let changed = costs.replace((first.clone(), &before), (first.clone(), &before));
        assert!(changed.is_empty());
        let changed = costs.replace((first, &before), (second.clone(), &after));
        assert_eq!(changed, [one.clone(), two.clone()]);
        assert!(costs.at(&one).is_none());
        assert_eq!(costs.at(&two).expect("it has a route").total, cost(3));
        costs.replace((second, &after), (None, &[]));
        assert!(costs.is_empty());
    }
}
