//! Probes: `/healthz/ready` of the proxy; `/healthz` and `/readyz` of other processes.

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

/// Whether the process runs: it responds.
pub(super) const LIVENESS: Endpoint = Endpoint {
    path: "/healthz",
    methods: READ,
    parameters: &[],
    usage: "GET /healthz",
    errors: ErrorFormat::Text,
    handle: |_| Box::pin(async { Ok(Response::text(StatusCode::OK, "ok")) }),
};

/// Whether the process is ready, with a line for each reason why it is not.
pub(super) const PROCESS_READINESS: Endpoint = Endpoint {
    path: "/readyz",
    methods: READ,
    parameters: &[],
    usage: "GET /readyz",
    errors: ErrorFormat::Text,
    handle: |request| {
        Box::pin(async move {
            let pending = (request.context.handles.pending)();
            let mut response = if pending.is_empty() {
                Response::text(StatusCode::OK, "ok")
            } else {
                Response::text(StatusCode::SERVICE_UNAVAILABLE, &pending.join("\n"))
            };
            for (name, value) in (request.context.handles.probe_fields)() {
                if let Some(name) = name {
                    response = response.with(name, value);
                }
            }
            Ok(response)
        })
    },
};
