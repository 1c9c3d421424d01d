//! What is found while a policy is lowered.

use super::basic_auth::ReadPasswords;
use super::bodies::ReadBodies;
use super::networks::ReadNetworks;
use super::precedence::REFUSED_UNTIL_THEN;
use crate::status::problem::{self, Problem};

/// What is found while the restrictions of a policy are lowered.
#[derive(Default)]
pub(super) struct Findings {
    /// Why it cannot be enforced.
    pub(super) invalid: Option<Problem>,
    /// Why paths cannot be rewritten.
    pub(super) invalid_rewrite: Option<Problem>,
    pub(super) left_out: Vec<Problem>,
    pub(super) refs: Vec<Problem>,
    pub(super) read: ReadEntries,
}

impl Findings {
    /// Adds the problems of a field.
    pub(super) fn refuse(&mut self, field: &str, problems: Vec<Problem>) {
        if self.invalid.is_none() {
            self.invalid = unenforceable(field, problems);
        }
    }

    /// Adds references of a field that do not resolve.
    pub(super) fn unresolved(&mut self, field: &str, refs: Vec<Problem>) {
        self.refs
            .extend(refs.into_iter().map(|problem| problem.under(field)));
    }
}

/// What a policy has read of ConfigMaps and Secrets: it stays in effect where they become unusable.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReadEntries {
    pub(super) networks: ReadNetworks,
    pub(super) passwords: ReadPasswords,
    pub(super) bodies: ReadBodies,
}

/// Combines the problems of a restriction, with their consequence.
fn unenforceable(field: &str, problems: Vec<Problem>) -> Option<Problem> {
    with_consequence(field, problems, REFUSED_UNTIL_THEN)
}

/// Combines the problems of a field, with this consequence.
pub(super) fn with_consequence(
    field: &str,
    problems: Vec<Problem>,
    consequence: &str,
) -> Option<Problem> {
    let problems: Vec<_> = problems.into_iter().map(|it| it.under(field)).collect();
    let first = problems.first()?;
    let message = match &*problems {
        [only] => only.message.clone(),
        all => problem::join(all.iter()),
    };
    Some(Problem {
        message: message + consequence,
        ..first.clone()
    })
}
