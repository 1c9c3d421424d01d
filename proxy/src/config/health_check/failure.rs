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

impl ProbeFailure {
    /// Whether it is the proxy, or its machine, that lacks something: it says nothing about the endpoint.
    pub(super) fn is_own_shortage(&self) -> bool {
        let Self::Connect(error) = self else {
            return false;
        };
        let number = error.raw_os_error();
        number.is_some_and(|number| OWN_SHORTAGES.contains(&number))
    }
}

/// No descriptor is left, no memory, or no local port.
const OWN_SHORTAGES: [i32; 5] = [
    libc::EMFILE,
    libc::ENFILE,
    libc::ENOBUFS,
    libc::ENOMEM,
    libc::EADDRNOTAVAIL,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_proxy_lacks_is_no_failure_of_the_endpoint() {
        let connect = |number| ProbeFailure::Connect(io::Error::from_raw_os_error(number));
        for number in OWN_SHORTAGES {
            assert!(connect(number).is_own_shortage(), "{number}");
        }
        for number in [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ETIMEDOUT] {
            assert!(!connect(number).is_own_shortage(), "{number}");
        }
        assert!(!ProbeFailure::Late(Duration::from_secs(1)).is_own_shortage());
    }
}
