//! What lowering a rule comes to, and what the rules of HTTP and gRPC routes have in common.

use std::sync::Arc;

use xds::model::{Filters, GatewayDuration, HttpRule, ObjectName, RouteRule};

use crate::problem::Problem;
use crate::reader::Reader;
use crate::reason::Reason;
use crate::resolve::backend::Referrer;

/// Where a rule stands.
pub(crate) struct Site<'p> {
    pub(crate) reader: &'p Reader<'p>,
    pub(crate) from: Referrer<'p>,
    pub(crate) route: &'p ObjectName,
    /// Its number in the route.
    pub(crate) index: usize,
}

/// What became of a rule.
pub(crate) struct LoweredRule {
    /// Its name, for policies to aim at.
    pub(crate) name: Option<Arc<str>>,
    /// The rule; `None` where it is dropped.
    pub(crate) rule: Option<RouteRule>,
    /// What in it cannot be carried out. If there is still a rule, it fails closed.
    pub(crate) problems: Vec<Problem>,
    /// References that lead nowhere; their share is refused.
    pub(crate) refs: Vec<Problem>,
}

/// What is found on the way through a rule.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) problems: Vec<Problem>,
    pub(crate) refs: Vec<Problem>,
    /// Whether a filter that we do not know might have refused the request.
    pub(crate) fails_closed: bool,
}

impl Notes {
    /// Takes the value, or notes the problem.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// Closes the notes on rule number `index`.
    pub(crate) fn lowered(
        self,
        name: Option<&str>,
        index: usize,
        rule: Option<HttpRule>,
    ) -> LoweredRule {
        let rule = match (self.problems.is_empty(), rule) {
            (true, rule) => rule,
            (false, Some(rule)) if self.fails_closed => Some(answer_500(rule)),
            (false, _) => None,
        };
        LoweredRule {
            name: name.map(Arc::from),
            rule: rule.map(RouteRule::Http),
            problems: of_rule(index, self.problems),
            refs: of_rule(index, self.refs),
        }
    }
}

/// Puts problems into rule number `index`.
pub(crate) fn of_rule(index: usize, problems: Vec<Problem>) -> Vec<Problem> {
    let at = |problem: Problem| problem.under(format_args!("spec.rules[{index}]"));
    problems.into_iter().map(at).collect()
}

/// The same matches, but nothing behind them.
fn answer_500(rule: HttpRule) -> HttpRule {
    HttpRule {
        filters: Filters::default(),
        backends: Vec::new(),
        retry: None,
        session: None,
        ..rule
    }
}

/// Reads a duration of Gateway API.
pub(crate) fn duration(text: &str, field: &str) -> Result<GatewayDuration, Problem> {
    GatewayDuration::parse(text)
        .map_err(|error| Problem::new(Reason::UnsupportedValue, field, error))
}
