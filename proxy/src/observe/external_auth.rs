//! What authorization servers said.

use super::causes::ByCause;
use super::counters::Histogram;
use crate::names::causes;
use crate::policy::external_auth::{MissingVerdict, Verdict};

/// Questions to authorization servers.
#[derive(Debug, Default)]
pub struct ExternalAuths {
    /// By the answer.
    pub results: ByCause<AuthResult>,
    /// How long they took.
    pub took: Histogram,
}

causes! {
    /// What an authorization server said of a request.
    AuthResult;
    /// It may pass.
    Allowed "allowed";
    /// It may not.
    Denied "denied";
    /// Nothing: the server could not be asked, or could not tell.
    Failed "failed";
}

impl From<&Result<Verdict, MissingVerdict>> for AuthResult {
    fn from(verdict: &Result<Verdict, MissingVerdict>) -> Self {
        match verdict {
            Ok(Verdict::Allowed { .. }) => Self::Allowed,
            Ok(Verdict::Denied(_)) => Self::Denied,
            Err(MissingVerdict(_)) => Self::Failed,
        }
    }
}
