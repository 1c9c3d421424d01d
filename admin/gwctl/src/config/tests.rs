use admin_types::dump::{Dump, Runtime};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::scope::{Scope, restrict};
use super::{all, everything, listeners};
use crate::args::AllOutput;
use crate::resource::{self, Resource};
use crate::source::decode;

const DUMP: &str = include_str!("../../tests/dump.json");

/// The number of values in a document, the root included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Replaces the value with index `at`, in the order of [`count`].
fn replace(value: &mut Value, at: &mut usize, with: &Value) {
    if *at == 0 {
        *value = with.clone();
    }
    let Some(next) = at.checked_sub(1) else {
        *at = usize::MAX;
        return;
    };
    *at = next;
    match value {
        Value::Array(items) => items.iter_mut().for_each(|it| replace(it, at, with)),
        Value::Object(fields) => fields.values_mut().for_each(|it| replace(it, at, with)),
        _ => {}
    }
}

fn unusual_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!([])),
        Just(json!({})),
        Just(json!("\u{1b}[2J\n///")),
        Just(json!("\u{7f}\u{85}\u{9b}")),
        Just(json!("")),
        Just(json!(u64::MAX)),
        Just(json!(-1)),
        Just(json!(1e308)),
    ]
}

/// Index of the first control character.
fn control_character(text: &str) -> Option<usize> {
    text.find(|c: char| c.is_control() && c != '\n')
}

#[test]
fn control_characters_in_a_dump_are_replaced() {
    let text = DUMP.replace("web", "w\\u001b[2J\\u009b\\u007feb");
    let dump = decode(text.as_bytes(), "dump.json").expect("a dump");
    let shown = everything(dump).expect("text");
    assert!(shown.contains("w?[2J??eb"), "{shown}");
    assert!(shown.contains("w\\u001b[2J\\u009b\\u007feb"), "{shown}");
    assert_eq!(control_character(&shown), None, "{shown:?}");
}

#[test]
fn a_saved_dump_reads_back_unchanged() {
    let dump = decode(DUMP.as_bytes(), "dump.json").expect("a dump");
    let scope = Scope { dump };
    let mut saved = Vec::new();
    all::write(&scope, AllOutput::Json, &mut saved).expect("memory");
    assert_eq!(decode(&saved, "saved.json").expect("a dump"), scope.dump);
}

/// A response with every field of the model.
const WHOLE: &str = include_str!("../../../src/endpoint/config_dump/golden/whole.json");

#[test]
fn every_field_of_a_dump_is_read() {
    let dump = decode(WHOLE.as_bytes(), "whole.json").expect("a dump");
    let read = serde_json::to_value(&dump).expect("JSON");
    let whole: Value = serde_json::from_str(WHOLE).expect("JSON");
    assert_eq!(read, whole);
}

#[test]
fn restricting_a_dump_removes_all_other_gateways() {
    let mut both: Dump = decode(DUMP.as_bytes(), "dump.json").expect("a dump");
    let shops = DUMP.replace("web", "shops");
    let shops: Dump = decode(shops.as_bytes(), "dump.json").expect("a dump");
    let gateways = resource::gateways(&shops.binds, None, Some("shops"));
    let gateways = gateways.expect("it is loaded").expect("it is named");
    let alone = restrict(shops.clone(), &gateways);
    let runtime = both.runtime.as_mut().expect("it is there");
    runtime
        .binds_down
        .extend(shops.runtime.into_iter().flat_map(|it| it.binds_down));
    both.certificates.extend(shops.certificates);
    both.binds.extend(shops.binds);
    both.listeners.extend(shops.listeners);
    both.routes.extend(shops.routes);
    both.backends.extend(shops.backends);
    both.workloads.extend(shops.workloads);
    both.services.extend(shops.services);
    both.policies.extend(shops.policies);
    assert_eq!(restrict(both, &gateways), alone);
    assert!(!alone.certificates.is_empty() && !alone.policies.is_empty());
}

#[test]
fn gateways_are_selected_by_name_and_namespace() {
    let dump = decode(DUMP.as_bytes(), "dump.json").expect("a dump");
    for (resource, namespace, expected) in [
        (None, None, Ok(None)),
        (None, Some("web"), Ok(Some("web/edge"))),
        (Some("edge"), Some("web"), Ok(Some("web/edge"))),
        (
            Some("edge"),
            None,
            Err("Gateway default/edge is not loaded"),
        ),
        (
            None,
            Some("we"),
            Err("Gateway we/* is not loaded; loaded are: web/edge"),
        ),
    ] {
        let resource: Option<Resource> = resource.map(|it: &str| it.parse().expect("a name"));
        let named = resource::gateways(&dump.binds, resource.as_ref(), namespace);
        match (named, expected) {
            (Ok(named), Ok(expected)) => {
                assert_eq!(named, expected.map(|it| [it.to_owned()].into()));
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (named, expected) => panic!("{named:?} is not {expected:?}"),
        }
    }
}

#[test]
fn the_status_of_a_listener_is_read_from_the_runtime_section() {
    let mut dump = decode(DUMP.as_bytes(), "dump.json").expect("a dump");
    let status = |dump: &Dump| {
        let lines = listeners::table(&dump.clone().into()).lines();
        let (_, status) = lines[1].rsplit_once("  ").expect("columns");
        status.to_owned()
    };
    assert_eq!(status(&dump), "down: the port is in use by another process");
    dump.runtime = Some(Runtime::default());
    assert_eq!(status(&dump), "up");
    dump.runtime = None;
    assert_eq!(status(&dump), "-");
}

proptest! {
    #[test]
    fn a_dump_with_any_value_replaced_is_printed_or_rejected(at in any::<prop::sample::Index>(), with in unusual_value()) {
        let mut value: Value = serde_json::from_str(DUMP).expect("JSON");
        let mut at = at.index(count(&value));
        replace(&mut value, &mut at, &with);
        if let Ok(dump) = decode(value.to_string().as_bytes(), "dump.json") {
            let text = everything(dump).expect("text");
            prop_assert_eq!(control_character(&text), None);
        }
    }

    #[test]
    fn a_dump_with_any_byte_changed_is_printed_or_rejected(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let whole = DUMP.trim_end().as_bytes();
        let at = at.index(whole.len());
        let mut bytes = whole.to_vec();
        bytes[at] = byte;
        if let Ok(dump) = decode(&bytes, "dump.json") {
            let text = everything(dump).expect("text");
            prop_assert_eq!(control_character(&text), None);
        }
        prop_assert!(decode(&whole[..at], "dump.json").is_err());
    }
}
