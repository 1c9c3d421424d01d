//! JWT policies and their key sources. Unchanged ones stay in use, so that other changes do not
//! clear the shards' caches of verified tokens, and cause no fetch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use xds::model::{JwksLocation, JwtKeys, JwtPolicy, JwtProvider};

use crate::policy::jwt::{Authenticator, ClaimsUse, FetchWaker, KeySet, KeySource, Provenance};

/// The policies of the configurations so far.
#[derive(Debug, Default)]
pub(super) struct Authenticators {
    policies: Vec<CompiledPolicy>,
    remote: Vec<RemoteKeys>,
    /// Positions of the current model's policies, by address in memory: many rules share one.
    seen: HashMap<(usize, ClaimsUse), usize>,
    wake: Option<FetchWaker>,
}

/// A policy, and the number of rules that use its compiled form.
#[derive(Debug)]
struct CompiledPolicy {
    policy: JwtPolicy,
    claims_use: ClaimsUse,
    compiled: Arc<Authenticator>,
    rules: usize,
}

/// A key set that is fetched.
#[derive(Debug, Clone)]
pub struct RemoteKeys {
    /// Where the keys are fetched from.
    pub location: JwksLocation,
    /// How often to fetch; `None` uses the response's max-age.
    pub cache: Option<Duration>,
    /// Where shards read it.
    pub source: Arc<KeySource>,
}

impl Authenticators {
    pub(super) fn with_waker(wake: Option<FetchWaker>) -> Self {
        Self {
            wake,
            ..Self::default()
        }
    }

    pub(super) fn begin(&mut self) {
        self.seen.clear();
    }

    /// The compiled form of a policy of the current model, with one more reference.
    pub(super) fn acquire(
        &mut self,
        policy: &JwtPolicy,
        claims_use: ClaimsUse,
    ) -> Arc<Authenticator> {
        let place = (std::ptr::from_ref(policy).addr(), claims_use);
        let at = self.seen.get(&place).copied();
        let is = |it: &CompiledPolicy| it.claims_use == claims_use && it.policy == *policy;
        let at = at.or_else(|| self.policies.iter().position(is));
        let at = at.unwrap_or_else(|| self.compile(policy, claims_use));
        self.seen.insert(place, at);
        let known = &mut self.policies[at];
        known.rules += 1;
        Arc::clone(&known.compiled)
    }

    pub(super) fn remove_reference(&mut self, compiled: &Arc<Authenticator>) {
        let mut policies = self.policies.iter_mut();
        if let Some(known) = policies.find(|it| Arc::ptr_eq(&it.compiled, compiled)) {
            known.rules -= 1;
        }
    }

    /// Forgets the policies that no rule of the model uses.
    pub(super) fn forget_unused(&mut self) {
        if self.policies.iter().all(|known| known.rules > 0) {
            return;
        }
        self.policies.retain(|known| known.rules > 0);
        let policies = self.policies.iter().flat_map(|it| &it.policy.providers);
        let used_keys: Vec<&JwtKeys> = policies.map(|provider| &provider.keys).collect();
        self.remote
            .retain(|remote| used_keys.iter().any(|keys| remote.serves(keys)));
    }

    pub(super) fn remote_keys(&self) -> &[RemoteKeys] {
        &self.remote
    }

    fn compile(&mut self, policy: &JwtPolicy, claims_use: ClaimsUse) -> usize {
        let providers = policy.providers.iter();
        let keys: Vec<_> = providers.map(|provider| self.keys(provider)).collect();
        self.policies.push(CompiledPolicy {
            policy: policy.clone(),
            claims_use,
            compiled: Arc::new(Authenticator::compile(policy, keys, claims_use)),
            rules: 0,
        });
        self.policies.len() - 1
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

/// The keys in the policy itself. Invalid keys verify nothing.
fn inline(provider: &JwtProvider, json: &str) -> KeySource {
    match KeySet::parse(json.as_bytes(), Provenance::Configured) {
        Ok(keys) => KeySource::constant(keys),
        Err(error) => {
            let provider = &provider.name;
            warn!(
                provider,
                %error, "tokens of this provider are rejected until its keys are corrected"
            );
            KeySource::pending(None)
        }
    }
}
