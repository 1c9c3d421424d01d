//! The trait of all units, and how one runs.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::Arc;

use jiff::Timestamp;
use xds::fast_hash::FastHashMap;
use xds::model::{ObjectName, PolicyTarget};

use super::claims::Claims;
use super::counts::Counts;
use super::defects::{Defect, contain};
use super::fact::Fact;
use super::outcome::Outcome;
use crate::backend::upstream::Destination;
use crate::budgets::ledger::Ledger;
use crate::budgets::{Budget, Use};
use crate::gateway::api::Gateway;
use crate::objects::object_index::ObjectIndex;
use crate::objects::object_ref::ObjectRef;
use crate::objects::reader::Reader;
use crate::status::Status;
use crate::units::{AnyUnit, Identity, STRATA, with_all_units};

/// A part of the translation that is computed as a whole, whenever a fact that it read has changed.
pub(crate) trait Unit: Identity + Send {
    /// The output, which other units read.
    type Output: fmt::Debug + PartialEq + Send + 'static;

    /// Computes the output; `None` if it has none.
    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output>;

    /// Publishes the differences between two outputs: facts, claims, counts, and resources.
    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    );

    /// Whether it can still have output: its object or claims exist. Otherwise it is removed.
    fn is_alive(&self, state: &State) -> bool;

    /// Whether nothing is open without its output that would be closed with it.
    const IS_CLOSED_WITHOUT: bool = false;

    /// What takes the place of its output if computing that panics.
    fn instead(&self, _reader: &UnitReader<'_>) -> Instead<Self::Output> {
        Instead::Old
    }
}

/// What takes the place of an output that cannot be computed.
pub(crate) enum Instead<T> {
    /// The old one. Without any, the panic goes on, unless nothing is open then.
    Old,
    /// This one, or none.
    New(Option<T>),
}

/// Read access of a unit: to objects by its [`Reader`], to other units by methods next to those
/// units.
pub(crate) struct UnitReader<'a> {
    reader: Reader<'a>,
    pub(crate) tables: &'a Tables,
    pub(crate) claims: &'a Claims,
    pub(crate) counts: &'a Counts,
}

impl<'a> Deref for UnitReader<'a> {
    type Target = Reader<'a>;

    fn deref(&self) -> &Reader<'a> {
        &self.reader
    }
}

/// The changes that a unit's new output causes.
pub(crate) struct Changes<'a> {
    pub(crate) objects: &'a mut ObjectIndex,
    pub(crate) claims: &'a mut Claims,
    pub(crate) counts: &'a mut Counts,
    pub(crate) outcome: &'a mut Outcome,
    ledger: &'a mut Ledger,
    facts: Vec<Fact>,
    units: Vec<AnyUnit>,
}

impl Changes<'_> {
    /// Marks the readers of a changed fact.
    pub(crate) fn fact(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    /// Schedules a unit to run, even if it has run before.
    pub(crate) fn run(&mut self, unit: impl Into<AnyUnit>) {
        self.units.push(unit.into());
    }
}

