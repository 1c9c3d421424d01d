//! What is wrong with a message, said so that it can stand in a NACK and in a status.

use std::fmt;

use thiserror::Error;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `http.matches[2].path.regex`; empty for the whole message.
    pub field: String,
    /// What is wrong with it, in one line.
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

/// Everything that is wrong with one message, at least one problem.
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

/// A status message and a NACK are read by people, and may be 32 KiB long at most.
const SHOWN_PROBLEMS: usize = 16;
