//! Why a request is not let in. The client learns the kind alone, never which check failed.

use crate::failure::{Failure, FailureKind};
use crate::names::causes;

causes! {
    /// Why a request is not let in.
    Refusal;
    /// It has no token, and needs one.
    Missing "no_token";
    /// It has more than one.
    Ambiguous "several_tokens";
    /// The token is longer than any is.
    TooLong "too_long";
    /// It is no token, or not the kind that is signed.
    Malformed "malformed";
    /// Its header has extensions that have to be understood.
    Critical "critical_extension";
    /// It does not say who made it, or nobody whom the policy names.
    Issuer "unknown_issuer";
    /// The issuer has no such key, or none for its algorithm.
    Key "unknown_key";
    /// The signature is not the key's.
    Signature "wrong_signature";
    /// A claim has another type than the standard gives it.
    ClaimType "wrong_claim_type";
    /// It has expired, or does not say when it will.
    Expired "expired";
    /// It comes from the future.
    NotYetValid "not_yet_valid";
    /// It is for somebody else.
    Audience "other_audience";
    /// The issuer's keys are not there, so that nothing can be verified.
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
