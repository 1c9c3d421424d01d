//! API keys: many rules share a policy. Each is compiled once, for as long as a rule has it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use xds::model::{ApiKeyPolicy, Policy};

use crate::policy::api_keys::ApiKeys;

/// The compiled API keys of a model.
#[derive(Debug, Default)]
pub(super) struct KeyTables {
    /// Those of the current model, by address in memory of their settings: content is hashed once for all rules.
    places: HashMap<usize, Weak<ApiKeys>>,
    /// By content: rules are compiled in different snapshots, and over xDS, each target of a policy has its own.
    tables: HashMap<ApiKeyPolicy, Weak<ApiKeys>>,
}

impl KeyTables {
    pub(super) fn begin(&mut self) {
        self.places.clear();
        self.tables
            .retain(|_, compiled| compiled.strong_count() > 0);
    }

    /// The compiled API keys of a policy of the current model, if it has any.
    pub(super) fn of(&mut self, policy: &Policy) -> Option<Arc<ApiKeys>> {
        let keys = policy.spec.api_keys.as_ref()?;
        let place = std::ptr::from_ref(keys).addr();
        if let Some(known) = self.places.get(&place).and_then(Weak::upgrade) {
            return Some(known);
        }
        let compiled = self.table(keys);
        self.places.insert(place, Arc::downgrade(&compiled));
        Some(compiled)
    }

    fn table(&mut self, keys: &ApiKeyPolicy) -> Arc<ApiKeys> {
        if let Some(known) = self.tables.get(keys).and_then(Weak::upgrade) {
            return known;
        }
        let compiled = Arc::new(ApiKeys::compile(keys));
        self.tables.insert(keys.clone(), Arc::downgrade(&compiled));
        compiled
    }
}

#[cfg(test)]
mod tests {
    use xds::model::{
        ApiKey, JwtForward, JwtSource, KeyDigest, ObjectName, PolicyKey, PolicySpec, PolicyTarget,
    };

    use super::*;

    #[test]
    fn equal_keys_are_compiled_once_and_dropped_with_their_last_rule() {
        let policy = |name: &str, key: &str| Policy {
            key: PolicyKey::new("TrafficPolicy", &ObjectName::new("infra", name), "all"),
            target: PolicyTarget::Gateway(ObjectName::new("infra", "edge")),
            spec: PolicySpec {
                api_keys: Some(ApiKeyPolicy {
                    from: vec![JwtSource::Query("key".to_owned())],
                    client_header: None,
                    forward: JwtForward::Strip,
                    keys: xds::model::ApiKeys {
                        accepted: [ApiKey {
                            digest: KeyDigest::of(key.as_bytes()),
                            client: "acme".into(),
                        }]
                        .into(),
                        is_incomplete: false,
                    },
                }),
                ..PolicySpec::default()
            },
        };
        let mut shared = KeyTables::default();
        let mut compile = |policy: &Policy| {
            shared.begin();
            shared.of(policy).expect("it has keys")
        };
        let first = compile(&policy("one", "k1"));
        let again = compile(&policy("other", "k1"));
        assert!(Arc::ptr_eq(&first, &again));
        let changed = compile(&policy("one", "k2"));
        assert!(!Arc::ptr_eq(&first, &changed));
        drop((first, again, changed));
        shared.begin();
        assert!(shared.places.is_empty() && shared.tables.is_empty());
    }
}
