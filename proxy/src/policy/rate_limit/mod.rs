//! Limits of requests per client, or per other keys.
//!
//! [`RateLimit`] is a policy, compiled off the shards; [`RuleCounter`]s are what its rules have counted, which
//! all shards share and changes of the configuration keep. [`RateLimits`] are those in force at a rule of a
//! route: each moment of a request checks all of its rules, then counts it in all. How fast requests may
//! come is in `pace`, who has sent how many in `table`.

mod headers;
mod key;
mod pace;
mod rule;
mod state;
mod table;

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use xds::model::{RateLimitHeaders, RateLimitPolicy, RateLimitRule, RateLimitStatus};

use crate::policy::authentication::Authentication;
use crate::policy::authorization::{Attributes, Subject};
use crate::policy::effective_fields::PolicyView;

pub use headers::{Balance, seconds};
pub(in crate::policy) use key::KeyPart;
pub use pace::Pace;
pub use rule::RateRule;
pub use state::{RuleCounter, RuleCounts, RuleState, SharedCounts, no_counts, since_start};
pub use table::{Exhausted, KeyHash, Table, Taken};

use self::state::{Looked, Reading};

/// The compiled rate limits of a target.
#[derive(Debug)]
pub struct RateLimit {
    status: RateLimitStatus,
    headers: RateLimitHeaders,
    rules: Box<[RateRule]>,
}

impl RateLimit {
    /// Compiles a policy; `counter` gives that of each rule.
    #[must_use]
    pub fn compile(
        policy: &RateLimitPolicy,
        mut counter: impl FnMut(&RateLimitRule) -> Arc<RuleCounter>,
    ) -> Self {
        let rules = policy.rules.iter();
        Self {
            status: policy.status,
            headers: policy.headers,
            rules: rules
                .map(|rule| RateRule::compile(rule, counter(rule)))
                .collect(),
        }
    }

    /// Whether a rule reads claims.
    #[must_use]
    pub fn reads_claims(&self) -> bool {
        self.rules.iter().any(RateRule::reads_claims)
    }
}

/// When a request is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Once its head is read, even if no rule serves it: rules of overriding policies that distinguish clients by
    /// address alone.
    Head,
    /// Before its sender is authenticated: rules that read no claim.
    Early,
    /// Once it is authorized: rules that read claims.
    Late,
}

/// The rate limits at a rule of a route, or at a listener.
#[derive(Debug)]
pub struct RateLimits(Box<[InForce]>);

/// A policy at a rule of a route, or at a listener.
#[derive(Debug)]
struct InForce {
    limit: Arc<RateLimit>,
    view: PolicyView,
    /// Which of its rules count at the head, by a bit for each.
    head: u16,
    /// Which of them count early.
    early: u16,
    /// Which of them count late.
    late: u16,
}

impl InForce {
    /// A policy, beside these credentials: rules that read headers made of claims wait for them.
    fn new(
        (limit, view): (Arc<RateLimit>, PolicyView),
        credentials: Option<&Authentication>,
    ) -> Self {
        let (mut head, mut early, mut late) = (0, 0, 0);
        let bits = std::iter::successors(Some(1_u16), |bit| bit.checked_shl(1));
        for (rule, bit) in limit.rules.iter().zip(bits) {
            match rule.moment(view, credentials) {
                Moment::Head => head |= bit,
                Moment::Early => early |= bit,
                Moment::Late => late |= bit,
            }
        }
        Self {
            limit,
            view,
            head,
            early,
            late,
        }
    }

    fn bits_at(&self, moment: Moment) -> u16 {
        match moment {
            Moment::Head => self.head,
            Moment::Early => self.early,
            Moment::Late => self.late,
        }
    }

