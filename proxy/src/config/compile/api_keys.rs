//! API keys: many rules share a policy, which is compiled once per model.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use xds::model::Policy;

use crate::policy::api_keys::ApiKeys;

/// The API keys of the current model, by address in memory of their settings.
#[derive(Debug, Default)]
pub(super) struct KeyTables(HashMap<usize, Weak<ApiKeys>>);

impl KeyTables {
    pub(super) fn begin(&mut self) {
        self.0.clear();
    }

    /// The compiled API keys of a policy of the current model, if it has any.
    pub(super) fn of(&mut self, policy: &Policy) -> Option<Arc<ApiKeys>> {
        let keys = policy.spec.api_keys.as_ref()?;
        let place = std::ptr::from_ref(keys).addr();
        if let Some(known) = self.0.get(&place).and_then(Weak::upgrade) {
            return Some(known);
        }
        let compiled = Arc::new(ApiKeys::compile(keys));
        self.0.insert(place, Arc::downgrade(&compiled));
        Some(compiled)
    }
}
