//! Rate limits. Many rules of routes share a policy, which is compiled once per model; and what its rules
//! have counted is kept by changes, as long as the policy has a rule of that name for its target.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Instant;

use xds::model::{Policy, PolicyTarget, RateLimitPolicy, RateLimitRule};

use super::policy::parts;
use crate::policy::rate_limit::{Pace, RateLimit, RuleState, SharedCounts, no_counts, since_start};

/// Rate limits of the current model, and the states of their rules.
#[derive(Debug, Default)]
pub(super) struct RateLimiters {
    /// The policies of the current model, by address in memory.
    compiled: HashMap<usize, Weak<RateLimit>>,
    states: BTreeMap<StateKey, Arc<RuleState>>,
    /// Those of rules that were removed, until no request uses them.
    removed: Vec<StateKey>,
    /// All states, for metrics.
    listed: Arc<[Weak<RuleState>]>,
}

/// A rule of a policy (`kind/namespace/name`) at a target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct StateKey {
    policy: Box<str>,
    target: PolicyTarget,
    rule: Box<str>,
}

impl StateKey {
    fn of(policy: &Policy, rule: &RateLimitRule) -> Self {
        Self {
            policy: parts(policy.key.as_str(), 3).into(),
            target: policy.target.clone(),
            rule: rule.name.as_str().into(),
        }
    }
}

impl RateLimiters {
    pub(super) fn begin(&mut self) {
        self.compiled.clear();
    }

    /// Records that a policy is replaced. Rules that are gone are forgotten with the last request that uses
    /// them.
    pub(super) fn replace(&mut self, old: &Policy) {
        let rules = old.spec.rate_limit.iter().flat_map(|it| &it.rules);
        let keys = rules.map(|rule| StateKey::of(old, rule));
        let new: Vec<_> = keys.filter(|key| !self.removed.contains(key)).collect();
        self.removed.extend(new);
    }

    /// The compiled rate limits of a policy of the current model.
    pub(super) fn of(
        &mut self,
        policy: &Policy,
        limit: &RateLimitPolicy,
        shards: usize,
    ) -> Arc<RateLimit> {
        let place = std::ptr::from_ref(limit).addr();
        if let Some(known) = self.compiled.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        let state = |index: usize| self.state(policy, &limit.rules[index], shards);
        let compiled = Arc::new(RateLimit::compile(limit, state));
        self.compiled.insert(place, Arc::downgrade(&compiled));
        compiled
    }

    fn state(&mut self, policy: &Policy, rule: &RateLimitRule, shards: usize) -> Arc<RuleState> {
        let key = StateKey::of(policy, rule);
        let pace = rule.rate.map(Pace::new);
        let keys = match rule.table_bytes() {
            0 => 1,
            _ => rule.max_keys,
        };
        let state = if let Some(state) = self.states.get(&key) {
            state.changed(pace, keys, since_start(Instant::now()))
        } else {
            let names = (&*key.policy, &*key.rule);
            let counts = self.counts_of(names, shards);
            Arc::new(RuleState::new(names, pace, keys, counts))
        };
        self.states.insert(key, Arc::clone(&state));
        state
    }

    /// The counts of a rule, of all targets of its policy: metrics do not fall if one goes.
    fn counts_of(&self, names: (&str, &str), shards: usize) -> SharedCounts {
        let mut states = self.states.values();
        let known = states.find(|it| (it.policy(), it.name()) == names);
        known.map_or_else(|| no_counts(shards), |it| Arc::clone(it.shared_counts()))
    }

    /// The states of all rules in force. Forgets those that neither the model nor a request uses.
    pub(super) fn list(&mut self) -> Arc<[Weak<RuleState>]> {
        let states = &mut self.states;
        self.removed.retain(|key| {
            let is_used = states.get(key).is_some_and(|it| Arc::strong_count(it) > 1);
            if !is_used {
                states.remove(key);
            }
            is_used
        });
        let is_same = self.listed.len() == self.states.len() && {
            self.listed.iter().zip(self.states.values())
        }
        .all(|(listed, state)| std::ptr::eq(listed.as_ptr(), Arc::as_ptr(state)));
        if !is_same {
            self.listed = self.states.values().map(Arc::downgrade).collect();
        }
        Arc::clone(&self.listed)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}
