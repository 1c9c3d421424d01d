//! The policies, backends and Services that a Gateway has no room for.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::ObjectName;

use super::rooms::{Holder, HolderKind};
use super::{Budget, Use};
use crate::engine::outcome::Gateways;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::gateway::api::Gateway;
use crate::objects::object_ref::ObjectRef;
use crate::status::problem::Problem;
use crate::status::reason::Reason;
use crate::units::{
    AnyUnit, BackendUseUnit, EffectUnit, PoolUnit, RoomUnit, ServiceUnit, XBackendUnit,
};

/// The holders that have no room, and what all would take.
#[derive(Debug, PartialEq)]
pub(crate) struct RoomOutcome {
    refused: BTreeMap<Holder, Budget>,
    uses: [(Budget, Use); 2],
}

impl Unit for RoomUnit {
    type Output = RoomOutcome;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<RoomOutcome> {
        let Self(gateway, room) = self;
        let used = reader.claims.rooms.at(gateway, *room)?;
        let limits = &reader.options().budgets;
        let refused = used.refused(*room, &gateway.namespace, limits);
        let uses = std::array::from_fn(|number| {
            let budget = room.budgets()[number];
            let of_budget = refused.values().filter(|it| **it == budget).count();
            let used = Use {
                used: used.total[number],
                limit: limits.of(budget),
                refused: u32::try_from(of_budget).unwrap_or(u32::MAX),
            };
            (budget, used)
        });
        Some(RoomOutcome { refused, uses })
    }

    fn publish(
        &self,
        old: Option<&RoomOutcome>,
        new: Option<&RoomOutcome>,
        changes: &mut Changes<'_>,
    ) {
        let gateway = ObjectRef::of::<Gateway>(&self.0);
        let uses = |it: Option<&RoomOutcome>| it.map(|it| it.uses);
        let (before, after) = (uses(old), uses(new));
        changes.uses(
            &gateway,
            before.as_ref().map_or(&[], |it| it),
            after.as_ref().map_or(&[], |it| it),
        );
        let none = BTreeMap::new();
        let old = old.map_or(&none, |it| &it.refused);
        let new = new.map_or(&none, |it| &it.refused);
        let holders: BTreeSet<&Holder> = old.keys().chain(new.keys()).collect();
        for holder in holders {
            if old.get(holder) != new.get(holder) {
                changes.run(emitting(holder));
            }
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.rooms.at(&self.0, self.1).is_some()
    }
}

/// The unit that emits the resources of a holder.
fn emitting(holder: &Holder) -> AnyUnit {
    let name = holder.name.clone();
    match holder.kind {
        HolderKind::TrafficPolicy
        | HolderKind::Networks
        | HolderKind::RateTables
        | HolderKind::Answers
        | HolderKind::PathRewrite
        | HolderKind::HashTables => EffectUnit(name).into(),
        HolderKind::Backend => BackendUseUnit(name).into(),
        HolderKind::XBackend => XBackendUnit(name).into(),
        HolderKind::Pool => PoolUnit(name).into(),
        HolderKind::Service => ServiceUnit(name).into(),
    }
}

/// The Gateways that have no room for a holder, each with the budget that it exceeds.
#[derive(Debug, Default)]
pub(crate) struct FullGateways(BTreeMap<ObjectName, Budget>);

impl FullGateways {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These, and others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        for (gateway, budget) in others.0 {
            self.0.entry(gateway).or_insert(budget);
        }
        self
    }

    /// Those where this budget is exceeded.
    pub(crate) fn of(mut self, budget: Budget) -> Self {
        self.0.retain(|_, exceeded| *exceeded == budget);
        self
    }

    pub(crate) fn has(&self, gateway: &ObjectName) -> bool {
        self.0.contains_key(gateway)
    }

    /// The Gateways with room, and those without.
    pub(crate) fn split(&self, gateways: Gateways) -> (Gateways, Gateways) {
        if self.0.is_empty() {
            return (gateways, Gateways::default());
        }
        let (full, others): (Vec<_>, Vec<_>) =
            gateways.iter().cloned().partition(|it| self.has(it));
        (others.into(), full.into())
    }
}

impl UnitReader<'_> {
    /// Which of these Gateways have no room for a holder. [`RoomUnit`] has the unit that emits its resources
    /// run when that changes.
    pub(crate) fn full_gateways(
        &self,
        kind: HolderKind,
        name: &ObjectName,
        gateways: &[ObjectName],
    ) -> FullGateways {
        let room = kind.room();
        let full = gateways.iter().filter_map(|gateway| {
            let unit = RoomUnit(gateway.clone(), room);
            let refused = &self.tables.get(&unit)?.refused;
            if refused.is_empty() {
                return None;
            }
            let name = name.clone();
            let budget = refused.get(&Holder { kind, name })?;
            Some((gateway.clone(), *budget))
        });
        FullGateways(full.collect())
    }

    /// Why Gateways have no room for something; `effect` says what follows.
    pub(crate) fn room_problem(
        &self,
        full: &FullGateways,
        what: &str,
        effect: &str,
    ) -> Option<Problem> {
        let (gateway, budget) = full.0.first_key_value()?;
        let others = match full.0.len() - 1 {
            0 => String::new(),
            more => format!(", nor have {more} other Gateways"),
        };
        let definition = budget.definition();
        let limit = definition.unit.text(self.options().budgets.of(*budget));
        let message = format!(
            "Gateway {gateway} has no room for this {what}{others}: its limit is {limit} ({}), and older ones \
             of its namespace, and other namespaces with less, come first. {effect}. Remove some, or use \
             another Gateway",
            definition.counts
        );
        Some(Problem::new(Reason::GatewayFull, "", message))
    }
}

/// What becomes of requests to a backend that a Gateway has no room for.
pub(crate) const NO_ROOM: &str = "Requests to it get status 500 there";
