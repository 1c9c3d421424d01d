//! Policies of tokens, and where their keys come from: what stays the same stays in use, so that a
//! change of something else costs no shard its verified tokens and no issuer a fetch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use xds::model::{JwksLocation, JwtKeys, JwtPolicy, JwtProvider};

use crate::policy::jwt::{Authenticator, KeySet, KeySource, Provenance, Wake};

/// The policies of the configurations so far.
#[derive(Debug, Default)]
pub(super) struct Authenticators {
    policies: Vec<(JwtPolicy, Arc<Authenticator>)>,
    remote: Vec<RemoteKeys>,
    /// Those of the present model, by where they are in it: many rules share one.
    seen: HashMap<usize, Arc<Authenticator>>,
    wake: Option<Wake>,
}

/// A key set that is fetched.
#[derive(Debug, Clone)]
pub struct RemoteKeys {
    /// From where.
    pub location: JwksLocation,
    /// How often; `None` leaves it to the answer.
    pub cache: Option<Duration>,
    /// Where shards find it.
    pub source: Arc<KeySource>,
}

impl Authenticators {
    pub(super) fn woken_by(wake: Option<Wake>) -> Self {
        Self {
            wake,
            ..Self::default()
        }
    }

    /// Begins another model.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
    }

    /// What a policy of the present model comes to.
    pub(super) fn of(&mut self, policy: &JwtPolicy) -> Arc<Authenticator> {
        let place = std::ptr::from_ref(policy).addr();
        if let Some(known) = self.seen.get(&place) {
            return Arc::clone(known);
        }
        let known = self.policies.iter().find(|(known, _)| known == policy);
        let compiled = known.map(|(_, compiled)| Arc::clone(compiled));
        let compiled = compiled.unwrap_or_else(|| self.compile(policy));
        self.seen.insert(place, Arc::clone(&compiled));
        compiled
    }

    /// Ends a model: forgets what is not in it.
    pub(super) fn forget_unused(&mut self) {
        let seen: Vec<&Arc<Authenticator>> = self.seen.values().collect();
        let is_used = |it: &Arc<Authenticator>| seen.iter().any(|used| Arc::ptr_eq(used, it));
        self.policies.retain(|(_, compiled)| is_used(compiled));
        let policies = self
            .policies
            .iter()
            .flat_map(|(policy, _)| &policy.providers);
        let wanted: Vec<&JwtKeys> = policies.map(|provider| &provider.keys).collect();
        self.remote
            .retain(|remote| wanted.iter().any(|keys| remote.serves(keys)));
    }

    pub(super) fn remote_keys(&self) -> &[RemoteKeys] {
        &self.remote
    }

    fn compile(&mut self, policy: &JwtPolicy) -> Arc<Authenticator> {
        let providers = policy.providers.iter();
        let keys: Vec<_> = providers.map(|provider| self.keys(provider)).collect();
        let compiled = Arc::new(Authenticator::compile(policy, keys));
        self.policies.push((policy.clone(), Arc::clone(&compiled)));
        compiled
    }

    fn keys(&mut self, provider: &JwtProvider) -> Arc<KeySource> {
        let (location, cache) = match &provider.keys {
            JwtKeys::Inline(json) => return Arc::new(inline(provider, json)),
            JwtKeys::Remote { location, cache } => (location, *cache),
        };
        let mut remote = self.remote.iter();
        if let Some(known) = remote.find(|remote| remote.serves(&provider.keys)) {
            return Arc::clone(&known.source);
        }
        let source = Arc::new(KeySource::pending(self.wake.clone()));
        self.remote.push(RemoteKeys {
            location: location.clone(),
            cache,
            source: Arc::clone(&source),
        });
        source
    }
}

impl RemoteKeys {
    fn serves(&self, keys: &JwtKeys) -> bool {
        matches!(keys, JwtKeys::Remote { location, cache }
            if *location == self.location && *cache == self.cache)
    }
}

/// The keys that stand in the policy. What cannot be read verifies nothing.
fn inline(provider: &JwtProvider, json: &str) -> KeySource {
    match KeySet::parse(json.as_bytes(), Provenance::Configured) {
        Ok(keys) => KeySource::constant(keys),
        Err(error) => {
            let provider = &provider.name;
            warn!(
                provider,
                %error, "tokens of this provider are refused until its keys are corrected"
            );
            KeySource::pending(None)
        }
    }
}
