//! What authorization servers said of a request.

use crate::memory::Kept;
use crate::policy::external_auth::Denial;
use crate::policy::mutation::{HeaderMutation, Mutation};

/// What servers said of a request.
#[derive(Debug, Default)]
pub(crate) struct ServerDecision {
    /// What changes in its head.
    pub(crate) grants: Mutation,
    /// What changes in the head of its response.
    pub(crate) response: HeaderMutation,
    /// How it is turned away.
    pub(crate) denial: Option<Denial>,
    /// Its body, once that was read as a whole for them to see, until it is sent on.
    pub(crate) body: Option<Kept>,
}
