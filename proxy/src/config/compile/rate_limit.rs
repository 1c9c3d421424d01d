//! Rate limits. Many rules of routes share a policy, which is compiled once per model; and what its rules
//! have counted is kept by changes, as long as the policy has a rule of that name for its target.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Instant;

use xds::model::{Policy, PolicyTarget, RateLimitPolicy, RateLimitRule};

use super::policy::{RequestSettings, parts};
use crate::policy::effective_fields::PolicyView;
use crate::policy::rate_limit::{
    Pace, RateLimit, RuleCounter, RuleCounts, RuleState, SharedCounts, no_counts, since_start,
};

/// Rate limits of the current model, and the counters of their rules.
#[derive(Debug, Default)]
pub(super) struct RateLimiters {
    /// The policies of the current model, by address in memory.
    compiled: HashMap<usize, Weak<RateLimit>>,
    counters: BTreeMap<CounterKey, Arc<RuleCounter>>,
    /// Rules of replaced policies that no policy has had since.
    replaced: BTreeSet<CounterKey>,
    /// What shards have counted by a rule (policy and name), at all targets: metrics do not fall if one goes.
    counts: HashMap<RuleNames, Weak<[RuleCounts]>>,
    /// Former states, until no shard reads them: no shard frees a table.
    former: Vec<Arc<RuleState>>,
    /// All counters, for metrics; `None` if that has changed.
    listed: Option<Arc<[Arc<RuleCounter>]>>,
}

/// A policy (`kind/namespace/name`), and a rule of it.
type RuleNames = (Box<str>, Box<str>);

/// A rule of a policy at a target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CounterKey {
    policy: Box<str>,
    target: PolicyTarget,
    rule: Box<str>,
}

impl CounterKey {
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

    /// Records that a policy is replaced. Those of its rules that are not compiled again end with
    /// [`RateLimiters::list`].
    pub(super) fn replace(&mut self, old: &Policy) {
        let rules = old.spec.rate_limit.iter().flat_map(|it| &it.rules);
        self.replaced
            .extend(rules.map(|rule| CounterKey::of(old, rule)));
    }

    /// All rate limits of a rule: those of overriding policies, the widest first, and then its own.
    pub(super) fn all_of(
        &mut self,
        settings: &RequestSettings<'_>,
        shards: NonZeroU32,
    ) -> Vec<(Arc<RateLimit>, PolicyView)> {
        let own = settings.rate_limit;
        let own = own.map(|policy| (policy, PolicyView::Effective));
        let enforced = settings.enforced.rate_limits.iter().copied();
        self.of_each(enforced.chain(own), shards)
    }

    /// The compiled rate limits of policies of the current model.
    pub(super) fn of_each<'a>(
        &mut self,
        policies: impl IntoIterator<Item = (&'a Policy, PolicyView)>,
        shards: NonZeroU32,
    ) -> Vec<(Arc<RateLimit>, PolicyView)> {
        let shards = usize::try_from(shards.get()).unwrap_or(usize::MAX);
        let policies = policies.into_iter();
        let compiled = policies.filter_map(|(policy, view)| {
            let limit = policy.spec.rate_limit.as_ref()?;
            Some((self.of(policy, limit, shards), view))
        });
        compiled.collect()
    }

    fn of(&mut self, policy: &Policy, limit: &RateLimitPolicy, shards: usize) -> Arc<RateLimit> {
        let place = std::ptr::from_ref(limit).addr();
        if let Some(known) = self.compiled.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        let counter = |rule: &RateLimitRule| self.counter(policy, rule, shards);
        let compiled = Arc::new(RateLimit::compile(limit, counter));
        self.compiled.insert(place, Arc::downgrade(&compiled));
        compiled
    }

    fn counter(
        &mut self,
        policy: &Policy,
        rule: &RateLimitRule,
        shards: usize,
    ) -> Arc<RuleCounter> {
        let key = CounterKey::of(policy, rule);
        self.replaced.remove(&key);
        let counter = if let Some(known) = self.counters.get(&key) {
            Arc::clone(known)
        } else {
            let counts = self.counts_of(&key, shards);
            let counter = Arc::new(RuleCounter::new((&key.policy, &key.rule), counts));
            self.counters.insert(key, Arc::clone(&counter));
            self.listed = None;
            counter
        };
        let keys = match rule.table_bytes() {
            0 => 1,
            _ => rule.max_keys,
        };
        let former = counter.set(rule.rate.map(Pace::new), keys, since_start(Instant::now()));
        self.former.extend(former);
        counter
    }

