//! The incremental translation: changes of objects in, changes of resources and statuses out.
//!
//! # Units and facts
//!
//! The translation consists of **units**: a route, the listeners of a Gateway, a target of policies.
//! A unit is computed as a whole by a function without side effects, and its output is kept. [`units`](crate::units)
//! lists all kinds, and each has a file in the folder of its subject.
//!
//! The inputs of a unit are **facts**: keys that it looks up with a
//! [`Reader`](crate::objects::reader::Reader), such as an object of a kind and name, the labels of a namespace,
//! or a Gateway's offers to routes. The reader records every look-up, including those that find
//! nothing, so a unit that looked for a missing object runs when the object appears. A fact contains
//! no more than its readers need: routes read what a listener offers them, and do not run when its
//! certificate changes.
//!
//! # A batch
//!
//! 1. Each event changes an object and the indexes over objects
//!    ([`ObjectIndex`](crate::objects::object_index::ObjectIndex)). An event without a difference ends here.
//! 2. The readers of changed facts are marked. The kinds of units are **strata** in a fixed order, and
//!    a unit reads only from earlier strata. So running the marked units in this order runs each at
//!    most once.
//! 3. If a unit's output equals its previous one, it ends here. Otherwise the unit publishes which
//!    facts changed.
//!
//! # Results that depend on several objects
//!
//! Neither a winner nor a sum may depend on the order of events:
//!
//! - Shared things (a target of policies, a socket, the hosts of a listener) are keys with a set of
//!   claims, sorted by age and name ([`claims`]). A changed claim re-evaluates only its key.
//! - Counts (the routes of a listener, the users of a Service) change by the difference between a
//!   unit's previous contribution and its current one ([`counts`]).
//!
//! # Defects
//!
//! A unit that panics keeps its output ([`defects`]). One without an output has what closes its object, or
//! none where nothing is open without it. Where neither is known, the panic goes on: the process ends, and
//! proxies keep what they have.
//!
//! Time is a fact too: a reader records when a result expires, and the unit runs in the first batch
//! after that.

pub(crate) mod batch;
pub(crate) mod claims;
pub(crate) mod counts;
pub(crate) mod defects;
pub(crate) mod delta;
pub(crate) mod edges;
pub(crate) mod emitted;
pub(crate) mod environment;
pub(crate) mod fact;
pub(crate) mod ids;
pub(crate) mod outcome;
pub(crate) mod registry;
pub(crate) mod take_once;
pub(crate) mod unit;

use crate::budgets::ledger::{BudgetUse, Series};
pub use batch::{Batch, Event};
pub use defects::{Defect, note_panic};
pub use delta::{Delta, ViewChange};

use jiff::Timestamp;

use crate::catalogue;
use crate::objects::object_index::ObjectIndex;
use crate::objects::store::{Object, Store};
use crate::options::Options;
use edges::Edges;
use fact::Fact;
use ids::UnitId;
use registry::UnitRegistry;
use unit::{State, UnitRun};

/// All objects, and their translation. Synchronous and pure: the same batches at the same times
/// give the same deltas.
#[derive(Debug)]
pub struct Translator {
    state: State,
    registry: UnitRegistry,
    edges: Edges,
    is_started: bool,
    /// The number of the batch, modulo 2^32.
    batch: u32,
    /// Units that ran in it.
    ran: usize,
    /// Facts that these read.
    read: usize,
}

