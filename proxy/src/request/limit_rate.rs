//! Rate limits, if the rule has any.

use std::time::Instant;

use crate::exchange::{Exchange, Matched};
use crate::failure::{Failure, FailureKind};
use crate::policy::normalise::Target;
use crate::policy::rate_limit::{Counted, Moment, RateLimits, since_start};
use crate::trace::PolicyEffect;

impl<'a> Exchange<'a> {
    /// Counts the request in the rules of this moment, or refuses it. A preflight counts nowhere: a browser
    /// sends it by itself.
    pub(super) fn limit_rate(
        &mut self,
        matched: &Matched<'a>,
        host: &str,
        moment: Moment,
    ) -> Result<(), Failure> {
        match matched.rule.rate_limits.as_deref() {
            Some(limits) if limits.counts_at(moment) => {
                match self.not_counted_at_head(limits, moment) {
                    Some(rest) => self.count_rate(&rest, matched, host, moment),
                    None => self.count_rate(limits, matched, host, moment),
                }
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The limits without the rules that have counted the request at its head; `None` if none of those counts at this
    /// moment. None does in one configuration, but another may come while authorization servers of the listener decide.
    fn not_counted_at_head(&self, limits: &RateLimits, moment: Moment) -> Option<RateLimits> {
        let listener = self.record.listener?;
        if listener.external_auth.is_empty() {
            return None;
        }
        let counted = listener.head_policies.as_deref()?.rate_limits.as_ref()?;
        limits.beyond_head(moment, counted)
    }

    fn count_rate(
        &mut self,
        limits: &RateLimits,
        matched: &Matched<'a>,
        host: &str,
        moment: Moment,
    ) -> Result<(), Failure> {
        if self.is_preflight(matched) {
            if let Some(trace) = &self.record.trace {
                let why = "a preflight request counts nowhere";
                trace.policy("rateLimit", PolicyEffect::Skipped(why));
            }
            return Ok(());
        }
        self.count_at(limits, moment, (host, matched.target))
    }

    /// Counts the request at a moment, or refuses it.
    pub(super) fn count_at(
        &mut self,
        limits: &RateLimits,
        moment: Moment,
        (host, target): (&str, Target<'a>),
    ) -> Result<(), Failure> {
        let lines = self.lines_seen(target, |view| limits.reads_headers(moment, view));
        let subject = |view| self.subject((host, target.path()), view, &lines);
        let place = (since_start(Instant::now()), usize::from(self.shard.id));
        let counted = limits.count(moment, subject, place, self.record.trace.is_some());
        if let Some(trace) = &self.record.trace {
            trace.rate_limit(&counted);
        }
        self.tell_client(&counted);
        let Some(refusal) = counted.refusal else {
            return Ok(());
        };
        let route = self.record.rule.map(|rule| &*rule.name);
        tracing::debug!(
            route,
            policy = refusal.policy,
            rule = refusal.rule,
            "refused a request: it exceeds a rate limit"
        );
        let limited = self.rate_limited.get_or_insert_default();
        limited.status = refusal.status;
        limited.retry_after = refusal.retry_after;
        Err(FailureKind::RateLimited.into())
    }

    /// Keeps what the rule that leaves the client least says, of both moments, for the response.
    fn tell_client(&mut self, counted: &Counted<'_>) {
        let Some((balance, headers)) = &counted.balance else {
            return;
        };
        let known = self.rate_limited.get_or_insert_default();
        let is_least = known
            .remaining
            .is_none_or(|known| balance.remaining < known);
        if is_least {
            known.remaining = Some(balance.remaining);
            known.fields = balance.fields(*headers);
        }
    }
}
