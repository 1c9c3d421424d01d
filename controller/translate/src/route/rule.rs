//! The result of lowering a rule, and helpers shared by HTTP and gRPC rules.

use std::sync::Arc;

use xds::model::{Filters, GatewayDuration, HttpRule, ObjectName, RouteRule};

use super::expressions::RouteExpressions;
use crate::backend::referrer::Referrer;
use crate::objects::reader::Reader;
use crate::status::problem::{self, Problem};
use crate::status::reason::Reason;

/// The location of a rule.
pub(crate) struct RuleContext<'p> {
    pub(crate) reader: &'p Reader<'p>,
    pub(crate) from: Referrer<'p>,
    pub(crate) route: &'p ObjectName,
    /// The expressions of the route so far.
    pub(crate) expressions: &'p RouteExpressions,
    /// Index of the rule in the route.
    pub(crate) index: usize,
}

pub(crate) struct LoweredRule {
    /// Its name, for policies that target it.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) rule: RouteRule,
    /// Invalid parts. With any, the rule answers with 500.
    pub(crate) problems: Vec<Problem>,
    /// Unresolved references; requests to their share are rejected.
    pub(crate) refs: Vec<Problem>,
}

/// The findings about a rule.
#[derive(Default)]
pub(crate) struct RuleNotes {
    pub(crate) problems: Vec<Problem>,
    pub(crate) refs: Vec<Problem>,
}

impl RuleNotes {
    /// Returns the value, or records the problem.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// Completes the findings about rule number `index`.
    pub(crate) fn lowered(self, index: usize, rule: HttpRule) -> LoweredRule {
        let name = rule.name.as_deref().map(Arc::from);
        let problems = of_rule(index, self.problems);
        let rule = if problems.is_empty() {
            rule
        } else {
            HttpRule {
                invalid: Some(cause(&problems)),
                ..answer_500(rule)
            }
        };
        LoweredRule {
            name,
            rule: RouteRule::Http(rule),
            problems,
            refs: of_rule(index, self.refs),
        }
    }
}

/// Prefixes problems with the field of rule number `index`.
pub(crate) fn of_rule(index: usize, problems: Vec<Problem>) -> Vec<Problem> {
    let at = |problem: Problem| problem.under(format_args!("spec.rules[{index}]"));
    problems.into_iter().map(at).collect()
}

/// The same matches without backends: left out, the rule would leave its requests to others, which may
/// check less, or send them elsewhere.
pub(crate) fn answer_500(rule: HttpRule) -> HttpRule {
    HttpRule {
        filters: Filters::default(),
        backends: Box::default(),
        retry: None,
        session: None,
        ..rule
    }
}

/// Why a rule is invalid, as far as the proxies that refuse its requests say it.
fn cause(problems: &[Problem]) -> Box<str> {
    let mut cause = problem::join(problems.iter());
    cause.truncate(cause.floor_char_boundary(CAUSE_BYTES));
    cause.into()
}

/// Most bytes of what a proxy knows of an invalid rule: the status of its route has all of it.
const CAUSE_BYTES: usize = 512;

/// Parses a Gateway API duration.
pub(crate) fn duration(text: &str, field: &str) -> Result<GatewayDuration, Problem> {
    GatewayDuration::parse(text)
        .map_err(|error| Problem::new(Reason::UnsupportedValue, field, error))
}
