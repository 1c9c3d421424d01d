//! What objects use of their budgets, for metrics: the highest share, and how many objects are refused.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::ObjectName;

use super::{Budget, Use};
use crate::gateway::api::Gateway;
use crate::objects::api::Resource as _;
use crate::objects::object_ref::ObjectRef;

/// A budget, and the Gateway whose budget it is; `None` for a budget of each object.
pub type Series = (Budget, Option<ObjectName>);

/// The use of a budget by a Gateway, or by all objects together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BudgetUse {
    /// The highest share of the limit that is used: above 1, something is refused. 0 if no object of
    /// this budget uses half of it.
    pub share: f64,
    /// Number of refused objects.
    pub refused: u64,
}

/// The uses by all objects.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    uses: BTreeMap<Series, BTreeMap<ObjectRef, Use>>,
    changed: BTreeSet<Series>,
}

impl Ledger {
    /// Replaces what an object uses of a budget.
    pub(crate) fn set(&mut self, budget: Budget, object: &ObjectRef, new: Option<Use>) {
        let gateway = (object.kind == Gateway::KIND).then(|| object.name.clone());
        let series = (budget, gateway);
        let uses = self.uses.entry(series.clone()).or_default();
        let old = match new {
            Some(new) => uses.insert(object.clone(), new),
            None => uses.remove(object),
        };
        if uses.is_empty() {
            self.uses.remove(&series);
        }
        if old != new {
            self.changed.insert(series);
        }
    }

    /// The series that changed since the last call; `None` for those that nothing uses any more.
    pub(crate) fn take_changed(&mut self) -> Vec<(Series, Option<BudgetUse>)> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let changed = changed.map(|series| {
            let total = self.uses.get(&series).map(total);
            (series, total)
        });
        changed.collect()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }
}

fn total(uses: &BTreeMap<ObjectRef, Use>) -> BudgetUse {
    let mut total = BudgetUse::default();
    for one in uses.values() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share needs no more precision"
        )]
        let share = one.used as f64 / one.limit.max(1) as f64;
        total.share = total.share.max(share);
        total.refused += u64::from(one.refused);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::api::HttpRoute;

    #[test]
    fn the_highest_share_and_all_refused_objects_count() {
        let object = |name| ObjectRef::of::<HttpRoute>(&ObjectName::new("a", name));
        let budget = Budget::RouteRules;
        let mut ledger = Ledger::default();
        for (name, used) in [("small", 4), ("half", 6), ("large", 12), ("larger", 15)] {
            ledger.set(budget, &object(name), Use::of_object(used, 10));
        }
        let total = BudgetUse {
            share: 1.5,
            refused: 2,
        };
        assert_eq!(ledger.take_changed(), [((budget, None), Some(total))]);
        assert_eq!(ledger.take_changed(), []);
        for name in ["small", "half", "large", "larger"] {
            ledger.set(budget, &object(name), None);
        }
        assert_eq!(ledger.take_changed(), [((budget, None), None)]);
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_gateway_has_a_series_of_its_own() {
        let name = ObjectName::new("a", "edge");
        let mut ledger = Ledger::default();
        let one = Use::of_object(9, 10);
        ledger.set(Budget::RouteRules, &ObjectRef::of::<Gateway>(&name), one);
        let changed = ledger.take_changed();
        assert_eq!(changed[0].0, (Budget::RouteRules, Some(name)));
    }
}
