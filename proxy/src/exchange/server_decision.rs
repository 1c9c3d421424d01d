//! What authorization servers said of a request.

use crate::policy::external_auth::Denial;
use crate::policy::mutation::Mutation;

/// What servers said of a request.
#[derive(Debug, Default)]
pub(crate) struct ServerDecision {
    /// What changes in its head.
    pub(crate) grants: Mutation,
    /// How it is turned away.
    pub(crate) denial: Option<Denial>,
    /// Its body, once that was read as a whole for them to see, until it is sent on.
    pub(crate) body: Option<Vec<u8>>,
}
