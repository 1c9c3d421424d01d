//! Problems of objects, as reported in statuses.

use std::fmt::{self, Write as _};

use super::length::message_bytes;
use super::reason::Reason;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    /// The field: `spec.rules[0].filters[1]`; empty if not about a field.
    pub(crate) field: String,
    /// The problem, with advice.
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(
        reason: Reason,
        field: impl fmt::Display,
        message: impl fmt::Display,
    ) -> Self {
        Self {
            reason,
            field: field.to_string(),
            message: message.to_string(),
        }
    }

    pub(crate) fn under(mut self, prefix: impl fmt::Display) -> Self {
        self.field = if self.field.is_empty() {
            prefix.to_string()
        } else {
            format!("{prefix}.{}", self.field)
        };
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

/// That a field has a value that is valid, and not supported.
pub(crate) fn unsupported(field: &str, message: impl fmt::Display) -> Problem {
    Problem::new(Reason::UnsupportedValue, field, message)
}

/// All texts in one line, up to a readable number, and as far as a message has room for them.
pub(crate) fn join(texts: impl ExactSizeIterator<Item = impl fmt::Display>) -> String {
    let count = texts.len();
    let room = message_bytes().saturating_sub(MORE_BYTES);
    let mut joined = String::new();
    for (listed, text) in texts.enumerate() {
        let text = text.to_string();
        // The first is cut where it is too long.
        let has_room = listed == 0 || joined.len() + text.len() + SEPARATOR.len() <= room;
        if listed >= MAX_LISTED || !has_room {
            joined.truncate(joined.floor_char_boundary(room));
            let more = count - listed;
            // Writing to a String cannot fail.
            let _ = write!(joined, "{SEPARATOR}and {more} more");
            break;
        }
        if listed > 0 {
            joined.push_str(SEPARATOR);
        }
        joined.push_str(&text);
    }
    joined
}

/// Most problems in one message.
pub(crate) const MAX_LISTED: usize = 8;
const SEPARATOR: &str = "; ";
/// Bytes for the number of those that are not listed.
const MORE_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_listed_as_a_message_has_room_for() {
        assert_eq!(join(["a", "b"].iter()), "a; b");
        assert_eq!(join([1; 9].iter()), "1; 1; 1; 1; 1; 1; 1; 1; and 1 more");
        let texts = ["x".repeat(900), "y".repeat(900), "z".repeat(900)];
        let joined = join(texts.iter());
        assert!(joined.ends_with("y; and 1 more"), "{joined}");
        assert!(joined.len() <= message_bytes());
        let joined = join(["é".repeat(9_000), String::new()].iter());
        assert!(joined.ends_with("é; and 1 more") && joined.len() <= message_bytes());
    }
}
