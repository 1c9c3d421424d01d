//! Servers that are asked whether requests may pass.

use xds::model::{self, ExternalAuthProtocol, InvalidBackend};

use super::ClusterIndex;

/// A server that is asked whether requests may pass.
#[derive(Debug)]
pub struct ExternalAuth {
    /// What a user calls it.
    pub name: Box<str>,
    /// Where it is; an invalid reference lets nothing pass.
    pub cluster: Result<ClusterIndex, InvalidBackend>,
    /// How it is asked.
    pub protocol: ExternalAuthProtocol,
    /// Bytes of the request's body that it is shown; a longer one is refused. `None` where it is
    /// shown nothing.
    pub body_bytes: Option<u64>,
}

impl ExternalAuth {
    /// Compiles a server that is to be found there.
    #[must_use]
    pub fn compile(
        auth: &model::ExternalAuth,
        cluster: Result<ClusterIndex, InvalidBackend>,
    ) -> Self {
        Self {
            name: auth.target.to_string().into(),
            cluster,
            protocol: auth.protocol.clone(),
            body_bytes: auth.body_bytes.map(|bytes| bytes.get().into()),
        }
    }
}
