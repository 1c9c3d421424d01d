//! The health service of gRPC servers, `grpc.health.v1.Health`, as far as probes use it.

use http::HeaderMap;
use prost::Message;

use super::failure::ProbeFailure;
use crate::http::grpc::parse_status;
use crate::http::grpc_message::{self, Assembler};
use crate::limits::PROBE_BODY_BYTES;

/// The method that is called.
pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";
/// The type of its messages.
pub(super) const CONTENT_TYPE: &str = "application/grpc";

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Eq, Message)]
struct CheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct CheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The body of a request about a service; empty for the server as a whole.
pub(super) fn request(service: &str) -> Vec<u8> {
    let service = service.to_owned();
    let mut body = Vec::new();
    grpc_message::write(&CheckRequest { service }, &mut body);
    body
}

/// The status of a call, in header fields or trailers.
pub(super) fn status(fields: &HeaderMap) -> Option<u32> {
    parse_status(fields.get("grpc-status")?.as_bytes())
}

/// Whether a server says that the service serves, by the status of the call and the body.
pub(super) fn examine(status: Option<u32>, body: &[u8]) -> Result<(), ProbeFailure> {
    match status {
        Some(0) => {}
        Some(NOT_FOUND) => {
            let text = "5 (NOT_FOUND): the server does not know the service";
            return Err(ProbeFailure::GrpcStatus(text.to_owned()));
        }
        Some(UNIMPLEMENTED) => {
            let text = "12 (UNIMPLEMENTED): the server has no grpc.health.v1.Health";
            return Err(ProbeFailure::GrpcStatus(text.to_owned()));
        }
        Some(other) => return Err(ProbeFailure::GrpcStatus(other.to_string())),
        None => {
            let text = "it ends without a gRPC status";
            return Err(ProbeFailure::Response(text.to_owned()));
        }
    }
    let mut messages = Assembler::new(PROBE_BODY_BYTES);
    messages.push(body);
    let message = messages.take::<CheckResponse>();
    let message =
        message.map_err(|error| ProbeFailure::Response(format!("its message is {error}")))?;
    match message.map(|message| message.status) {
        Some(SERVING) => Ok(()),
        Some(status) => {
            let name = usize::try_from(status).ok().and_then(|at| STATUSES.get(at));
            let text = name.map_or_else(|| status.to_string(), |name| (*name).to_owned());
            Err(ProbeFailure::NotServing(text))
        }
        None => Err(ProbeFailure::Response("it has no message".to_owned())),
    }
}

const NOT_FOUND: u32 = 5;
const UNIMPLEMENTED: u32 = 12;
const SERVING: i32 = 1;
/// The names of `HealthCheckResponse.ServingStatus`.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(status: Option<u32>, serving: Option<i32>) -> Result<(), String> {
        let mut body = Vec::new();
        if let Some(status) = serving {
            grpc_message::write(&CheckResponse { status }, &mut body);
        }
        examine(status, &body).map_err(|failure| failure.to_string())
    }

    #[test]
    fn only_a_server_that_serves_is_healthy() {
        assert_eq!(examined(Some(0), Some(SERVING)), Ok(()));
        for (status, serving, expected) in [
            (Some(0), Some(2), "the health service answered NOT_SERVING"),
            (Some(0), Some(9), "the health service answered 9"),
            (Some(0), Some(-1), "the health service answered -1"),
            (Some(0), None, "no valid response: it has no message"),
            (Some(14), Some(SERVING), "gRPC status 14"),
            (
                Some(12),
                None,
                "gRPC status 12 (UNIMPLEMENTED): the server has no grpc.health.v1.Health",
            ),
            (
                None,
                Some(SERVING),
                "no valid response: it ends without a gRPC status",
            ),
        ] {
            assert_eq!(examined(status, serving), Err(expected.to_owned()));
        }
        let cut = examine(Some(0), &[0, 0, 0, 0, 2, 8]);
        let cut = cut.map_err(|failure| failure.to_string());
        assert_eq!(cut, Err("no valid response: it has no message".to_owned()));
    }

    #[test]
    fn a_request_names_the_service() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("a.B"), b"\0\0\0\0\x05\x0a\x03a.B");
    }
}
