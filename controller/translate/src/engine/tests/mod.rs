//! For any history, a translator that applied it has the same output as one that sees only its end.

mod defects;
mod universe;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::{Mutex, OnceLock};
use std::{iter, thread};

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use xds::model::{Model, ObjectName, ResourceKey, SessionKey, SessionKeys};

use super::fact::Fact;
use super::{Batch, Delta, Event, Translator};
use crate::budgets::ledger::{BudgetUse, Series};
use crate::budgets::{Budget, Limits};
use crate::gateway::api::GatewayAddress;
use crate::gateway::infrastructure::Infrastructure;
use crate::objects::object_ref::ObjectRef;
use crate::options::{AssignedAddresses, ListenerLimits, NoAddress, Options};
use crate::status::Status;
use universe::{VersionedObject, things};

/// The state of a consumer of deltas.
#[derive(Debug, Default, PartialEq)]
struct Listener {
    model: Model,
    views: BTreeMap<ObjectName, BTreeSet<ResourceKey>>,
    statuses: BTreeMap<ObjectRef, Status>,
    infrastructure: BTreeMap<ObjectName, Infrastructure>,
    wake_at: Option<Timestamp>,
    budgets: BTreeMap<Series, BudgetUse>,
}

impl Listener {
    /// Applies a batch to a translator, and what it changes to this.
    fn apply(&mut self, translator: &mut Translator, batch: Batch, now: Timestamp) {
        self.apply_delta(translator.apply(batch, now));
        assert_eq!(translator.take_defects(), []);
        for (series, used) in translator.take_budget_changes() {
            match used {
                Some(used) => self.budgets.insert(series, used),
                None => self.budgets.remove(&series),
            };
        }
    }

    /// Applies a delta, which must not repeat what was known.
    fn apply_delta(&mut self, delta: Delta) {
        for (key, resource) in &delta.resources {
            let known = self.model.resource(key.kind, &key.key);
            assert_ne!(&known, resource, "{key} is repeated");
        }
        self.model.apply(delta.resources);
        for (gateway, change) in delta.views {
            let view = self.views.entry(gateway.clone()).or_default();
            for key in change.left {
                assert!(view.remove(&key), "{key} was not in the view of {gateway}");
            }
            for key in change.joined {
                assert!(
                    view.insert(key.clone()),
                    "{key} is in the view of {gateway} already"
                );
            }
            if view.is_empty() {
                self.views.remove(&gateway);
            }
        }
        take(&mut self.statuses, delta.statuses);
        take(&mut self.infrastructure, delta.infrastructure);
        self.wake_at = delta.wake_at;
    }
}

fn take<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    known: &mut BTreeMap<K, V>,
    changes: Vec<(K, Option<V>)>,
) {
    for (key, value) in changes {
        assert_ne!(known.get(&key), value.as_ref(), "{key:?} is repeated");
        match value {
            Some(value) => known.insert(key, value),
            None => known.remove(&key),
        };
    }
}

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    Upsert(usize, prop::sample::Index),
    Delete(usize),
    Addresses(bool),
    Assign(usize, bool),
    /// Trust bundles, and session keys of a Gateway: no unit reads both, so that each is needed.
    TrustBundles(bool),
    /// Parameters, with limits or without.
    Limits(bool),
    /// Parameters of the class, or no parameters at all.
    ClassParameters(bool),
}

type History = Vec<(Vec<Step>, usize)>;

fn history() -> impl Strategy<Value = History> {
    let thing = 0..universe().len();
    let step = prop_oneof![
        8 => (thing.clone(), any::<prop::sample::Index>())
            .prop_map(|(thing, version)| Step::Upsert(thing, version)),
        3 => thing.prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Addresses),
        1 => (1..3usize, any::<bool>()).prop_map(|(gateway, some)| Step::Assign(gateway, some)),
        1 => any::<bool>().prop_map(Step::TrustBundles),
        1 => any::<bool>().prop_map(Step::Limits),
        1 => any::<bool>().prop_map(Step::ClassParameters),
    ];
    let first = prop::collection::vec(step.clone(), 0..60);
    let batch = prop::collection::vec(step, 0..5);
    let rest = prop::collection::vec((batch, 0..TIMES.len()), 1..12);
    (first, rest).prop_map(|(first, mut rest)| {
        rest.insert(0, (first, 0));
        rest
    })
}

