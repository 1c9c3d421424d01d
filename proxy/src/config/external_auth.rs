//! External authorization servers.

use xds::model::{self, ExternalAuthProtocol, InvalidBackend};

use super::ClusterIndex;

/// An external authorization server.
#[derive(Debug)]
pub struct ExternalAuth {
    /// Its name for users, in logs and traces.
    pub name: Box<str>,
    /// Cluster of the server; requests are rejected if the reference is invalid.
    pub cluster: Result<ClusterIndex, InvalidBackend>,
    /// The protocol to it, with its settings.
    pub protocol: ExternalAuthProtocol,
    /// Maximum bytes of the request's body that are sent to the server; requests with a longer one
    /// are rejected. `None` sends no body.
    pub body_bytes: Option<u64>,
}

impl ExternalAuth {
    /// Compiles the settings of a server in this cluster.
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