    /// The same, but rules of these counters do not count.
    fn without(&self, counters: &[*const RuleCounter]) -> Self {
        let rules = self.limit.rules.iter().zip(0_u32..);
        let kept =
            rules.filter(|(rule, _)| !counters.contains(&std::ptr::from_ref(rule.counter())));
        let kept = kept.fold(0, |bits, (_, index)| bits | 1_u16.wrapping_shl(index));
        Self {
            limit: Arc::clone(&self.limit),
            view: self.view,
            head: self.head & kept,
            early: self.early & kept,
            late: self.late & kept,
        }
    }

    fn rules_at(&self, moment: Moment) -> impl Iterator<Item = &RateRule> {
        let mut left = self.bits_at(moment);
        std::iter::from_fn(move || {
            let next = self.limit.rules.get(left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            next
        })
    }

    fn counts_at(&self, moment: Moment) -> bool {
        self.bits_at(moment) != 0
    }
}

/// Whether they count the same requests by the same states.
impl PartialEq for InForce {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.limit, &other.limit)
            && self.view == other.view
            && (self.head, self.early, self.late) == (other.head, other.early, other.late)
    }
}

impl PartialEq for RateLimits {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl RateLimits {
    /// The rate limits of policies at a rule of a route, beside these credentials. `None` if nothing is counted there.
    #[must_use]
    pub fn at_rule(
        limits: impl IntoIterator<Item = (Arc<RateLimit>, PolicyView)>,
        credentials: Option<&Authentication>,
    ) -> Option<Self> {
        let all = limits
            .into_iter()
            .map(|limit| InForce::new(limit, credentials));
        let here = all.filter(|it| it.counts_at(Moment::Early) || it.counts_at(Moment::Late));
        Self::of(here.collect())
    }

    /// The rate limits of policies that count at the head of a request. `None` if there is none.
    #[must_use]
    pub fn at_head(limits: impl IntoIterator<Item = (Arc<RateLimit>, PolicyView)>) -> Option<Self> {
        let all = limits.into_iter().map(|limit| InForce::new(limit, None));
        Self::of(all.filter(|it| it.counts_at(Moment::Head)).collect())
    }

    /// Those that count at the head of a request, without the rules that others have counted there. `None` if there
    /// is none.
    #[must_use]
    pub fn at_head_beyond(&self, counted: Option<&Self>) -> Option<Self> {
        let counted = counted.map_or_else(Vec::new, Self::counters_at_head);
        let all = self.0.iter().map(|it| it.without(&counted));
        Self::of(all.filter(|it| it.counts_at(Moment::Head)).collect())
    }

    /// These, without the rules that others have counted at the head of a request, if some of them would count at
    /// this moment too: they stopped overriding meanwhile.
    #[must_use]
    pub fn beyond_head(&self, moment: Moment, counted: &Self) -> Option<Self> {
        let counted = counted.counters_at_head();
        let mut rules = self.0.iter().flat_map(|it| it.rules_at(moment));
        let is_counted = rules.any(|rule| counted.contains(&std::ptr::from_ref(rule.counter())));
        is_counted.then(|| Self(self.0.iter().map(|it| it.without(&counted)).collect()))
    }

    fn counters_at_head(&self) -> Vec<*const RuleCounter> {
        let rules = self.0.iter().flat_map(|it| it.rules_at(Moment::Head));
        rules
            .map(|rule| std::ptr::from_ref(rule.counter()))
            .collect()
    }

    fn of(limits: Box<[InForce]>) -> Option<Self> {
        (!limits.is_empty()).then_some(Self(limits))
    }

    /// Whether there are rules that count at a moment.
    #[must_use]
    pub fn counts_at(&self, moment: Moment) -> bool {
        self.0.iter().any(|it| it.counts_at(moment))
    }

    /// Whether rules that count at a moment read headers in this view.
    #[must_use]
    pub fn reads_headers(&self, moment: Moment, view: PolicyView) -> bool {
        let mut policies = self.0.iter().filter(|it| it.view == view);
        policies.any(|it| it.rules_at(moment).any(RateRule::reads_headers))
    }