    fn counts_of(&mut self, key: &CounterKey, shards: usize) -> SharedCounts {
        let names = (key.policy.clone(), key.rule.clone());
        if let Some(known) = self.counts.get(&names).and_then(Weak::upgrade) {
            return known;
        }
        let counts = no_counts(shards);
        self.counts.insert(names, Arc::downgrade(&counts));
        counts
    }

    /// The counters of all rules in force, for metrics. Ends those that the model does not have any more.
    pub(super) fn list(&mut self) -> Arc<[Arc<RuleCounter>]> {
        for key in std::mem::take(&mut self.replaced) {
            if let Some(counter) = self.counters.remove(&key) {
                self.former.extend(counter.end());
                self.listed = None;
            }
        }
        self.former.retain(|state| Arc::strong_count(state) > 1);
        let counters = &self.counters;
        let list = || counters.values().map(Arc::clone).collect();
        let listed = self.listed.get_or_insert_with(|| {
            self.counts.retain(|_, counts| counts.strong_count() > 0);
            list()
        });
        Arc::clone(listed)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.former.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use xds::model::{
        ObjectName, PolicyKey, PolicySpec, Rate, RateLimitHeaders, RateLimitKey, RateLimitStatus,
        RatePeriod,
    };

    use super::*;

    /// A policy with a rule that keeps this many keys.
    fn policy(name: &str, max_keys: u32) -> Policy {
        let one = NonZeroU32::MIN;
        let rule = RateLimitRule {
            name: name.to_owned(),
            when: None,
            key: vec![RateLimitKey::Host],
            rate: Some(Rate::new(one, RatePeriod::Day, one).expect("a rate")),
            dry_run: false,
            max_keys,
        };
        let gateway = ObjectName::new("infra", "edge");
        Policy {
            key: PolicyKey::new("TrafficPolicy", &gateway, "Gateway/infra/edge"),
            target: PolicyTarget::Gateway(gateway),
            spec: PolicySpec {
                rate_limit: Some(RateLimitPolicy {
                    rules: vec![rule],
                    status: RateLimitStatus::TooManyRequests,
                    headers: RateLimitHeaders::Off,
                }),
                ..PolicySpec::default()
            },
        }
    }

    /// Compiles a policy in the place of another.
    fn compile(
        limiters: &mut RateLimiters,
        old: Option<&Policy>,
        new: Option<&Policy>,
    ) -> Option<Arc<RateLimit>> {
        if let Some(old) = old {
            limiters.replace(old);
        }
        limiters.begin();
        let compiled = new.map(|new| {
            let limit = new.spec.rate_limit.as_ref().expect("it has limits");
            limiters.of(new, limit, 1)
        });
        limiters.list();
        compiled
    }

    /// A WebSocket holds the snapshot that it began with, for days.
    #[test]
    fn a_tunnel_of_an_earlier_configuration_holds_no_table() {
        let (mut limiters, first) = (RateLimiters::default(), policy("each", 1 << 20));
        let held = compile(&mut limiters, None, Some(&first));
        let tables = |limiters: &RateLimiters| {
            let keys = limiters.counters.values().map(|it| it.table_keys());
            (keys.sum::<usize>(), limiters.former.len())
        };
        assert_eq!(tables(&limiters), (1 << 20, 0));
        let second = policy("each", 2048);
        let also_held = compile(&mut limiters, Some(&first), Some(&second));
        assert_eq!(tables(&limiters), (2048, 0), "the larger one is freed");
        let counters: Vec<_> = limiters.counters.values().cloned().collect();
        compile(&mut limiters, Some(&second), None);
        assert!(limiters.is_empty());
        assert_eq!(counters[0].table_keys(), 0);
        drop((held, also_held));
    }

    #[test]
    fn a_rule_that_stays_has_one_counter_in_all_configurations() {
        let (mut limiters, first) = (RateLimiters::default(), policy("each", 1024));
        compile(&mut limiters, None, Some(&first));
        let counter = |limiters: &RateLimiters| limiters.counters.values().next().cloned();
        let before = counter(&limiters).expect("it was compiled");
        let listed = limiters.list();
        for keys in [1024, 4096] {
            let next = policy("each", keys);
            compile(&mut limiters, Some(&first), Some(&next));
            assert!(counter(&limiters).is_some_and(|it| Arc::ptr_eq(&it, &before)));
            assert!(Arc::ptr_eq(&limiters.list(), &listed));
        }
        compile(&mut limiters, Some(&first), Some(&policy("other", 1024)));
        assert_eq!(limiters.list().len(), 1);
        assert!(counter(&limiters).is_some_and(|it| it.name() == "other"));
    }
}
