//! Why a request is rejected. The client learns only the kind, never which check failed.

use crate::failure::{Failure, FailureKind};
use crate::names::causes;

causes! {
    /// Why a request is rejected.
    Refusal;
    /// It has no token, but needs one.
    Missing "no_token";
    /// It has more than one.
    Ambiguous "several_tokens";
    /// The token exceeds the length limit.
    TooLong "too_long";
    /// It is malformed, or not a signed token.
    Malformed "malformed";
    /// Its header has critical extensions.
    Critical "critical_extension";
    /// Its issuer is missing, or not a provider of the policy.
    Issuer "unknown_issuer";
    /// The issuer has no such key, or none for its algorithm.
    Key "unknown_key";
    /// The signature is wrong.
    Signature "wrong_signature";
    /// A claim has the wrong type.
    ClaimType "wrong_claim_type";
    /// It has expired, or has no expiry.
    Expired "expired";
    /// It is not valid yet.
    NotYetValid "not_yet_valid";
    /// It is for another audience.
    Audience "other_audience";
    /// The issuer's keys are unavailable, so that nothing can be verified.
    NoKeys "no_keys";
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::Ambiguous => FailureKind::AmbiguousToken,
            Refusal::NoKeys => FailureKind::NoTokenKeys,
            Refusal::Missing => FailureKind::NoToken,
            _ => FailureKind::Unauthenticated,
        };
        Self::because(kind, refusal.reason())
    }
}
