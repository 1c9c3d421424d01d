//! JSON Web Tokens (RFC 7519): who may come in, and what backends learn of them.
//!
//! [`Authenticator`] is a policy, compiled off the shards. It finds a request's token (`place`),
//! looks whether this shard has verified it already (`cache`), and otherwise takes it apart and
//! verifies it (`verify`) with the keys of its issuer (`source`, `keys`). A key that is not among them
//! may be new, and is asked for (`missing`). All of it is pure: time is passed in, keys are fetched
//! elsewhere (`config::jwks`), and so is whoever waits for them.

mod authenticator;
mod cache;
mod claims;
mod crypto;
mod keys;
mod missing;
mod place;
mod refusal;
mod source;
mod verify;

pub use authenticator::{Authenticator, Principal, Proof, UseOfClaims, Verified};
pub use cache::TokenCache;
pub use keys::{KeySet, KeySetError, Provenance};
pub use missing::{Denied, MissingKey};
pub use place::Carrier;
pub use refusal::Refusal;
pub use source::{KeySource, Reply, Wake};
