//! Problems of a message, formatted for NACKs and statuses.

use std::fmt;

use thiserror::Error;

/// A field of a resource that cannot be used, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `http.matches[2].path.regex`; empty for the whole message.
    pub field: String,
    /// Description of the problem, in one line.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.text)
        } else {
            write!(f, "{}: {}", self.field, self.text)
        }
    }
}

/// All problems of one message, at least one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(problems) = self;
        for (number, problem) in problems.iter().take(SHOWN_PROBLEMS).enumerate() {
            let separator = if number > 0 { "; " } else { "" };
            write!(f, "{separator}{problem}")?;
        }
        match problems.len().saturating_sub(SHOWN_PROBLEMS) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Status messages and NACKs are read by people and limited to 32 KiB.
const SHOWN_PROBLEMS: usize = 16;
