//! A compiled rule.

use std::sync::Arc;

use tracing::warn;
use translate::policy::expression::Expression;
use xds::model::RateLimitRule;

use super::Moment;
use super::key::{KeyPart, hash};
use super::state::{Reading, RuleCounter};
use super::table::KeyHash;
use crate::policy::authentication::Authentication;
use crate::policy::authorization::{Attributes, ConditionNetworks, Subject, holds};
use crate::policy::effective_fields::PolicyView;

/// A rule of a policy at a target.
#[derive(Debug)]
pub struct RateRule {
    when: Option<Expression>,
    networks: ConditionNetworks,
    key: Box<[KeyPart]>,
    dry_run: bool,
    counter: Arc<RuleCounter>,
}

impl RateRule {
    /// Compiles a rule. One with an invalid condition counts every request.
    pub(super) fn compile(rule: &RateLimitRule, counter: Arc<RuleCounter>) -> Self {
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
            dry_run: rule.dry_run,
            counter,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.counter.name()
    }

    pub(super) fn counter(&self) -> &RuleCounter {
        &self.counter
    }

    /// What it has counted; `None` if it is no longer in force.
    pub(super) fn state(&self) -> Reading {
        self.counter.state()
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

    /// When it counts, in a policy that sees this of a request, beside these credentials.
    pub(super) fn moment(&self, view: PolicyView, credentials: Option<&Authentication>) -> Moment {
        let is_overriding = view != PolicyView::Effective;
        // Headers that are made of claims are none that the client has sent.
        let credentials = credentials.filter(|_| !is_overriding);
        if self.waits_for(credentials) {
            Moment::Late
        } else if is_overriding && self.is_by_address() {
            Moment::Head
        } else {
            Moment::Early
        }
    }

    /// Whether it counts every request, by the address of its client alone.
    fn is_by_address(&self) -> bool {
        self.when.is_none()
            && !self.key.is_empty()
            && self.key.iter().all(KeyPart::is_client_address)
    }

    /// Whether it can be evaluated only after authentication by these credentials.
    fn waits_for(&self, credentials: Option<&Authentication>) -> bool {
        let reads_any = self.when.as_ref().is_some_and(Expression::reads_headers);
        let reads = |it: &Authentication| {
            let mut headers = self.key.iter().filter_map(KeyPart::header);
            reads_any && it.writes_headers()
                || headers.any(|name| it.claims_header(name.as_bytes()))
        };
        self.reads_claims() || credentials.is_some_and(reads)
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
            Some(when) => holds(when, attributes(), &self.networks),
        }
    }

    /// The parts of its key.
    pub(super) fn key(&self) -> &[KeyPart] {
        &self.key
    }

    pub(super) fn hash(&self, subject: &Subject<'_>) -> KeyHash {
        hash(&self.key, subject)
    }
}
