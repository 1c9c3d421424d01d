//! Decodes wire bytes into the model, or into the full list of their problems.
//!
//! Values are built with the model's constructors only, so whatever decodes can be applied. A
//! missing field, or an enum value unknown to this version, is a problem: guessing would serve
//! something that was not configured. Unknown fields are ignored, so that a newer controller can
//! talk to an older proxy. No input bytes cause a panic.

#![expect(
    clippy::needless_pass_by_value,
    reason = "every reader takes its message by value, so that one shape fits all of them"
)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod answer;
mod api_keys;
mod authorization;
mod balance;
mod basic_auth;
mod endpoint;
mod field_path;
mod filter;
mod health_check;
mod jwt;
mod matching;
mod networks;
mod path_rewrite;
mod policy;
mod problem;
mod rate_limit;
mod route;
mod session_keys;
#[cfg(test)]
mod tests;
mod tls;
mod value;

use prost::Message;

use self::field_path::{FieldPath, Findings};
pub use self::problem::{Problem, Problems};
use crate::model::{Kind, Resource, Restrictions};

/// Reads the protobuf message of a resource. The caller compares the resource's key with the name
/// that the message came under.
///
/// # Errors
/// Everything that is wrong with the message, by field.
pub fn resource(kind: Kind, bytes: &[u8]) -> Result<Resource, Problems> {
    decoded(kind, bytes).map(|it| it.resource)
}

/// A resource, without the parts that it can do without and that cannot be decoded.
#[derive(Debug)]
pub struct Decoded {
    /// What can be applied.
    pub resource: Resource,
    /// Why parts of it are left out.
    pub left_out: Option<Problems>,
}

/// The same, with what was left out.
///
/// # Errors
/// As above.
pub fn decoded(kind: Kind, bytes: &[u8]) -> Result<Decoded, Problems> {
    match kind {
        Kind::Bind => read(kind, bytes, endpoint::bind),
        Kind::Listener => read(kind, bytes, endpoint::listener),
        Kind::Service => read(kind, bytes, endpoint::service),
        Kind::Backend => read(kind, bytes, endpoint::backend),
        Kind::Workload => read(kind, bytes, endpoint::workload),
        Kind::Route => read(kind, bytes, route::route),
        Kind::Policy => read(kind, bytes, policy::policy),
    }
}

/// The resource that takes the place of one that cannot be decoded or applied and has no previous version,
/// if to leave it out would allow requests: those that a restriction refuses, or that a less protected
/// route or listener would get.
#[must_use]
pub fn substitute(kind: Kind, key: &str, bytes: &[u8]) -> Option<Resource> {
    match kind {
        Kind::Policy => policy::refusing(key, bytes).map(Into::into),
        Kind::Route => route::refusing(key, bytes).map(Into::into),
        Kind::Listener => endpoint::refusing_listener(key, bytes).map(Into::into),
        // A route to a missing service or backend responds with 500, and a missing bind is not listened on.
        Kind::Bind | Kind::Service | Kind::Backend | Kind::Workload => None,
    }
}

/// How a resource that cannot be decoded or applied would restrict access, as far as this version knows.
#[must_use]
pub fn restrictions(kind: Kind, bytes: &[u8]) -> Restrictions {
    match kind {
        Kind::Policy => policy::restrictions(bytes),
        Kind::Route
        | Kind::Listener
        | Kind::Bind
        | Kind::Service
        | Kind::Backend
        | Kind::Workload => Restrictions::default(),
    }
}

fn read<M: Message + Default, T: Into<Resource>>(
    kind: Kind,
    bytes: &[u8],
    read: fn(&FieldPath<'_>, M) -> Option<T>,
) -> Result<Decoded, Problems> {
    let found = Findings::new();
    let at = FieldPath::root(&found);
    let value = match M::decode(bytes) {
        Ok(message) => read(&at, message),
        Err(error) => at.problem(format!("these bytes are no {kind} message: {error}")),
    };
    let (problems, left_out) = found.into_parts();
    match (value, problems) {
        (Some(value), problems) if problems.is_empty() => Ok(Decoded {
            resource: value.into(),
            left_out: (!left_out.is_empty()).then_some(Problems(left_out)),
        }),
        (_, problems) => {
            debug_assert!(!problems.is_empty(), "what has no value has a problem");
            Err(Problems(problems))
        }
    }
}
