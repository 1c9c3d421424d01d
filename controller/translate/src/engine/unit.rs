//! The trait of all units, and the list of them.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
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
use crate::backend::own_unit::BackendUnit;
use crate::backend::own_use::BackendUseUnit;
use crate::backend::picker::PickerUnit;
use crate::backend::pool_unit::PoolUnit;
use crate::backend::service_unit::ServiceUnit;
use crate::backend::upstream::Destination;
use crate::backend::x_backend_unit::XBackendUnit;
use crate::budgets::closed_hosts::ClosedHostsUnit;
use crate::budgets::cost::CostUnit;
use crate::budgets::expressions::ExpressionsUnit;
use crate::budgets::ledger::Ledger;
use crate::budgets::room::RoomUnit;
use crate::budgets::view::ViewUnit;
use crate::budgets::{Budget, Use};
use crate::gateway::all_listeners::GatewayUnit;
use crate::gateway::api::Gateway;
use crate::gateway::carried::CarriedUnit;
use crate::gateway::listener_set_status_unit::SetStatusUnit;
use crate::gateway::listeners_unit::ListenersUnit;
use crate::gateway::properties_unit::GatewayPropertiesUnit;
use crate::gateway::socket_unit::SocketUnit;
use crate::gateway::status_unit::GatewayStatusUnit;
use crate::objects::object_index::ObjectIndex;
use crate::objects::reader::Reader;
use crate::objects::store::ObjectRef;
use crate::policy::backend_tls_status_unit::BackendTlsStatusUnit;
use crate::policy::backend_tls_target::BackendTlsTargetUnit;
use crate::policy::backend_tls_unit::BackendTlsUnit;
use crate::policy::backend_traffic_effect::BackendTrafficEffectUnit;
use crate::policy::backend_traffic_target::BackendTrafficTargetUnit;
use crate::policy::backend_traffic_unit::BackendTrafficUnit;
use crate::policy::effect::EffectUnit;
use crate::policy::target::TargetUnit;
use crate::policy::tokens::TokensUnit;
use crate::policy::traffic::PolicyUnit;
use crate::route::attached::AttachedUnit;
use crate::route::conflicts_unit::RouteConflictsUnit;
use crate::route::resolved::RouteUnit;
use crate::route::sessions::RouteSessionsUnit;
use crate::status::Status;

