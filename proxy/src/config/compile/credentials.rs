//! API keys and passwords: many rules share a policy. Each is compiled once, for as long as a rule has it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use xds::model::{ApiKeyPolicy, BasicAuthPolicy, Policy};

use crate::passwords::PasswordChecks;
use crate::policy::api_keys::ApiKeys;
use crate::policy::basic_auth::BasicAuth;

/// The compiled credentials of a model.
#[derive(Debug, Default)]
pub(super) struct CredentialTables {
    api_keys: Shared<ApiKeyPolicy, ApiKeys>,
    basic_auth: Shared<BasicAuthPolicy, BasicAuth>,
    /// Their threads are started for the first policy with passwords.
    checks: Option<Arc<PasswordChecks>>,
}

impl CredentialTables {
    pub(super) fn begin(&mut self) {
        self.api_keys.begin();
        self.basic_auth.begin();
    }

    /// The compiled API keys of a policy of the current model, if it has any.
    pub(super) fn api_keys(&mut self, policy: &Policy) -> Option<Arc<ApiKeys>> {
        let keys = policy.spec.api_keys.as_ref()?;
        Some(self.api_keys.of(keys, ApiKeys::compile))
    }

    /// The compiled passwords of a policy of the current model, if it has any.
    pub(super) fn basic_auth(&mut self, policy: &Policy) -> Option<Arc<BasicAuth>> {
        let passwords = policy.spec.basic_auth.as_ref()?;
        let start = || Arc::new(PasswordChecks::start());
        let checks = self.checks.get_or_insert_with(start);
        let compile = |policy: &_| BasicAuth::compile(policy, Arc::clone(checks));
        Some(self.basic_auth.of(passwords, compile))
    }
}

/// The compiled forms `C` of settings `S`.
#[derive(Debug)]
struct Shared<S, C> {
    /// Those of the current model, by address in memory of their settings: content is hashed once for all rules.
    places: HashMap<usize, Weak<C>>,
    /// By content: rules are compiled in different snapshots, and over xDS, each target of a policy has its own.
    tables: HashMap<S, Weak<C>>,
}

impl<S, C> Default for Shared<S, C> {
    fn default() -> Self {
        Self {
            places: HashMap::new(),
            tables: HashMap::new(),
        }
    }
}

impl<S: Clone + Eq + Hash, C> Shared<S, C> {
    fn begin(&mut self) {
        self.places.clear();
        self.tables
            .retain(|_, compiled| compiled.strong_count() > 0);
    }

    fn of(&mut self, settings: &S, compile: impl FnOnce(&S) -> C) -> Arc<C> {
        let place = std::ptr::from_ref(settings).addr();
        if let Some(known) = self.places.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        let compiled = self.table(settings, compile);
        self.places.insert(place, Arc::downgrade(&compiled));
        compiled
    }

    fn table(&mut self, settings: &S, compile: impl FnOnce(&S) -> C) -> Arc<C> {
        if let Some(known) = self.tables.get(settings).and_then(Weak::upgrade) {
            return known;
        }
        let compiled = Arc::new(compile(settings));
        self.tables
            .insert(settings.clone(), Arc::downgrade(&compiled));
        compiled
    }
}

#[cfg(test)]
mod tests {
    use xds::model::{
        ApiKey, JwtForward, JwtMode, JwtSource, KeyDigest, ObjectName, PasswordHash, PasswordUser,
        PasswordUsers, PolicyKey, PolicySpec, PolicyTarget,
    };

    use super::*;

    fn policy(name: &str, secret: u8) -> Policy {
        Policy {
            key: PolicyKey::new("TrafficPolicy", &ObjectName::new("infra", name), "all"),
            target: PolicyTarget::Gateway(ObjectName::new("infra", "edge")),
            spec: PolicySpec {
                api_keys: Some(ApiKeyPolicy {
                    from: vec![JwtSource::Query("key".to_owned())],
                    client_header: None,
                    forward: JwtForward::Strip,
                    keys: xds::model::ApiKeys {
                        accepted: [ApiKey {
                            digest: KeyDigest::of(&[secret]),
                            client: "acme".into(),
                        }]
                        .into(),
                        is_incomplete: false,
                    },
                }),
                basic_auth: Some(BasicAuthPolicy {
                    mode: JwtMode::Strict,
                    realm: None,
                    user_header: None,
                    users: PasswordUsers {
                        accepted: [PasswordUser {
                            name: "alice".into(),
                            hashes: [PasswordHash::Sha1([secret; 20])].into(),
                        }]
                        .into(),
                        is_incomplete: false,
                    },
                }),
                ..PolicySpec::default()
            },
        }
    }

    #[test]
    fn equal_credentials_are_compiled_once_and_dropped_with_their_last_rule() {
        let mut shared = CredentialTables::default();
        let mut compile = |policy: &Policy| {
            shared.begin();
            let keys = shared.api_keys(policy).expect("it has keys");
            let passwords = shared.basic_auth(policy).expect("it has passwords");
            (keys, passwords)
        };
        let first = compile(&policy("one", 1));
        let again = compile(&policy("other", 1));
        assert!(Arc::ptr_eq(&first.0, &again.0) && Arc::ptr_eq(&first.1, &again.1));
        let changed = compile(&policy("one", 2));
        assert!(!Arc::ptr_eq(&first.0, &changed.0) && !Arc::ptr_eq(&first.1, &changed.1));
        drop((first, again, changed));
        shared.begin();
        assert!(shared.api_keys.places.is_empty() && shared.api_keys.tables.is_empty());
        assert!(shared.basic_auth.places.is_empty() && shared.basic_auth.tables.is_empty());
    }
}
