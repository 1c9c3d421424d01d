//! `/healthz/ready`: whether the gateway is ready for traffic.

use http::StatusCode;

use super::handler::{Endpoint, READ};
use crate::response::{ErrorFormat, Response};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/healthz/ready",
    methods: READ,
    parameters: &[],
    usage: "GET /healthz/ready",
    errors: ErrorFormat::Text,
    handle: |request| {
        Box::pin(async move {
            let pending = (request.context.handles.pending)();
            if pending.is_empty() {
                return Ok(Response::text(StatusCode::OK, "ready"));
            }
            let text = format!("not ready, pending: {}", pending.join(", "));
            Ok(Response::text(StatusCode::SERVICE_UNAVAILABLE, &text))
        })
    },
};
