//! The regular expressions of a route: what its object may have.

use std::cell::RefCell;
use std::sync::Arc;

use xds::model::{InvalidPattern, Pattern, PatternBudget};

use crate::budgets::{Budget, Limits, Use};
use crate::status::problem::{Problem, unsupported};

/// Takes the expressions of a route while its rules are lowered, in their order.
#[derive(Debug)]
pub(crate) struct RouteExpressions(RefCell<PatternBudget>);

impl RouteExpressions {
    /// None yet, within these limits.
    pub(crate) fn new(limits: &Limits) -> Self {
        let limit = limits.of(Budget::RouteExpressionBytes);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self(RefCell::new(PatternBudget::of(limit)))
    }

    /// What they use of the budgets of an object.
    pub(crate) fn uses(&self, limits: &Limits) -> Vec<(Budget, Use)> {
        let expressions = self.0.borrow();
        let (route, one) = (Budget::RouteExpressionBytes, Budget::ExpressionBytes);
        let of_route = Use::of_object(expressions.used() as u64, limits.of(route));
        let (largest, too_large) = expressions.largest();
        let limit = limits.of(one);
        // What is too large was not compiled to its end, so its size is not known.
        let excess = if too_large > 0 { limit } else { 0 };
        let of_one = Use::of_object(largest as u64 + excess, limit);
        let uses = [of_route.map(|it| (route, it)), of_one.map(|it| (one, it))];
        uses.into_iter().flatten().collect()
    }

    /// Parses the expression of a field.
    pub(crate) fn parse(&self, text: &str, field: &str) -> Result<Pattern, Problem> {
        let parsed = self.0.borrow_mut().parse(text);
        parsed.map_err(|error| problem(&error, field))
    }

    /// Checks the expression of a field that becomes a part of another one.
    pub(crate) fn check(&self, text: &str, field: &str) -> Result<(), Problem> {
        let checked = self.0.borrow_mut().check(text);
        checked.map_err(|error| problem(&error, field))
    }

    /// An expression for everything that begins with `start`, if there is room for it.
    pub(crate) fn beginning_with(&self, start: &str) -> Pattern {
        if start.is_empty() {
            return any_text();
        }
        let parsed = self.0.borrow_mut().parse(&beginning_with(start));
        parsed.unwrap_or_else(|_| any_text())
    }

    /// The expressions that were taken, each once.
    pub(crate) fn into_patterns(self) -> Arc<[Pattern]> {
        self.0.into_inner().into_patterns().into()
    }
}

/// A problem with the expression of a field.
fn problem(error: &InvalidPattern, field: &str) -> Problem {
    match error {
        InvalidPattern::TooLong(_) | InvalidPattern::Syntax { .. } => {
            let advice = "use a short one in the syntax of RE2, without look-around";
            unsupported(field, format_args!("{error}; {advice}"))
        }
        _ => unsupported(field, error),
    }
}

/// A regular expression for any text. It is the same for all routes, and counts for none.
pub(crate) fn any_text() -> Pattern {
    Pattern::parse(ANY_TEXT).expect("a constant that compiles")
}

/// An expression for everything that begins with a text without operators.
pub(crate) fn beginning_with(start: &str) -> String {
    format!("{start}{ANY_TEXT}")
}

const ANY_TEXT: &str = "(?s:.*)";
