//! The YAML of cases that are not admitted, as JSON: no anchors, no tags, keys of text.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The documents of a text.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let mut events = Parser::new_from_str(text).map(|event| event.expect("YAML").0);
    let mut documents = Vec::new();
    while let Some(event) = events.next() {
        if matches!(event, Event::DocumentStart(_)) {
            documents.push(next(&mut events));
        }
    }
    documents
}

fn next(events: &mut dyn Iterator<Item = Event<'_>>) -> Value {
    let event = events.next().expect("a value");
    value(event, events)
}

fn value<'a>(event: Event<'a>, events: &mut dyn Iterator<Item = Event<'a>>) -> Value {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
        Event::Scalar(text, ..) => text.into(),
        Event::SequenceStart(..) => sequence(events),
        Event::MappingStart(..) => mapping(events),
        other => panic!("{other:?} has no place in a case"),
    }
}

/// Numbers, booleans and nulls of JSON; everything else is text.
fn plain(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn sequence(events: &mut dyn Iterator<Item = Event<'_>>) -> Value {
    let mut items = Vec::new();
    loop {
        match events.next().expect("an item or the end") {
            Event::SequenceEnd => return Value::Array(items),
            item => items.push(value(item, events)),
        }
    }
}

fn mapping(events: &mut dyn Iterator<Item = Event<'_>>) -> Value {
    let mut fields = Map::new();
    loop {
        match events.next().expect("a key or the end") {
            Event::MappingEnd => return Value::Object(fields),
            Event::Scalar(key, ..) => fields.insert(key.into_owned(), next(events)),
            other => panic!("{other:?} is no key"),
        };
    }
}
