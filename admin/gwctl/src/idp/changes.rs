//! What a command changed at the provider, told on stderr as it happens: a run that fails half-way has
//! said what it did.

use std::fmt::Display;

use crate::output::shown;

/// Counts changes and tells of them.
#[derive(Debug, Default)]
pub(super) struct Changes(usize);

impl Changes {
    /// Notes a change that has happened.
    pub(super) fn note(&mut self, text: impl Display) {
        self.0 += 1;
        eprintln!("{}", shown(&text.to_string()));
    }

    /// Whether there was any.
    pub(super) fn any(&self) -> bool {
        self.0 > 0
    }
}
