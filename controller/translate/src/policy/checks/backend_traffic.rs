//! XBackendTrafficPolicy, of the experimental channel of Gateway API.

use std::time::Duration;

use crate::files::check::Check;
use crate::files::syntax;
use crate::objects::admission::Admissible;
use crate::objects::checks::reference;
use crate::policy::api::{PolicyTargetReference, RetryConstraint, XBackendTrafficPolicy};
use crate::policy::retry_constraint;
use crate::route::checks::session;

impl Admissible for XBackendTrafficPolicy {
    const READS_STATUS: bool = true;
    const UNREAD: &'static [&'static str] = &["status"];

    fn check(&self, check: &mut Check) {
        let spec = &self.spec;
        check.field("spec", |check| {
            targets(check, &spec.target_refs);
            if let Some(given) = &spec.retry_constraint {
                check.field("retryConstraint", |check| constraint(check, given));
            }
            if let Some(given) = &spec.session_persistence {
                check.field("sessionPersistence", |check| session::session(check, given));
            }
        });
    }
}

fn targets(check: &mut Check, targets: &[PolicyTargetReference]) {
    if targets.is_empty() {
        check.missing("targetRefs", "is required: name a Service");
    }
    check.at_most("targetRefs", targets.len(), MAX_TARGETS);
    check.each("targetRefs", targets, |check, target| {
        reference::group_and_kind(check, &target.group, &target.kind);
        check.fits_field("name", Some(&target.name), syntax::object_name);
        if target.section_name.is_some() {
            check.field("sectionName", |check| {
                check.refuse("does not exist here: a policy is for a whole Service");
            });
        }
    });
    check.distinct("targetRefs", targets, "target", Some);
}

fn constraint(check: &mut Check, constraint: &RetryConstraint) {
    check.field("budget", |check| {
        let percent = constraint.budget.percent.unwrap_or_default();
        if percent > 100 {
            check.field("percent", |check| {
                check.refuse(format!("{percent} is too large: use 100 or less"));
            });
        }
        let interval = constraint.budget.interval.as_deref();
        check.fits_field("interval", interval, |text| {
            within(text, retry_constraint::BUDGET_INTERVALS)
        });
    });
    check.field("minRetryRate", |check| {
        let count = constraint.min_retry_rate.count.map_or(0, u32::from);
        if count > MAX_COUNT {
            check.field("count", |check| {
                check.refuse(format!("{count} is too large: use {MAX_COUNT} or less"));
            });
        }
        let interval = constraint.min_retry_rate.interval.as_deref();
        check.fits_field("interval", interval, |text| {
            within(text, retry_constraint::RATE_INTERVALS)
        });
    });
}

fn within(text: &str, bounds: (Duration, Duration)) -> syntax::Verdict {
    syntax::duration(text)?;
    let verdict = retry_constraint::interval(text, "", bounds);
    verdict.map(drop).map_err(|problem| problem.message.clone())
}

const MAX_TARGETS: usize = 16;
const MAX_COUNT: u32 = 1_000_000;
