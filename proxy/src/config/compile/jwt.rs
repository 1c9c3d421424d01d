//! JWT policies and their key sources. Unchanged ones stay in use, so that other changes do not
//! clear the shards' caches of verified tokens, and cause no fetch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use xds::model::{
    JwksLocation, JwtKeys, JwtPolicy, JwtProvider, Policy, PolicyKey, Resource, Target,
};

use super::policy::JwtInForce;
use crate::policy::jwt::{
    Authenticator, ClaimsUse, FetchWaker, KeySet, KeySource, Provenance, ProviderKeys,
};

/// The policies of the configurations so far.
#[derive(Debug, Default)]
pub(super) struct Authenticators {
    policies: Vec<CompiledPolicy>,
    remote: Vec<RemoteKeys>,
    /// The keys that a changed policy had before, until those that it names now are fetched.
    previous: HashMap<PolicyKey, PreviousKeys>,
    /// Positions of the current model's policies, by address in memory: many rules share one.
    seen: HashMap<(usize, ClaimsUse), usize>,
    wake: Option<FetchWaker>,
}

/// The previous keys of a policy, by the position of the provider.
type PreviousKeys = Arc<[Option<Arc<KeySource>>]>;

/// A policy, and the number of rules that use its compiled form.
#[derive(Debug)]
struct CompiledPolicy {
    policy: JwtPolicy,
    previous: Option<PreviousKeys>,
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
    /// The namespaces of the policies that have named it.
    pub owners: Vec<Arc<str>>,
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
        JwtInForce { key, policy }: JwtInForce<'_>,
        claims_use: ClaimsUse,
    ) -> Arc<Authenticator> {
        let place = (std::ptr::from_ref(policy).addr(), claims_use);
        let at = match self.seen.get(&place) {
            Some(&at) => at,
            None => self.find_or_compile(key, policy, claims_use),
        };
        self.seen.insert(place, at);
        let known = &mut self.policies[at];
        known.rules += 1;
        Arc::clone(&known.compiled)
    }

    fn find_or_compile(
        &mut self,
        key: &PolicyKey,
        policy: &JwtPolicy,
        claims_use: ClaimsUse,
    ) -> usize {
        let previous = self.previous.get(key).cloned();
        let is = |it: &CompiledPolicy| {
            it.claims_use == claims_use
                && it.policy == *policy
                && it.previous.as_ref().map(Arc::as_ptr) == previous.as_ref().map(Arc::as_ptr)
        };
        let known = self.policies.iter().position(is);
        let at = known.unwrap_or_else(|| self.compile(policy, previous.clone(), claims_use));
        self.add_owner(policy, key.namespace());
        at
    }

    /// Records who needs the key sets of a policy. Other owners stay, also if they need them no
    /// longer, until the key set is forgotten: they may be charged for its fetch.
    fn add_owner(&mut self, policy: &JwtPolicy, namespace: &str) {
        for provider in &policy.providers {
            let mut remote = self.remote.iter_mut();
            if let Some(known) = remote.find(|remote| remote.serves(&provider.keys))
                && !known.owners.iter().any(|owner| **owner == *namespace)
            {
                known.owners.push(namespace.into());
            }
        }
    }

    /// Records that a resource is replaced. A provider of a JWT policy whose keys are fetched from
    /// another address goes on with the previous ones until the first fetch. Everything else of the
    /// policy changes at once: an issuer that it no longer names is no longer trusted, and neither are
    /// keys that the policy itself contained: its owner has withdrawn them.
    pub(super) fn replace(&mut self, old: Option<&Resource>, new: Option<&Resource>) {
        let Some(Resource::Policy(old)) = old else {
            return;
        };
        let before = self.previous.remove(&old.key);
        let jwt = |policy: &'_ Arc<Policy>| policy.spec.jwt.clone();
        let new = match new {
            Some(Resource::Policy(new)) => jwt(new),
            _ => None,
        };
        let (Some(was), Some(new)) = (jwt(old), new) else {
            return;
        };
        let before = before.as_deref().unwrap_or_default();
        let providers = new.providers.iter();
        let previous = providers.map(|provider| self.previous_keys(provider, &was, before));
        let previous: PreviousKeys = previous.collect();
        if previous.iter().any(Option::is_some) {
            self.previous.insert(old.key.clone(), previous);
        }
    }

    /// The keys of a provider in the version `was` of its policy. `None` if it needs none: its own
    /// are known, or are not to be fetched because their backend was withdrawn.
    fn previous_keys(
        &self,
        provider: &JwtProvider,
        was: &JwtPolicy,
        before: &[Option<Arc<KeySource>>],
    ) -> Option<Arc<KeySource>> {
        if !is_fetched_later(&provider.keys) || self.fetched(&provider.keys).is_some() {
            return None;
        }
        let is = |old: &JwtProvider| old.name == provider.name && old.issuer == provider.issuer;
        let at = was.providers.iter().position(is)?;
        let old = &was.providers[at];
        let known = self.fetched(&old.keys);
        known.or_else(|| before.get(at).cloned().flatten())
    }

    /// The source of these keys, if they have been fetched.
    fn fetched(&self, keys: &JwtKeys) -> Option<Arc<KeySource>> {
        let mut remote = self.remote.iter();
        let known = remote.find(|remote| remote.serves(keys))?;
        let was_fetched = known.source.was_fetched();
        was_fetched.then(|| Arc::clone(&known.source))
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

    fn compile(
        &mut self,
        policy: &JwtPolicy,
        previous: Option<PreviousKeys>,
        claims_use: ClaimsUse,
    ) -> usize {
        let previous_of = |at: usize| previous.as_deref()?.get(at)?.clone();
        let providers = policy.providers.iter().enumerate();
        let keys = providers
            .map(|(at, provider)| ProviderKeys::after(self.keys(provider), previous_of(at)));
        let keys: Vec<ProviderKeys> = keys.collect();
        let compiled = Authenticator::compile_after(policy, keys, claims_use);
        self.policies.push(CompiledPolicy {
            policy: policy.clone(),
            previous,
            claims_use,
            compiled: Arc::new(compiled),
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
            owners: Vec::new(),
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

/// Whether keys are fetched, unlike those of a backend that does not exist or is not granted.
fn is_fetched_later(keys: &JwtKeys) -> bool {
    match keys {
        JwtKeys::Inline(_) => false,
        JwtKeys::Remote { location, .. } => !matches!(
            location,
            JwksLocation::Backend {
                target: Target::Invalid { .. },
                ..
            }
        ),
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