impl Changes<'_> {
    /// Sets the status of an object.
    pub(crate) fn status(&mut self, object: ObjectRef, mut status: Option<Status>) {
        if let Some(status) = &mut status {
            status.shorten();
        }
        self.outcome.statuses.insert(object, status);
    }

    /// Replaces what an object uses of its budgets.
    pub(crate) fn uses(
        &mut self,
        object: &ObjectRef,
        old: &[(Budget, Use)],
        new: &[(Budget, Use)],
    ) {
        let gone = old
            .iter()
            .filter(|(budget, _)| new.iter().all(|(it, _)| it != budget));
        for (budget, _) in gone {
            self.ledger.set(*budget, object, None);
        }
        for (budget, used) in new.iter().filter(|it| !old.contains(it)) {
            self.ledger.set(*budget, object, Some(*used));
        }
    }

    /// Records where a unit sends requests, by Gateway, before and after.
    pub(crate) fn users<'u>(
        &mut self,
        old: impl Iterator<Item = &'u (Destination, ObjectName)> + Clone,
        new: impl Iterator<Item = &'u (Destination, ObjectName)> + Clone,
    ) {
        let user = |(to, gateway): &(Destination, ObjectName)| (to.upstream(), gateway.clone());
        let (before, after) = (old.clone().map(user), new.clone().map(user));
        let changed = self.counts.users.replace(before, after).into_iter();
        let changed = changed.filter(|(_, is_other_set)| *is_other_set);
        let facts = changed.map(|(upstream, _)| Fact::Users(upstream));
        self.facts.extend(facts);
        let port = |(to, _): &(Destination, ObjectName)| to.port();
        let (before, after) = (old.filter_map(port), new.filter_map(port));
        let changed = self.counts.ports.replace(before, after).into_iter();
        let changed = changed.filter(|(_, is_other_set)| *is_other_set);
        let facts = changed.map(|(service, _)| Fact::PortsInUse(service));
        self.facts.extend(facts);
    }

    /// How many policies stand in for one that Gateways refuse, each Gateway as often as it has one, before and
    /// after.
    pub(crate) fn closing_policies(&mut self, old: &[ObjectName], new: &[ObjectName]) {
        if old == new {
            return;
        }
        let counts = &mut self.counts.closing_policies;
        for gateway in new {
            *counts.entry(gateway.clone()).or_default() += 1;
        }
        for gateway in old {
            let count = counts.entry(gateway.clone()).or_default();
            *count = count.saturating_sub(1);
        }
        let budget = Budget::GatewayClosingPolicies;
        let limit = self.objects.options.budgets.of(budget);
        let gateways: BTreeSet<&ObjectName> = old.iter().chain(new).collect();
        for gateway in gateways {
            let used = counts.get(gateway).copied().filter(|used| *used > 0);
            if used.is_none() {
                counts.remove(gateway);
            }
            let used = used.map(|used| Use {
                used,
                limit,
                refused: 0,
            });
            let object = ObjectRef::of::<Gateway>(gateway);
            self.ledger.set(budget, &object, used);
        }
    }

    /// The Gateways that a policy does not apply to for lack of room in its status, before and after.
    pub(crate) fn left_out(&mut self, policy: &ObjectRef, old: &[ObjectName], new: &[ObjectName]) {
        let entry = |gateway: &ObjectName| (gateway.clone(), policy.clone());
        let (old, new) = (old.iter().map(entry), new.iter().map(entry));
        let changed = self.counts.left_out.replace(old, new).into_iter();
        let facts = changed.map(|(gateway, _)| Fact::LeftOutOf(gateway));
        self.facts.extend(facts);
    }

    /// The Gateway at which policies of a target take precedence over others, before and after, and whether they
    /// override the same.
    pub(crate) fn overriding(
        &mut self,
        target: &Arc<PolicyTarget>,
        (old, new): (Option<&ObjectName>, Option<&ObjectName>),
        is_same: bool,
    ) {
        let entry = |gateway: &ObjectName| (gateway.clone(), Arc::clone(target));
        let (before, after) = (old.into_iter().map(entry), new.into_iter().map(entry));
        let changed = self.counts.overriding.replace(before, after).into_iter();
        let changed = changed.map(|(gateway, _)| gateway);
        let altered = new.filter(|_| old == new && !is_same).cloned();
        let facts = changed.chain(altered).map(Fact::Overriding);
        self.facts.extend(facts);
    }

    /// Whether an object of this controller carries requests, before and after.
    pub(crate) fn ours(&mut self, object: &ObjectRef, (before, after): (bool, bool)) {
        let namespace = &object.name.namespace;
        let entry = |there: bool| there.then(|| (Arc::clone(namespace), object.clone()));
        let (before, after) = (entry(before).into_iter(), entry(after).into_iter());
        let changed = self.counts.ours.replace(before, after).into_iter();
        let facts = changed.map(|(namespace, _)| Fact::OursIn(namespace));
        self.facts.extend(facts);
    }
}

/// The inputs and outputs of all units.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) objects: ObjectIndex,
    pub(crate) tables: Tables,
    pub(crate) claims: Claims,
    pub(crate) counts: Counts,
    pub(crate) outcome: Outcome,
    pub(crate) ledger: Ledger,
    /// Units that panicked, until they are reported.
    pub(crate) defects: Vec<Defect>,
}