    /// Counts a request at a moment, `since` the start of the process; on this shard. `subject` is what policies
    /// see of it. Rules are explained if `explains`.
    #[must_use]
    pub fn count<'s>(
        &self,
        moment: Moment,
        subject: impl Fn(PolicyView) -> Subject<'s>,
        (since, shard): (Duration, usize),
        explains: bool,
    ) -> Counted<'_> {
        let mut counted = Counted {
            explains,
            ..Counted::default()
        };
        let mut checks = Checks::default();
        let mut last: Option<(PolicyView, &[KeyPart], KeyHash)> = None;
        for policy in &self.0 {
            let subject = subject(policy.view);
            let attributes = OnceCell::new();
            let collect = || {
                let reads_headers = policy.rules_at(moment).any(RateRule::reads_headers);
                Attributes::of(subject, reads_headers)
            };
            for rule in policy.rules_at(moment) {
                match rule.applies(|| attributes.get_or_init(collect)) {
                    Ok(true) => {}
                    Ok(false) => {
                        counted
                            .explain(rule, || "does not apply: its condition is false".to_owned());
                        continue;
                    }
                    Err(why) => counted.explain(rule, || {
                        format!("applies, since its condition cannot be evaluated: {why}")
                    }),
                }
                // Several rules of a policy mostly have the same key, with a rate for each period.
                let same = last.filter(|(view, key, _)| *view == policy.view && *key == rule.key());
                let key = same.map_or_else(|| rule.hash(&subject), |(_, _, hash)| hash);
                last = Some((policy.view, rule.key(), key));
                checks.push(Check {
                    limit: &policy.limit,
                    rule,
                    state: rule.state(),
                    key,
                    looked: None,
                    result: None,
                });
            }
        }
        decide(checks.as_mut_slice(), (since, shard), &mut counted);
        counted
    }
}

/// A rule that applies to a request.
struct Check<'a> {
    limit: &'a RateLimit,
    rule: &'a RateRule,
    /// `None` if a newer configuration does not have the rule: it counts nothing.
    state: Reading,
    key: KeyHash,
    /// What it has found, if it would allow the request.
    looked: Option<Looked>,
    /// What it says, once it was asked.
    result: Option<Result<Taken, Exhausted>>,
}

/// The rules that apply to a request. Mostly there is one, which takes no memory of the heap.
#[derive(Default)]
struct Checks<'a> {
    only: Option<Check<'a>>,
    several: Vec<Check<'a>>,
}

impl<'a> Checks<'a> {
    fn push(&mut self, check: Check<'a>) {
        if let Some(first) = self.only.take() {
            self.several.push(first);
        } else if self.several.is_empty() {
            self.only = Some(check);
            return;
        }
        self.several.push(check);
    }

    fn as_mut_slice(&mut self) -> &mut [Check<'a>] {
        match &mut self.only {
            Some(only) => std::slice::from_mut(only),
            None => &mut self.several,
        }
    }
}

impl Check<'_> {
    fn refuses(&self) -> bool {
        matches!(self.result, Some(Err(_))) && !self.rule.is_dry_run()
    }

    /// Looks whether the request would be allowed.
    fn look(&mut self, since: Duration) {
        if let Some(state) = self.state.as_deref() {
            match state.look(self.key, since) {
                Ok(looked) => self.looked = Some(looked),
                Err(exhausted) => self.result = Some(Err(exhausted)),
            }
        }
    }

    /// Counts the request, if it would be allowed.
    fn take(&mut self) {
        if let (Some(state), Some(looked)) = (self.state.as_deref(), self.looked) {
            self.result = Some(state.take(self.key, looked));
        }
    }

    fn give_back(&mut self) {
        if let (Some(state), Some(looked), Some(Ok(_))) = (
            self.state.as_deref(),
            self.looked,
            self.result.take_if(|it| it.is_ok()),
        ) {
            state.give_back(self.key, looked);
        }
    }
}