/// A part of the translation that is computed as a whole, whenever a fact that it read has changed.
pub(crate) trait Unit: Clone + fmt::Debug + Eq + Hash + Into<AnyUnit> {
    /// The output, which other units read.
    type Output: fmt::Debug + PartialEq;

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
    pub(crate) fn ours(
        &mut self,
        kind: &'static str,
        name: &ObjectName,
        (before, after): (bool, bool),
    ) {
        let entry =
            |there: bool| there.then(|| (Arc::clone(&name.namespace), (kind, name.clone())));
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

    fn run<U: Unit>(&mut self, unit: &U, table: fn(&mut Tables) -> &mut Table<U>) -> UnitRun {
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
        let table = table(&mut self.tables);
        let old = table.get(unit);
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
            match new {
                Some(new) => table.insert(unit.clone(), new),
                None => table.remove(unit),
            }
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
pub(crate) struct Table<U: Unit>(FastHashMap<U, Box<U::Output>>);

impl<U: Unit> Default for Table<U> {
    fn default() -> Self {
        Self(FastHashMap::default())
    }
}

impl<U: Unit> Table<U> {
    pub(crate) fn get(&self, unit: &U) -> Option<&U::Output> {
        self.0.get(unit).map(|output| &**output)
    }

    fn insert(&mut self, unit: U, output: U::Output) {
        self.0.insert(unit, Box::new(output));
    }

    fn remove(&mut self, unit: &U) {
        self.0.remove(unit);
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

macro_rules! units {
    ($($(#[$doc:meta])* $unit:ident in $table:ident;)*) => {
        /// A unit of any kind. The order of kinds is that of the strata: a unit reads only those
        /// before it.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[expect(clippy::enum_variant_names, reason = "a variant has the name of its type")]
        pub(crate) enum AnyUnit {
            $($(#[$doc])* $unit($unit),)*
        }

        /// The strata by name, in their order.
        #[expect(clippy::enum_variant_names, reason = "a variant has the name of its unit")]
        enum Stratum {
            $($unit,)*
        }

        /// How many strata there are.
        pub(crate) const STRATA: usize = [$(Stratum::$unit as usize),*].len();

        /// The outputs of all units.
        #[derive(Debug, Default)]
        pub(crate) struct Tables {
            $(pub(crate) $table: Table<$unit>,)*
        }

        $(impl From<$unit> for AnyUnit {
            fn from(unit: $unit) -> Self {
                Self::$unit(unit)
            }
        })*

        impl AnyUnit {
            /// The number of its stratum.
            pub(crate) fn stratum(&self) -> usize {
                match self {
                    $(Self::$unit(_) => Stratum::$unit as usize,)*
                }
            }

            /// Runs a unit, and returns what changes.
            pub(crate) fn run(&self, state: &mut State) -> UnitRun {
                match self {
                    $(Self::$unit(unit) => state.run(unit, |tables| &mut tables.$table),)*
                }
            }
        }

        #[cfg(test)]
        impl Tables {
            pub(crate) fn is_empty(&self) -> bool {
                true $(&& self.$table.is_empty())*
            }
        }
    };
}

units! {
    BackendUnit in backends;
    BackendTlsUnit in backend_tls;
    /// A target of BackendTLSPolicy objects.
    BackendTlsTargetUnit in backend_tls_targets;
    /// An XBackendTrafficPolicy, apart from its targets.
    BackendTrafficUnit in backend_traffic;
    /// A target of XBackendTrafficPolicy objects.
    BackendTrafficTargetUnit in backend_traffic_targets;
    /// A Gateway apart from its listeners.
    GatewayPropertiesUnit in frames;
    /// The resolved listeners of a Gateway or ListenerSet, before conflicts.
    ListenersUnit in listeners;
    /// A Gateway with the listeners of its ListenerSets.
    GatewayUnit in gateways;
    /// A socket of a machine.
    SocketUnit in sockets;
    /// The listeners and routes that a Gateway carries.
    CarriedUnit in carried;
    /// A resolved route: its rules and parents.
    RouteUnit in routes;
    /// The routes that do not fit into the view of a Gateway.
    ViewUnit in views;
    /// The host names at which a Gateway rejects every request, for lack of room.
    ClosedHostsUnit in closed_hosts;
    /// The routes of HTTP and gRPC at a listener.
    RouteConflictsUnit in route_conflicts;
    /// The regular expressions of the routes at a Gateway.
    ExpressionsUnit in expressions;
    /// A route at its listeners.
    AttachedUnit in attached;
    /// A resolved `TrafficPolicy`, before conflicts.
    PolicyUnit in policies;
    /// A target of traffic policies.
    TargetUnit in targets;
    /// The key sets that a `TrafficPolicy` verifies tokens with.
    TokensUnit in tokens;
    /// The Gateways that ask the endpoint picker of an InferencePool.
    PickerUnit in pickers;
    /// What a policy, backend or Service adds to the views of Gateways.
    CostUnit in costs;
    /// The policies, backends or Services that a Gateway has no room for.
    RoomUnit in rooms;
    /// A Service in use.
    ServiceUnit in services;
    /// A `Backend` in use.
    BackendUseUnit in backend_uses;
    /// An InferencePool in use.
    PoolUnit in pools;
    /// An XBackend in use.
    XBackendUnit in x_backends;
    /// A `TrafficPolicy` at its targets.
    EffectUnit in effects;
    /// An XBackendTrafficPolicy at its targets.
    BackendTrafficEffectUnit in backend_traffic_effects;
    /// The status of a BackendTLSPolicy.
    BackendTlsStatusUnit in backend_tls_statuses;
    /// The rules of a route with session persistence of `XBackendTrafficPolicies`.
    RouteSessionsUnit in route_sessions;
    /// The status of a ListenerSet.
    SetStatusUnit in set_statuses;
    /// The status of a Gateway.
    GatewayStatusUnit in gateway_statuses;
}
