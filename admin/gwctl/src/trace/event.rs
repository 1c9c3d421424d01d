//! Events as they are read: a newer gateway may say what this tool does not know.

use admin_types::trace::{Event, Severity};
use serde_json::Value;

/// An event of a trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// One that this tool knows.
    Known(Box<Event>),
    /// One of another version.
    Unknown(Unknown),
}

/// What can be told of an event that is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Its type.
    pub(crate) kind: String,
    /// When it began, in µs.
    pub(crate) start: u64,
    /// When it ended, in µs.
    pub(crate) end: u64,
    /// How good or bad it is.
    pub(crate) severity: Severity,
}

impl Seen {
    /// Reads one; nothing where the text is no JSON object.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Ok(event) = serde_json::from_str(text) {
            return Some(Self::Known(event));
        }
        let value: Value = serde_json::from_str(text).ok()?;
        value.is_object().then(|| Self::Unknown(unknown(&value)))
    }

    /// When it began and ended, in µs.
    pub(crate) fn time(&self) -> (u64, u64) {
        match self {
            Self::Known(event) => (event.event_start, event.event_end),
            Self::Unknown(unknown) => (unknown.start, unknown.end),
        }
    }

    /// How good or bad it is.
    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::Known(event) => event.severity,
            Self::Unknown(unknown) => unknown.severity,
        }
    }
}

fn unknown(value: &Value) -> Unknown {
    let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
    let kind = value.pointer("/message/type").and_then(Value::as_str);
    let severity = value.get("severity").cloned().unwrap_or_default();
    Unknown {
        kind: kind.unwrap_or("an event without a type").to_owned(),
        start: number("eventStart"),
        end: number("eventEnd"),
        severity: serde_json::from_value(severity).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use admin_types::trace::{Message, Severity};

    use super::{Seen, Unknown};

    #[test]
    fn what_is_known_is_read() {
        let text = r#"{"eventStart":1,"eventEnd":2,"shard":0,"severity":"warn","novel":1,
            "message":{"type":"retry","retried":true,"reason":"x","novel":{}}}"#;
        let Some(Seen::Known(event)) = Seen::read(text) else {
            panic!("it is known");
        };
        assert_eq!((event.event_end, event.severity), (2, Severity::Warn));
        assert!(matches!(
            event.message,
            Message::Retry { retried: true, .. }
        ));
    }

    #[test]
    fn what_a_newer_version_says_is_kept_by_its_type() {
        let text =
            r#"{"eventStart":1,"eventEnd":2,"severity":"grave","message":{"type":"rateLimit"}}"#;
        let expected = Unknown {
            kind: "rateLimit".to_owned(),
            start: 1,
            end: 2,
            severity: Severity::Info,
        };
        assert_eq!(Seen::read(text), Some(Seen::Unknown(expected)));
    }

    #[test]
    fn what_is_no_object_is_no_event() {
        for text in ["", "7", "[]", "{", "null"] {
            assert_eq!(Seen::read(text), None, "{text}");
        }
    }
}