fn universe() -> &'static [VersionedObject] {
    static THINGS: OnceLock<Vec<VersionedObject>> = OnceLock::new();
    THINGS.get_or_init(things)
}

fn events(step: &Step) -> Vec<Event> {
    let event = match step {
        Step::Upsert(thing, version) => {
            Event::Upsert(version.get(&universe()[*thing].versions).clone())
        }
        Step::Delete(thing) => Event::Delete(universe()[*thing].reference.clone()),
        Step::Addresses(some) => {
            let address = "192.0.2.1".parse().expect("an address");
            Event::MachineAddresses(some.then_some(address).into_iter().collect())
        }
        Step::TrustBundles(some) => {
            let keys = some.then(|| {
                let key = SessionKey::new(&[7; 32]).expect("32 bytes");
                SessionKeys::new(vec![key], 0).expect("one key")
            });
            return vec![
                Event::TrustBundles(*some),
                Event::SessionKeys(ObjectName::new("a", "g1"), keys),
            ];
        }
        Step::Limits(some) => {
            let limits = ListenerLimits {
                ports: some.then_some(1),
                listeners: some.then_some(1),
            };
            let name = ObjectName::new("a", "sized");
            return vec![
                Event::Parameters(name.clone(), true),
                Event::ListenerLimits(name, limits),
            ];
        }
        Step::ClassParameters(some) => {
            let name = ObjectName::new("a", "sized");
            let class = "gateway".to_owned();
            if *some {
                return vec![Event::ClassParameters(class, Some(name))];
            }
            return vec![
                Event::ClassParameters(class, None),
                Event::Parameters(name.clone(), false),
                Event::ListenerLimits(name, ListenerLimits::default()),
            ];
        }
        Step::Assign(gateway, some) => {
            let address = GatewayAddress {
                kind: "IPAddress".to_owned(),
                value: "192.0.2.1".to_owned(),
                routability: String::new(),
            };
            let gateway = ObjectName::new("a", &format!("g{gateway}"));
            let assigned = AssignedAddresses {
                default: some.then_some(address).into_iter().collect(),
                cluster: Vec::new(),
                absence: NoAddress::Pending,
            };
            Event::AssignedAddresses(gateway, assigned)
        }
    };
    vec![event]
}

fn options(machine: bool) -> Options {
    let options = if machine {
        Options::machine()
    } else {
        Options::cluster()
    };
    Options {
        port_offset: 8000,
        ..options
    }
}

/// With budgets that are so small that histories exceed them, or with the usual ones.
fn with_budgets(options: Options, are_small: bool) -> Options {
    if !are_small {
        return options;
    }
    let budgets = Limits::default()
        .with(Budget::RouteRules, 3)
        .with(Budget::RouteBytes, 300)
        .with(Budget::ViewResources, 4)
        .with(Budget::ViewBytes, 1_000)
        .with(Budget::ViewReport, 400)
        .with(Budget::GatewayClosedHosts, 2)
        .with(Budget::GatewayPorts, 2)
        .with(Budget::SetListeners, 1)
        .with(Budget::SetCertificateBytes, 500)
        .with(Budget::GatewayPolicies, 2)
        .with(Budget::GatewayBackends, 1)
        .with(Budget::GatewayEndpoints, 3)
        // Room for the regular expressions of one route.
        .with(Budget::GatewayExpressionBytes, 4096);
    Options { budgets, ..options }
}

/// The output of a translator that receives the state of another one in one batch.
fn from_scratch(translator: &Translator) -> Listener {
    let objects = &translator.state.objects;
    let mut fresh = Translator::new(objects.options.clone());
    // In an order of its own, which is the same each time.
    let mut all: Vec<_> = objects.store.objects().collect();
    all.sort_by_key(|object| Reverse(object.object_ref()));
    let mut batch: Batch = all.into_iter().map(Event::Upsert).collect();
    batch.push(Event::Start);
    let mut listener = Listener::default();
    listener.apply(&mut fresh, batch, objects.now);
    listener
}

