//! What routes add to the views of Gateways: the input for deciding which of them fit.

use std::collections::BTreeMap;

use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

use super::fair_share::share;
use super::{Budget, Limits};
use crate::route::cost::{Cost, RouteCost};
use crate::route::name::RouteName;

/// The rank of a route at a Gateway: the older one first, for equal times the first by kind and name.
pub(crate) type RouteRank = (i64, RouteName);

/// The costs of all routes, by Gateway.
#[derive(Debug, Default)]
pub(crate) struct ViewCosts(FastHashMap<ObjectName, ViewCost>);

/// The costs of the routes of a Gateway.
#[derive(Debug, Default)]
pub(crate) struct ViewCost {
    /// The sum of their rules.
    pub(crate) total: Cost,
    /// What closes those that are refused at every Gateway.
    closed: Cost,
    /// With their creation times.
    routes: FastHashMap<RouteName, (i64, RouteCost)>,
}

/// What a Gateway does not take of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewRefusal {
    /// What it exceeds.
    pub(crate) budget: Budget,
    /// Whether there is room for the rule that closes it.
    pub(crate) is_closed: bool,
}

impl ViewCosts {
    /// Replaces the costs of a route of this creation time, each at another Gateway. Returns the Gateways where
    /// they changed.
    pub(crate) fn replace(
        &mut self,
        route: &RouteName,
        old: Option<(i64, &[(ObjectName, RouteCost)])>,
        new: Option<(i64, &[(ObjectName, RouteCost)])>,
    ) -> Vec<ObjectName> {
        if old == new {
            return Vec::new();
        }
        let mut changed: Vec<ObjectName> = Vec::new();
        let (created, new) = new.unwrap_or_default();
        for (gateway, cost) in new {
            let view = self.0.entry(gateway.clone()).or_default();
            view.set(route, created, *cost);
            changed.push(gateway.clone());
        }
        let (_, old) = old.unwrap_or_default();
        for (gateway, _) in old {
            if new.iter().any(|(it, _)| it == gateway) {
                continue;
            }
            if let Some(view) = self.0.get_mut(gateway) {
                view.remove(route);
                if view.routes.is_empty() {
                    self.0.remove(gateway);
                }
            }
            changed.push(gateway.clone());
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
    fn set(&mut self, route: &RouteName, created: i64, cost: RouteCost) {
        if let Some((was_created, place)) = self.routes.get_mut(route) {
            *was_created = created;
            let old = std::mem::replace(place, cost);
            self.subtract(old);
        } else {
            self.routes.insert(route.clone(), (created, cost));
        }
        match cost.rules {
            Some(rules) => self.total += rules,
            None => self.closed += cost.closed,
        }
    }

    fn remove(&mut self, route: &RouteName) {
        if let Some((_, cost)) = self.routes.remove(route) {
            self.subtract(cost);
        }
    }

    fn subtract(&mut self, cost: RouteCost) {
        match cost.rules {
            Some(rules) => self.total -= rules,
            None => self.closed -= cost.closed,
        }
    }

    /// The names of its routes.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &RouteName> {
        self.routes.keys()
    }

    /// Its routes by rank. Sorted when something does not fit, which is rare, and not with each change.
    fn by_rank(&self) -> Vec<(RouteRank, RouteCost)> {
        let routes = self.routes.iter();
        let routes = routes.map(|(name, (created, cost))| ((*created, name.clone()), *cost));
        let mut routes: Vec<_> = routes.collect();
        routes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        routes
    }

    /// The routes that do not fit, and those whose closing rule does not.
    pub(crate) fn refused(&self, limits: &Limits) -> BTreeMap<RouteName, ViewRefusal> {
        let for_closed = limits.for_closed();
        let is_full = self.total.exceeded(limits).is_some();
        if !is_full && self.closed.exceeded(&for_closed).is_none() {
            return BTreeMap::new();
        }
        let routes = self.by_rank();
        let rules = routes.iter();
        let rules = rules.filter_map(|(rank, cost)| Some((rank, cost.rules?)));
        let without_rules = left_out(&rules.collect::<Vec<_>>(), limits);
        let closed = routes
            .iter()
            .filter(|(rank, cost)| cost.rules.is_none() || without_rules.contains_key(rank));
        let closed: Vec<_> = closed.map(|(rank, cost)| (rank, cost.closed)).collect();
        let without_any = left_out(&closed, &for_closed);
        let mut refused = BTreeMap::new();
        for (rank, _) in closed {
            let budget = without_any.get(rank);
            let is_closed = budget.is_none();
            if let Some(budget) = without_rules.get(rank).or(budget).copied() {
                refused.insert(rank.1.clone(), ViewRefusal { budget, is_closed });
            }
        }
        refused
    }
}

/// Those that do not fit, of routes by rank, each with the budget that it exceeds. First each namespace gets
/// its share, then whatever is left goes to those that fit into it; among equals the older one comes first.
fn left_out<'a>(
    routes: &[(&'a RouteRank, Cost)],
    limits: &Limits,
) -> BTreeMap<&'a RouteRank, Budget> {
    let mut total = Cost::default();
    let mut wanted: BTreeMap<&str, Cost> = BTreeMap::new();
    for ((_, route), cost) in routes {
        total += *cost;
        *wanted.entry(&route.name.namespace).or_default() += *cost;
    }
    if total.exceeded(limits).is_none() {
        return BTreeMap::new();
    }
    let mut shares = limits.clone();
    for (number, (budget, _)) in total.by_budget().into_iter().enumerate() {
        let wanted = wanted.values().map(|it| it.by_budget()[number].1);
        shares = shares.within(budget, share(wanted, limits.of(budget)));
    }
    let mut used: BTreeMap<&str, Cost> = BTreeMap::new();
    let mut taken = Cost::default();
    let mut waiting = Vec::new();
    for (rank, cost) in routes {
        let own = used.entry(&rank.1.name.namespace).or_default();
        if (*own + *cost).exceeded(&shares).is_none() {
            *own += *cost;
            taken += *cost;
        } else {
            waiting.push((*rank, *cost));
        }
    }
    let mut left_out = BTreeMap::new();
    for (rank, cost) in waiting {
        match (taken + cost).exceeded(limits) {
            Some(budget) => {
                left_out.insert(rank, budget);
            }
            None => taken += cost,
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::name::RouteKind;

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

    fn rules(resources: u64) -> Cost {
        Cost {
            resources,
            bytes: 10 * resources,
            report: resources,
            attachments: resources,
        }
    }

    fn cost(resources: u64) -> RouteCost {
        RouteCost {
            rules: Some(rules(resources)),
            closed: rules(1),
        }
    }

    /// The names of the refused routes of a view, in order.
    fn refused(routes: &[(RouteRank, RouteCost)], limits: &Limits) -> Vec<String> {
        let mut view = ViewCost::default();
        for (rank, cost) in routes {
            view.set(&rank.1, rank.0, *cost);
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

    fn rank_in(namespace: &str, created: i64, name: &str) -> RouteRank {
        let (_, mut route) = rank(created, name);
        route.name = ObjectName::new(namespace, name);
        (created, route)
    }

    #[test]
    fn an_old_route_that_grows_refuses_routes_of_its_own_namespace() {
        let limits = Limits::default().with(Budget::ViewResources, 10);
        let mut routes = vec![
            (rank_in("tenant", 1, "oldest"), cost(1)),
            (rank_in("tenant", 2, "own"), cost(2)),
            (rank_in("one", 3, "one"), cost(3)),
            (rank_in("two", 4, "two"), cost(3)),
        ];
        assert!(refused(&routes, &limits).is_empty());
        routes[0].1 = cost(3);
        assert_eq!(refused(&routes, &limits), ["own"]);
        routes[0].1 = cost(9);
        assert_eq!(refused(&routes, &limits), ["oldest"]);
        routes.reverse();
        assert_eq!(refused(&routes, &limits), ["oldest"]);
    }

    #[test]
    fn what_others_leave_of_their_shares_is_used() {
        let limits = Limits::default().with(Budget::ViewResources, 10);
        let routes = [
            (rank_in("large", 1, "a"), cost(4)),
            (rank_in("large", 2, "b"), cost(4)),
            (rank_in("large", 3, "c"), cost(4)),
            (rank_in("small", 4, "d"), cost(2)),
        ];
        assert_eq!(refused(&routes, &limits), ["c"]);
    }

    #[test]
    fn rules_that_close_routes_have_a_part_beside_the_limits() {
        let limits = Limits::default().with(Budget::ViewResources, 8);
        let mut view = ViewCost::default();
        let too_large = RouteCost {
            rules: None,
            ..cost(0)
        };
        let add = |view: &mut ViewCost, (created, name): RouteRank, cost| {
            view.set(&name, created, cost);
        };
        add(&mut view, rank(1, "too-large"), too_large);
        add(&mut view, rank(2, "fits"), cost(8));
        assert!(view.refused(&limits).is_empty());
        for (created, name) in [(3, "full"), (4, "open")] {
            add(&mut view, rank(created, name), cost(1));
        }
        let refused = view.refused(&limits).into_iter();
        let refused: Vec<_> = refused
            .map(|(route, it)| (route.name.name.to_string(), it.is_closed))
            .collect();
        let expected = [("full".to_owned(), true), ("open".to_owned(), false)];
        assert_eq!(refused, expected);
        view.remove(&rank(1, "too-large").1);
        assert!(view.refused(&limits).values().all(|it| it.is_closed));
    }

    #[test]
    fn costs_are_replaced_by_gateway() {
        let gateway = |name| ObjectName::new("infra", name);
        let (one, two) = (gateway("one"), gateway("two"));
        let mut costs = ViewCosts::default();
        let (_, route) = rank(1, "a");
        let before = [(one.clone(), cost(1)), (two.clone(), cost(2))];
        let after = [(two.clone(), cost(3))];
        let (first, second) = (Some((1, &before[..])), Some((2, &after[..])));
        let changed = costs.replace(&route, None, first);
        assert_eq!(changed, [one.clone(), two.clone()]);
        let changed = costs.replace(&route, first, first);
        assert!(changed.is_empty());
        let changed = costs.replace(&route, first, second);
        assert_eq!(changed, [two.clone(), one.clone()]);
        assert!(costs.at(&one).is_none());
        assert_eq!(costs.at(&two).expect("it has a route").total, rules(3));
        costs.replace(&route, second, None);
        assert!(costs.is_empty());
    }
}
