//! What the hostile tenant's attacks cost translation, without a cluster: a change of the quiet tenant costs the same
//! beside them, and none of them makes much more to do than is its own.

use jiff::Timestamp;
use serde_json::{Value, json};
use translate::files::admit_value;
use translate::{Event, ObjectKind, Options, Translator};

use super::attacks::ATTACKS;
use super::quiet::{moved, shared};
use crate::test::control_plane::random::Random;

/// Writes of each attack.
const WRITES: usize = 6;

/// Most facts that the translation of one write reads: those of some dozens of routes and of the 64 listeners of a
/// ListenerSet.
const FACTS: usize = 2_000;

#[test]
fn a_change_of_the_quiet_tenant_costs_the_same_beside_attacks() {
    let mut translator = Translator::new(Options::cluster());
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": "gateway"},
        "spec": {"controllerName": Options::cluster().controller_name},
    });
    let objects = [class, shared("edge"), shared("epoll"), moved("/")];
    let events = objects.into_iter().filter_map(|it| event(it, "quiet"));
    apply(&mut translator, events.chain([Event::Start]));
    // What the first change makes known costs nothing again.
    change(&mut translator, 0);
    let alone = change(&mut translator, 1);
    assert!(alone.0 > 0 && alone.2 > 0, "{alone:?}");

    let mut random = Random::new(7);
    for number in 0..WRITES {
        for attack in ATTACKS {
            let made = (attack.make)(&mut random, number % attack.objects, "quiet");
            let Some(event) = event(made, "hostile") else {
                continue;
            };
            let (facts, ..) = apply(&mut translator, [event]);
            assert!(facts <= FACTS, "{} reads {facts} facts", attack.name);
        }
        let beside = change(&mut translator, 2 + number);
        assert_eq!(beside, alone, "facts, units and resources after {number}");
    }
}

/// Changes the quiet tenant's route.
fn change(translator: &mut Translator, number: usize) -> (usize, usize, usize) {
    let changed = event(moved(&format!("/{number}")), "quiet");
    apply(translator, changed)
}

/// Translates a batch. Facts that are read, units that run, and resources that change.
fn apply(
    translator: &mut Translator,
    events: impl IntoIterator<Item = Event>,
) -> (usize, usize, usize) {
    let delta = translator.apply(events.into_iter().collect(), Timestamp::UNIX_EPOCH);
    let resources = delta.resources.len();
    (translator.facts_read(), translator.units_run(), resources)
}

/// As the controller receives an object; `None` for what it does not read.
fn event(mut object: Value, namespace: &str) -> Option<Event> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    if object["stringData"].is_object() {
        object["stringData"] = Value::Null;
        object["data"] = json!({});
    }
    let Value::Object(fields) = object else {
        return None;
    };
    let admitted = admit_value(ObjectKind::find(group, &kind)?, fields)?;
    Some(Event::Upsert(admitted.object.or(admitted.fail_closed)?))
}