/// Applies a history. Returns whether the output is right after each batch.
fn follow(translator: &mut Translator, listener: &mut Listener, history: &History) -> bool {
    let mut now = Timestamp::MIN;
    translator.apply(vec![Event::Start], now);
    for (steps, time) in history {
        now = now.max(TIMES[*time].parse().expect("a time"));
        let batch = steps.iter().flat_map(events).collect();
        listener.apply(translator, batch, now);
        if *listener != from_scratch(translator) {
            return false;
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn incremental_translation_equals_full_translation(
        history in history(),
        machine: bool,
        are_small: bool,
    ) {
        let options = with_budgets(options(machine), are_small);
        let mut translator = Translator::new(options);
        let mut listener = Listener::default();
        let is_right = follow(&mut translator, &mut listener, &history);
        prop_assert!(is_right, "{:#?}\n{:#?}", listener, from_scratch(&translator));

        let everything = universe().iter().map(|thing| Event::Delete(thing.reference.clone()));
        listener.apply(&mut translator, everything.collect(), Timestamp::MIN);
        prop_assert_eq!(listener, Listener::default());
        prop_assert!(translator.is_bare(), "{translator:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_output_is_the_same_whenever_translation_starts(
        (history, start) in history().prop_flat_map(|history| {
            let batches = 0..history.len().max(1);
            (Just(history), batches)
        }),
        machine: bool,
        are_small: bool,
    ) {
        let options = with_budgets(options(machine), are_small);
        let mut translator = Translator::new(options);
        let mut now = Timestamp::MIN;
        let mut listener = Listener::default();
        for (number, (steps, time)) in history.iter().enumerate() {
            now = now.max(TIMES[*time].parse().expect("a time"));
            let mut batch: Batch = steps.iter().flat_map(events).collect();
            if number == start {
                batch.push(Event::Start);
            }
            listener.apply(&mut translator, batch, now);
            prop_assert!(number >= start || listener == Listener::default());
        }
        prop_assert_eq!(listener, from_scratch(&translator));
    }
}

/// Each kind of fact is needed: a translator that does not record it has a wrong or repeated output
/// in some history.
#[test]
fn every_kind_of_fact_is_needed() {
    let mut runner = TestRunner::deterministic();
    let histories: Vec<History> = (0..HISTORIES)
        .map(|_| {
            let tree = history().new_tree(&mut runner);
            tree.expect("a history").current()
        })
        .collect();
    let is_needed = |kind: &'static str| {
        let mut outcomes = histories.iter().enumerate().map(|(number, history)| {
            let budgets = Limits::default();
            let budgets = match number % 4 {
                0 | 1 => budgets.with(Budget::GatewayExpressionBytes, 4096),
                _ => budgets,
            };
            let options = Options {
                budgets,
                ..options(number % 2 == 0)
            };
            let mut translator = Translator::new(options);
            translator.edges.ignored = Some(kind);
            follow(&mut translator, &mut Listener::default(), history)
        });
        !outcomes.all(|is_right| is_right)
    };
    // Some kinds take hundreds of histories, so each core takes the next kind.
    let kinds = Mutex::new(Fact::KINDS.iter().copied());
    let next = || kinds.lock().expect("no thread panicked").next();
    let work = || {
        let kinds = iter::from_fn(next).filter(|&kind| !is_needed(kind));
        kinds.collect::<Vec<_>>()
    };
    let unneeded: Vec<_> = thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        let threads: Vec<_> = iter::repeat_with(|| scope.spawn(work))
            .take(count)
            .collect();
        let found = threads
            .into_iter()
            .map(|it| it.join().expect("it did not panic"));
        found.flatten().collect()
    });
    assert!(unneeded.is_empty(), "{unneeded:?}");
}

/// Number of histories that suffice to detect it.
const HISTORIES: usize = 2000;

/// Before the certificates of the universe expire, and after.
const TIMES: [&str; 3] = [
    "2025-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z",
    "2127-01-01T00:00:00Z",
];
