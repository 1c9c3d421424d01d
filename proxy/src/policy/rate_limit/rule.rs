//! A compiled rule.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use translate::expression::Expression;
use xds::model::RateLimitRule;

use super::headers::{Balance, seconds};
use super::key::{KeyPart, hash};
use super::state::RuleState;
use super::table::{Exhausted, KeyHash, Taken};
use crate::policy::authorization::{Attributes, ConditionNetworks, Subject, holds};
use crate::policy::jwt::Authenticator;

/// A rule of a policy at a target, with what it has counted.
#[derive(Debug)]
pub struct RateRule {
    when: Option<Expression>,
    networks: ConditionNetworks,
    key: Box<[KeyPart]>,
    burst: u64,
    dry_run: bool,
    state: Arc<RuleState>,
}

impl RateRule {
    /// Compiles a rule. One with an invalid condition counts every request.
    pub(super) fn compile(rule: &RateLimitRule, state: Arc<RuleState>) -> Self {
        let when = rule.when.as_deref().and_then(|when| {
            let parsed = Expression::parse(when);
            parsed
                .inspect_err(|why| warn!(rule = rule.name, "every request is counted: it {why}"))
                .ok()
        });
        Self {
            networks: ConditionNetworks::of(when.iter()),
            when,
            key: rule.key.iter().map(KeyPart::compile).collect(),
            burst: rule.rate.map_or(0, |rate| rate.burst().get().into()),
            dry_run: rule.dry_run,
            state,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.state.name()
    }

    pub(super) fn state(&self) -> &RuleState {
        &self.state
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn reads_claims(&self) -> bool {
        self.when.as_ref().is_some_and(Expression::reads_claims)
            || self.key.iter().any(KeyPart::reads_claims)
    }

    pub(super) fn reads_headers(&self) -> bool {
        self.when.as_ref().is_some_and(Expression::reads_headers)
            || self.key.iter().any(|part| part.header().is_some())
    }

    /// The networks that its condition compares the client's address with.
    pub(super) fn networks(&self) -> &ConditionNetworks {
        &self.networks
    }

    /// Whether it can be evaluated only after authentication by these tokens.
    pub(super) fn waits_for(&self, jwt: Option<&Authenticator>) -> bool {
        let reads_any = self.when.as_ref().is_some_and(Expression::reads_headers);
        let reads = |jwt: &Authenticator| {
            let mut headers = self.key.iter().filter_map(KeyPart::header);
            reads_any && jwt.writes_headers()
                || headers.any(|name| jwt.claims_header(name.as_bytes()))
        };
        self.reads_claims() || jwt.is_some_and(reads)
    }

    /// Whether it counts a request.
    ///
    /// # Errors
    /// Its condition cannot be evaluated, for this reason.
    pub(super) fn applies<'s>(
        &self,
        attributes: impl FnOnce() -> &'s Attributes<'s>,
    ) -> Result<bool, String> {
        match &self.when {
            None => Ok(true),
            Some(when) => holds(when, attributes()),
        }
    }

    pub(super) fn hash(&self, subject: &Subject<'_>) -> KeyHash {
        hash(&self.key, subject, &self.state.seed)
    }

    /// Whether a request would be allowed.
    pub(super) fn check(&self, key: KeyHash, since: Duration) -> Result<(), Exhausted> {
        let Some(pace) = &self.state.pace else {
            return Err(Exhausted { wait: 0 });
        };
        let debt = self.state.table.debt(key, pace, pace.at(since));
        pace.step(debt).map(drop).map_err(|wait| Exhausted { wait })
    }

    pub(super) fn take(&self, key: KeyHash, since: Duration) -> Result<Taken, Exhausted> {
        match &self.state.pace {
            Some(pace) => self.state.table.take(key, pace, pace.at(since)),
            None => Err(Exhausted { wait: 0 }),
        }
    }

    pub(super) fn give_back(&self, key: KeyHash, since: Duration) {
        if let Some(pace) = &self.state.pace {
            self.state.table.give_back(key, pace, pace.at(since));
        }
    }

    /// The time until a request is allowed; `None` if none ever is.
    pub(super) fn time_until_allowed(&self, Exhausted { wait }: Exhausted) -> Option<Duration> {
        Some(self.state.pace.as_ref()?.time(wait))
    }

    /// What it leaves to a key.
    pub(super) fn balance(&self, key: KeyHash, since: Duration) -> Option<Balance<'_>> {
        let pace = self.state.pace.as_ref()?;
        let debt = self.state.table.debt(key, pace, pace.at(since));
        Some(Balance {
            rule: self.name(),
            limit: self.burst,
            window: pace.whole(),
            remaining: pace.remaining(debt),
            reset: pace.time(debt),
        })
    }

    /// For traces.
    pub(super) fn describe_left(&self, taken: Taken) -> String {
        let Some(pace) = &self.state.pace else {
            return String::new();
        };
        let (left, burst) = (pace.remaining(taken.debt), self.burst);
        let reset = seconds(pace.time(taken.debt));
        format!("allows it: {left} of {burst} left, all of them in {reset} s")
    }
}
