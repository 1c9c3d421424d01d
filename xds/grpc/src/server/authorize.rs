//! Who may see what: asked for each stream, by its bearer token.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tonic::Status;
use xds::model::ObjectName;

/// Answers which Gateway the bearer of a token may see.
pub trait Authorize: Send + Sync + 'static {
    /// Asked before anything of the stream is read. `token` is what follows `Bearer` in the
    /// request's `authorization`.
    fn authorize<'a>(&'a self, token: &'a str) -> Answer<'a>;
}

/// The answer of [`Authorize`].
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Identity, Denied>> + Send + 'a>>;

/// Whose a token is. The proxy has to call itself so ([`crate::NodeId`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The Gateway that it may see.
    pub gateway: ObjectName,
    /// The pod that the token is bound to, where it is bound to one.
    pub pod: Option<Arc<str>>,
}

/// Why a stream is not served. The text goes to the proxy's log: it says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The token is missing, expired, or not one for this controller: `UNAUTHENTICATED`.
    Unauthenticated(String),
    /// It is valid, and of no proxy of ours: `PERMISSION_DENIED`.
    Forbidden(String),
    /// That cannot be found out now: `UNAVAILABLE`. The proxy tries again.
    Unknown(String),
}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unauthenticated(text) => Self::unauthenticated(text),
            Denied::Forbidden(text) => Self::permission_denied(text),
            Denied::Unknown(text) => Self::unavailable(text),
        }
    }
}