impl Translator {
    /// A translator without objects. The addresses in `options` apply until an event replaces them.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            state: State::new(ObjectIndex::new(options)),
            registry: UnitRegistry::default(),
            edges: Edges::default(),
            is_started: false,
            batch: 0,
            ran: 0,
            read: 0,
        }
    }

    /// The objects as the last batch left them.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.state.objects.store
    }

    /// The options as the last batch left them.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.state.objects.options
    }

    /// Applies a batch of changes; returns everything that they change, which is nothing before
    /// [`Event::Start`]. A time before that of an earlier batch counts as that time.
    pub fn apply(&mut self, batch: Batch, now: Timestamp) -> Delta {
        self.batch = self.batch.wrapping_add(1);
        (self.ran, self.read) = (0, 0);
        for event in batch {
            self.take(event);
        }
        let objects = &mut self.state.objects;
        objects.now = objects.now.max(now);
        if !self.is_started {
            return Delta::default();
        }
        self.run_units();
        let outcome = std::mem::take(&mut self.state.outcome);
        outcome.into_delta(self.registry.next_expiry())
    }

    /// Runs all units that are marked or expired.
    fn run_units(&mut self) {
        self.registry.expire(self.state.objects.now);
        while let Some((id, unit)) = self.registry.pop(self.batch) {
            self.ran += 1;
            let ran = self.state.run(&unit);
            self.read += ran.reads.len();
            self.follow(id, unit.stratum(), ran);
        }
    }

    /// Number of units that the last batch ran: its cost, independent of the machine.
    #[must_use]
    pub fn units_run(&self) -> usize {
        self.ran
    }

    /// Number of facts that these units read.
    #[must_use]
    pub fn facts_read(&self) -> usize {
        self.read
    }

    /// What is used of budgets, where that changed since the last call; `None` for what nothing uses any
    /// more.
    pub fn take_budget_changes(&mut self) -> Vec<(Series, Option<BudgetUse>)> {
        self.state.ledger.take_changed()
    }

    /// The units that panicked since the last call.
    pub fn take_defects(&mut self) -> Vec<Defect> {
        std::mem::take(&mut self.state.defects)
    }

    fn take(&mut self, event: Event) {
        let objects = &mut self.state.objects;
        match event {
            Event::Upsert(object) => {
                let is_new = !objects.store.contains(&object.object_ref());
                let Some(facts) = objects.upsert(object.clone()) else {
                    return;
                };
                if is_new {
                    self.mark_units_of(&object);
                }
                self.changed(&facts, None);
            }
            Event::Delete(object) => {
                if let Some((object, facts)) = objects.delete(&object) {
                    self.mark_units_of(&object);
                    self.changed(&facts, None);
                }
            }
            Event::Start => self.is_started = true,
            other => {
                let fact = environment::change(&mut objects.options, other);
                self.changed(fact.as_slice(), None);
            }
        }
    }

    /// Marks the units of an object to run: they exist as long as it does.
    fn mark_units_of(&mut self, object: &Object) {
        for unit in catalogue::of_object(object) {
            let id = self.registry.enter(unit);
            self.registry.mark(id, None);
        }
    }

    /// Applies the result of a unit's run.
    fn follow(&mut self, id: UnitId, stratum: usize, ran: UnitRun) {
        let reads = if ran.is_alive { ran.reads } else { Vec::new() };
        let old = std::mem::take(self.registry.reads(id));
        let (new, forgotten) = self.edges.replace(id, &old, reads);
        *self.registry.reads(id) = new;
        for fact in &forgotten {
            self.state.objects.forget(fact);
        }
        if ran.is_alive {
            self.registry.set_expiry(id, ran.expires);
        } else {
            self.registry.leave(id);
        }
        self.changed(&ran.facts, Some(stratum));
        for unit in ran.units {
            let id = self.registry.enter(unit);
            self.registry.mark(id, Some(stratum));
        }
    }

    /// Marks the readers of changed facts.
    fn changed(&mut self, facts: &[Fact], stratum: Option<usize>) {
        for fact in facts {
            for unit in self.edges.readers(fact) {
                self.registry.mark(unit, stratum);
            }
        }
    }
}

#[cfg(test)]
impl Translator {
    /// Whether no state of any object is left.
    fn is_bare(&self) -> bool {
        let state = &self.state;
        state.objects.is_bare()
            && state.tables.is_empty()
            && state.claims.is_empty()
            && state.counts.is_empty()
            && state.ledger.is_empty()
            && self.registry.is_empty()
            && self.edges.is_empty()
    }
}

#[cfg(test)]
mod tests;