/// Checks all rules, then counts in all. If others have taken what was left meanwhile, the request is
/// refused and not counted: one too many is refused at worst.
fn decide<'a>(
    checks: &mut [Check<'a>],
    (since, shard): (Duration, usize),
    counted: &mut Counted<'a>,
) {
    for check in &mut *checks {
        check.look(since);
    }
    if !checks.iter().any(Check::refuses) {
        for at in 0..checks.len() {
            let (before, rest) = checks.split_at_mut(at);
            let Some(check) = rest.first_mut() else {
                continue;
            };
            check.take();
            if check.refuses() {
                before.iter_mut().for_each(Check::give_back);
                break;
            }
        }
    }
    for check in checks {
        counted.add(check, since, shard);
    }
}

/// The result of counting a request.
#[derive(Debug, Default)]
pub struct Counted<'a> {
    /// That it is refused.
    pub refusal: Option<Refusal<'a>>,
    /// What the rule that leaves it least tells the client.
    pub balance: Option<(Balance<'a>, RateLimitHeaders)>,
    /// What rules said, for traces: policy (`kind/namespace/name`), rule, and what.
    pub explanations: Vec<(&'a str, &'a str, String)>,
    explains: bool,
}

/// The refusal of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// `kind/namespace/name` of the policy.
    pub policy: &'a str,
    /// Name of the rule: of several, the one that takes longest.
    pub rule: &'a str,
    /// Status of the response.
    pub status: RateLimitStatus,
    /// Time until the next request is allowed; `None` if none ever is.
    pub retry_after: Option<Duration>,
}

impl<'a> Counted<'a> {
    fn explain(&mut self, rule: &'a RateRule, what: impl FnOnce() -> String) {
        if self.explains {
            let policy = rule.counter().policy();
            self.explanations.push((policy, rule.name(), what()));
        }
    }

    fn add(&mut self, check: &Check<'a>, since: Duration, shard: usize) {
        let (limit, rule) = (check.limit, check.rule);
        let Some(state) = check.state.as_deref() else {
            return self.explain(rule, || {
                "counts nothing: it is no longer configured".to_owned()
            });
        };
        let balance = || state.balance(rule.name(), check.key, since);
        let counts = rule.counter().counts(shard);
        match check.result {
            None => {
                return self.explain(rule, || {
                    "does not count it: another rule refuses it".to_owned()
                });
            }
            Some(Ok(taken)) => {
                counts.count_allowed(taken.replaced);
                self.explain(rule, || {
                    balance().map_or_else(String::new, |it| format!("allows it: {it}"))
                });
            }
            Some(Err(_)) if rule.is_dry_run() => {
                counts.count_would_limit();
                self.explain(rule, || {
                    "would refuse it without dryRun, and lets it pass".to_owned()
                });
            }
            Some(Err(exhausted)) => {
                counts.count_limited();
                let retry_after = state.time_until_allowed(exhausted);
                self.explain(rule, || match retry_after {
                    Some(wait) => {
                        let seconds = seconds(wait);
                        format!("refuses it: the next request is allowed in {seconds} s")
                    }
                    None => "refuses it, as every request".to_owned(),
                });
                self.refuse(Refusal {
                    policy: rule.counter().policy(),
                    rule: rule.name(),
                    status: limit.status,
                    retry_after,
                });
            }
        }
        if limit.headers == RateLimitHeaders::Off || rule.is_dry_run() {
            return;
        }
        if let Some(balance) = balance() {
            let is_least = |(least, _): &(Balance<'_>, _)| balance.remaining < least.remaining;
            if self.balance.as_ref().is_none_or(is_least) {
                self.balance = Some((balance, limit.headers));
            }
        }
    }

    fn refuse(&mut self, refusal: Refusal<'a>) {
        let lasts_longer = |it: &Refusal<'_>| match (it.retry_after, refusal.retry_after) {
            (Some(known), Some(new)) => new > known,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if self.refusal.as_ref().is_none_or(lasts_longer) {
            self.refusal = Some(refusal);
        }
    }
}

#[cfg(test)]
mod tests;
