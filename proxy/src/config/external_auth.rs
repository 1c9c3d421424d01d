//! External authorization servers.

use xds::model::{self, ExternalAuthProtocol, InvalidBackend};

use super::ClusterIndex;
use crate::http::grammar::is_equivalent;

/// An external authorization server.
#[derive(Debug, PartialEq, Eq)]
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

    /// Whether the server's settings name this header field as one that it sets on requests.
    #[must_use]
    pub fn lists(&self, name: &[u8]) -> bool {
        match &self.protocol {
            ExternalAuthProtocol::Http {
                response_headers, ..
            } => {
                let mut listed = response_headers.iter();
                listed.any(|it| is_equivalent(it.as_str().as_bytes(), name))
            }
            ExternalAuthProtocol::Grpc { .. } => false,
        }
    }
}
