//! JWT authentication (RFC 7519).
//!
//! [`Authenticator`] is a policy, compiled off the shards. It finds a request's token (`location`),
//! checks whether this shard has verified it already (`cache`), and otherwise parses and verifies
//! it (`verify`) with the keys of its issuer (`source`, `keys`). A key that is not among them may
//! be new, and is requested (`missing`). All of it is pure: time is passed in; fetching keys
//! (`config::jwks`) and waiting for them are done elsewhere.

mod authenticator;
mod cache;
mod claims;
mod crypto;
mod keys;
mod missing;
mod refusal;
mod source;
mod token_location;
mod verify;

pub use authenticator::{AuthenticatedBy, Authenticator, Bearer, ClaimsUse, Verified};
pub use cache::TokenCache;
pub use keys::{KeySet, KeySetError, Provenance};
pub use missing::{MissingKey, TokenError};
pub use refusal::Refusal;
pub use source::{FetchWaker, KeySource, ProviderKeys, Reply, SourceId};
pub use token_location::TokenSources;
pub(in crate::policy) use token_location::{TokenLocation, write_rest};
