//! Reports a command's changes at the provider on stderr, as they happen: after a failure half-way,
//! the user knows what was changed.

use std::fmt::Display;

use crate::output::shown;

/// Counts and reports changes.
#[derive(Debug, Default)]
pub(super) struct Changes(usize);

impl Changes {
    /// Reports a change.
    pub(super) fn record(&mut self, text: impl Display) {
        self.0 += 1;
        eprintln!("{}", shown(&text.to_string()));
    }

    /// Whether there was any.
    pub(super) fn any(&self) -> bool {
        self.0 > 0
    }
}
