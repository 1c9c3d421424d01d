//! JWT policies and their key sources. Unchanged ones stay in use, so that other changes do not
//! clear the shards' caches of verified tokens, and cause no fetch.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
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
    /// Their positions by the hash of the policy, and by the address of the compiled form.
    by_hash: HashMap<u64, Vec<usize>>,
    by_address: HashMap<usize, usize>,
    remote: Vec<RemoteKeys>,
    /// Their positions.
    by_location: HashMap<RemoteId, usize>,
    /// The keys that a changed policy had before, until those that it names now are fetched.
    previous: HashMap<PolicyKey, PreviousKeys>,
    /// Positions of the current model's policies, by address in memory: many rules share one.
    seen: HashMap<(usize, ClaimsUse), usize>,
    wake: Option<FetchWaker>,
}

/// What distinguishes key sets that are fetched.
type RemoteId = (JwksLocation, Option<Duration>);

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
        let same = self.by_hash.get(&hash(policy));
        let mut same = same.into_iter().flatten().copied();
        let known = same.find(|at| is(&self.policies[*at]));
        let at = known.unwrap_or_else(|| self.compile(policy, previous.clone(), claims_use));
        self.add_owner(policy, key.namespace());
        at
    }

    /// Records who needs the key sets of a policy. Other owners stay, also if they need them no
    /// longer, until the key set is forgotten: they may be charged for its fetch.
    fn add_owner(&mut self, policy: &JwtPolicy, namespace: &str) {
        for provider in &policy.providers {
            if let Some(at) = self.remote_at(&provider.keys)
                && let known = &mut self.remote[at]
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
        let known = &self.remote[self.remote_at(keys)?];
        let was_fetched = known.source.was_fetched();
        was_fetched.then(|| Arc::clone(&known.source))
    }

    /// Adds a reference to a compiled form that is in use.
    pub(super) fn add_reference(&mut self, compiled: &Arc<Authenticator>) {
        if let Some(at) = self.by_address.get(&address(compiled)) {
            self.policies[*at].rules += 1;
        }
    }

    pub(super) fn remove_reference(&mut self, compiled: &Arc<Authenticator>) {
        if let Some(at) = self.by_address.get(&address(compiled)) {
            self.policies[*at].rules -= 1;
        }
    }

    /// Forgets the policies that no rule of the model uses.
    pub(super) fn forget_unused(&mut self) {
        if self.policies.iter().all(|known| known.rules > 0) {
            return;
        }
        self.policies.retain(|known| known.rules > 0);
        let policies = self.policies.iter().flat_map(|it| &it.policy.providers);
        let used: HashSet<RemoteId> = policies.filter_map(|it| remote_id(&it.keys)).collect();
        self.remote.retain(|remote| used.contains(&remote.id()));
        // Positions have changed.
        let remote = self.remote.iter().map(RemoteKeys::id);
        self.by_location = remote.zip(0..).collect();
        (self.by_hash, self.by_address) = (HashMap::new(), HashMap::new());
        for at in 0..self.policies.len() {
            self.index(at);
        }
    }

    /// Makes the policy at a position known.
    fn index(&mut self, at: usize) {
        let CompiledPolicy {
            policy, compiled, ..
        } = &self.policies[at];
        self.by_hash.entry(hash(policy)).or_default().push(at);
        self.by_address.insert(address(compiled), at);
    }

    fn remote_at(&self, keys: &JwtKeys) -> Option<usize> {
        self.by_location.get(&remote_id(keys)?).copied()
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
        let at = self.policies.len() - 1;
        self.index(at);
        at
    }

    fn keys(&mut self, provider: &JwtProvider) -> Arc<KeySource> {
        let (location, cache) = match &provider.keys {
            JwtKeys::Inline(json) => return Arc::new(inline(provider, json)),
            JwtKeys::Remote { location, cache } => (location, *cache),
        };
        if let Some(at) = self.remote_at(&provider.keys) {
            return Arc::clone(&self.remote[at].source);
        }
        let source = Arc::new(KeySource::pending(self.wake.clone()));
        let id = (location.clone(), cache);
        self.by_location.insert(id, self.remote.len());
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
    fn id(&self) -> RemoteId {
        (self.location.clone(), self.cache)
    }
}

/// The key set that a provider names; `None` for one in the policy itself.
fn remote_id(keys: &JwtKeys) -> Option<RemoteId> {
    match keys {
        JwtKeys::Inline(_) => None,
        JwtKeys::Remote { location, cache } => Some((location.clone(), *cache)),
    }
}

fn hash(policy: &JwtPolicy) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(policy)
}

fn address(compiled: &Arc<Authenticator>) -> usize {
    Arc::as_ptr(compiled).addr()
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
