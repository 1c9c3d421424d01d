//! Parsed trace events. A newer gateway may send types that this version does not know.

use admin_types::trace::{Event, Severity};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TraceEvent {
    Known(Box<Event>),
    /// Of a type that only another version has.
    Unknown(UnknownEvent),
}

/// The fields that events of every type have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnknownEvent {
    /// The `type` of the message.
    pub(crate) kind: String,
    /// In µs since the start of the request.
    pub(crate) start: u64,
    /// In µs since the start of the request.
    pub(crate) end: u64,
    pub(crate) severity: Severity,
}

impl TraceEvent {
    /// Parses an event; None where the text is not a JSON object.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(event) = serde_json::from_str(text) {
            return Some(Self::Known(event));
        }
        let value: Value = serde_json::from_str(text).ok()?;
        value.is_object().then(|| Self::Unknown(unknown(&value)))
    }

    /// Start and end, in µs since the start of the request.
    pub(crate) fn time(&self) -> (u64, u64) {
        match self {
            Self::Known(event) => (event.event_start, event.event_end),
            Self::Unknown(unknown) => (unknown.start, unknown.end),
        }
    }

    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::Known(event) => event.severity,
            Self::Unknown(unknown) => unknown.severity,
        }
    }
}

fn unknown(value: &Value) -> UnknownEvent {
    let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
    let kind = value.pointer("/message/type").and_then(Value::as_str);
    let severity = value.get("severity").cloned().unwrap_or_default();
    UnknownEvent {
        kind: kind.unwrap_or("an event without a type").to_owned(),
        start: number("eventStart"),
        end: number("eventEnd"),
        severity: serde_json::from_value(severity).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use admin_types::trace::{Message, Severity};

    use super::{TraceEvent, UnknownEvent};

    #[test]
    fn a_known_event_is_parsed_despite_unknown_fields() {
        let text = r#"{"eventStart":1,"eventEnd":2,"shard":0,"severity":"warn","novel":1,
            "message":{"type":"retry","retried":true,"reason":"x","novel":{}}}"#;
        let Some(TraceEvent::Known(event)) = TraceEvent::parse(text) else {
            panic!("the type is known");
        };
        assert_eq!((event.event_end, event.severity), (2, Severity::Warn));
        assert!(matches!(
            event.message,
            Message::Retry { retried: true, .. }
        ));
    }

    #[test]
    fn an_event_of_a_newer_version_keeps_its_type() {
        let text =
            r#"{"eventStart":1,"eventEnd":2,"severity":"grave","message":{"type":"rateLimit"}}"#;
        let expected = UnknownEvent {
            kind: "rateLimit".to_owned(),
            start: 1,
            end: 2,
            severity: Severity::Info,
        };
        assert_eq!(TraceEvent::parse(text), Some(TraceEvent::Unknown(expected)));
    }

    #[test]
    fn text_that_is_not_a_json_object_is_rejected() {
        for text in ["", "7", "[]", "{", "null"] {
            assert_eq!(TraceEvent::parse(text), None, "{text}");
        }
    }
}
