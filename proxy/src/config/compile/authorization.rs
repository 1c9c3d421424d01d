//! Authorization policies: many rules share one, which is compiled once per model.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use xds::model::{AuthorizationPolicy, Policy};

use super::rule::policy_name;
use crate::policy::authorization::Authorization;

/// The policies of the current model, by address in memory.
#[derive(Debug, Default)]
pub(super) struct Authorizations(HashMap<usize, Weak<Authorization>>);

impl Authorizations {
    pub(super) fn begin(&mut self) {
        self.0.clear();
    }

    /// The compiled form of a policy of the current model.
    pub(super) fn of(
        &mut self,
        policy: &Policy,
        rules: &AuthorizationPolicy,
    ) -> Arc<Authorization> {
        let place = std::ptr::from_ref(rules).addr();
        if let Some(known) = self.0.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        let compiled = Arc::new(Authorization::compile(&policy_name(&policy.key), rules));
        self.0.insert(place, Arc::downgrade(&compiled));
        compiled
    }
}
