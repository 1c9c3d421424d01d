//! `/debug/pprof/heap`: a heap profile, of all allocations since the start and of live ones.

use std::sync::Arc;

use super::cpu_profile::{attached, encoding, format};
use super::handler::{Endpoint, EndpointRequest, READ};
use crate::pprof::heap;
use crate::response::{ErrorFormat, ErrorResponse, Response, streamed};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/debug/pprof/heap",
    methods: READ,
    parameters: &["format"],
    usage: "GET /debug/pprof/heap?format=pprof|flamegraph",
    errors: ErrorFormat::Text,
    handle: |request| Box::pin(async move { handle(&request) }),
};

fn handle(request: &EndpointRequest<'_>) -> Result<Response, ErrorResponse> {
    let format = format(&request.query).map_err(ErrorResponse::bad_parameter)?;
    let handles = Arc::clone(&request.context.handles);
    let samples = (handles.heap)();
    let Some(distance) = samples.distance else {
        return Err(ErrorResponse::conflict(
            "heap sampling is off: start the gateway with --heap-sampling on",
        ));
    };
    let write = move |out: &mut dyn std::io::Write| {
        out.write_all(&heap::write(&samples.stacks, distance, format)?)
    };
    let encoding = encoding(format, request);
    let response = streamed(request.slot()?, format.content_type(), encoding, write);
    Ok(attached(response, "heap", format))
}
