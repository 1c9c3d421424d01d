//! Why a probe failed, in the words of logs and of `gwctl config backends`.

use std::io;
use std::time::Duration;

use thiserror::Error;
use xds::model::GatewayDuration;

/// Why a probe failed.
#[derive(Debug, Error)]
pub(super) enum ProbeFailure {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("the TLS settings of the backend are invalid")]
    UnusableTls,
    /// The status is none of those that are expected.
    #[error("status {0} is none of those expected")]
    Status(u16),
    /// The answer of the health service.
    #[error("the health service answered {0}")]
    NotServing(String),
    /// The call of the health service failed.
    #[error("gRPC status {0}")]
    GrpcStatus(String),
    #[error("no valid response: {0}")]
    Response(String),
    #[error("no answer within {}", GatewayDuration(*.0))]
    Late(Duration),
}
