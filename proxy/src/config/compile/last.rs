//! Shares equal values. Of thousands of rules and clusters, most have the settings of the one that
//! was compiled before.

use std::sync::Arc;

/// The value that was compiled last.
#[derive(Debug)]
pub(super) struct Last<T>(Option<Arc<T>>);

impl<T> Default for Last<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> Last<T> {
    /// A value, shared with the last one if they are equal.
    pub(super) fn share(&mut self, value: T) -> Arc<T> {
        match &self.0 {
            Some(last) if **last == value => Arc::clone(last),
            _ => Arc::clone(self.0.insert(Arc::new(value))),
        }
    }
}