/// The effects of a run of a unit.
pub(crate) struct UnitRun {
    pub(crate) reads: Vec<Fact>,
    pub(crate) expires: Option<Timestamp>,
    /// The facts that changed.
    pub(crate) facts: Vec<Fact>,
    pub(crate) units: Vec<AnyUnit>,
    /// Whether it is to be kept.
    pub(crate) is_alive: bool,
}

impl State {
    pub(crate) fn new(objects: ObjectIndex) -> Self {
        Self {
            objects,
            tables: Tables::default(),
            claims: Claims::default(),
            counts: Counts::default(),
            outcome: Outcome::default(),
            ledger: Ledger::default(),
            defects: Vec::new(),
        }
    }

    fn run_unit<U: Unit>(&mut self, unit: &U) -> UnitRun {
        let reader = UnitReader {
            reader: Reader::new(&self.objects),
            tables: &self.tables,
            claims: &self.claims,
            counts: &self.counts,
        };
        let computed = contain(|| unit.compute(&reader));
        let computed = computed.map_err(|payload| (payload, unit.instead(&reader)));
        let (reads, expires) = reader.reader.into_reads();
        let mut changes = Changes {
            objects: &mut self.objects,
            claims: &mut self.claims,
            counts: &mut self.counts,
            outcome: &mut self.outcome,
            ledger: &mut self.ledger,
            facts: Vec::new(),
            units: Vec::new(),
        };
        let old = self.tables.get(unit);
        let new = match computed {
            Ok(new) => Some(new),
            Err((payload, instead)) => {
                self.defects.push(Defect::of(unit, &payload));
                match instead {
                    Instead::New(new) => Some(new),
                    Instead::Old if old.is_some() || U::IS_CLOSED_WITHOUT => None,
                    Instead::Old => resume_unwind(payload),
                }
            }
        };
        if let Some(new) = new
            && old != new.as_ref()
        {
            unit.publish(old, new.as_ref(), &mut changes);
            self.tables.set(unit, new);
        }
        let Changes { facts, units, .. } = changes;
        UnitRun {
            reads,
            expires,
            facts,
            units,
            is_alive: unit.is_alive(self),
        }
    }
}

/// Outputs by unit. They are boxed: more than half of the entries of a table can be free.
#[derive(Debug)]
struct Table<U: Unit>(FastHashMap<U, Box<U::Output>>);

impl<U: Unit> Default for Table<U> {
    fn default() -> Self {
        Self(FastHashMap::default())
    }
}

/// The table of a stratum, whose type only its units know.
trait AnyTable: Any + fmt::Debug + Send {
    #[cfg(test)]
    fn is_empty(&self) -> bool;
}

impl<U: Unit> AnyTable for Table<U> {
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The outputs of all units.
#[derive(Debug)]
pub(crate) struct Tables([Option<Box<dyn AnyTable>>; STRATA]);

impl Default for Tables {
    fn default() -> Self {
        Self([const { None }; STRATA])
    }
}

impl Tables {
    /// The output of a unit.
    pub(crate) fn get<U: Unit>(&self, unit: &U) -> Option<&U::Output> {
        let table: &dyn Any = &**self.0.get(U::STRATUM)?.as_ref()?;
        let Table::<U>(outputs) = table.downcast_ref()?;
        outputs.get(unit).map(|output| &**output)
    }

    fn set<U: Unit>(&mut self, unit: &U, output: Option<U::Output>) {
        let Some(table) = self.0.get_mut(U::STRATUM) else {
            return;
        };
        let table: &mut dyn Any = &mut **table.get_or_insert_with(|| Box::<Table<U>>::default());
        let Some(Table::<U>(outputs)) = table.downcast_mut() else {
            return;
        };
        match output {
            Some(output) => drop(outputs.insert(unit.clone(), Box::new(output))),
            None => drop(outputs.remove(unit)),
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().flatten().all(|table| table.is_empty())
    }
}

macro_rules! run_any {
    ($($unit:ident)*) => {
        impl State {
            /// Runs a unit, and returns what changes.
            pub(crate) fn run(&mut self, unit: &AnyUnit) -> UnitRun {
                match unit {
                    $(AnyUnit::$unit(unit) => self.run_unit(unit),)*
                }
            }
        }
    };
}

with_all_units!(run_any);
