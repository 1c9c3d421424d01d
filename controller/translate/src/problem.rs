//! Problems of objects, as reported in statuses.

use std::fmt;

use crate::reason::Reason;

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

/// All texts in one line, up to a readable number.
pub(crate) fn join(texts: impl ExactSizeIterator<Item = impl fmt::Display>) -> String {
    let more = texts.len().saturating_sub(MAX_LISTED);
    let mut listed: Vec<String> = texts
        .take(MAX_LISTED)
        .map(|text| text.to_string())
        .collect();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed.join("; ")
}

/// Most problems in one message. Kubernetes allows 32 KiB.
const MAX_LISTED: usize = 8;
