//! Authorization of streams by their bearer tokens.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tonic::Status;
use xds::model::ObjectName;

/// Decides which Gateway the bearer of a token may see.
pub trait Authorize: Send + Sync + 'static {
    /// Called before anything of the stream is read. `token` is what follows `Bearer` in the
    /// request's `authorization` field.
    fn authorize<'a>(&'a self, token: &'a str) -> AuthorizeFuture<'a>;
}

/// The future that [`Authorize`] returns.
pub type AuthorizeFuture<'a> =
    Pin<Box<dyn Future<Output = Result<ProxyIdentity, AuthorizeError>> + Send + 'a>>;

/// The owner of a token. The proxy's node id has to match it ([`crate::NodeId`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyIdentity {
    /// The Gateway that it may see.
    pub gateway: ObjectName,
    /// The pod that the token is bound to, where it is bound to one.
    pub pod: Option<Arc<str>>,
    /// The zone of the node on which it runs, if known.
    pub zone: Option<Arc<str>>,
}

/// Why a stream is rejected. The text reaches the proxy's log, so it tells the operator what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizeError {
    /// The token is missing, expired, or not one for this controller: `UNAUTHENTICATED`.
    Unauthenticated(String),
    /// The token is valid, but not of a proxy of this controller: `PERMISSION_DENIED`.
    Forbidden(String),
    /// The token cannot be checked now: `UNAVAILABLE`. The proxy retries.
    Unknown(String),
}

impl From<AuthorizeError> for Status {
    fn from(denied: AuthorizeError) -> Self {
        match denied {
            AuthorizeError::Unauthenticated(text) => Self::unauthenticated(text),
            AuthorizeError::Forbidden(text) => Self::permission_denied(text),
            AuthorizeError::Unknown(text) => Self::unavailable(text),
        }
    }
}
