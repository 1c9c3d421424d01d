//! Counters of external authorization.

use super::causes::ByCause;
use super::counters::Histogram;
use crate::names::causes;
use crate::policy::external_auth::{MissingVerdict, Verdict};

/// Calls to authorization servers.
#[derive(Debug, Default)]
pub struct ExternalAuths {
    /// Checks by their result.
    pub results: ByCause<AuthResult>,
    /// How long they took.
    pub took: Histogram,
}

causes! {
    /// The result of an authorization check.
    AuthResult;
    /// The server allows the request.
    Allowed "allowed";
    /// The server denies the request.
    Denied "denied";
    /// No decision: the server could not be reached, or failed.
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
