//! The decision of authorization servers about a request.

use crate::memory::Kept;
use crate::policy::external_auth::Denial;
use crate::policy::mutation::{HeaderMutation, Mutation};

/// The combined decision of the servers that were called.
#[derive(Debug, Default)]
pub(crate) struct ServerDecision {
    /// Changes to the request's head.
    pub(crate) grants: Mutation,
    /// The changes of each of the listener's servers, in their order, until the request is
    /// authenticated. Before that, `grants` has the same.
    pub(crate) listener_grants: Vec<Mutation>,
    /// Changes to the head of its response.
    pub(crate) response: HeaderMutation,
    /// The response, if a server denied the request.
    pub(crate) denial: Option<Denial>,
    /// The request's body, if it was read in full for the servers, until it is forwarded.
    pub(crate) body: Option<Kept>,
}
