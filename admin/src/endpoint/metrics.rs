//! `/metrics`: metrics in the Prometheus and `OpenMetrics` text formats.

use std::sync::Arc;

use http::header::ACCEPT;

use super::handler::{Endpoint, EndpointRequest, READ};
use crate::metrics::{Exposition, Format};
use crate::response::{ErrorFormat, ErrorResponse, Response, streamed};
use crate::upstreams;

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/metrics",
    methods: READ,
    parameters: &[],
    usage: "GET /metrics",
    errors: ErrorFormat::Text,
    handle: |request| Box::pin(handle(request)),
};

async fn handle(request: EndpointRequest<'_>) -> Result<Response, ErrorResponse> {
    let accept = request.headers.get_all(ACCEPT).iter();
    let accept: Vec<_> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::negotiate(&accept.join(","));
    // Scrapes come one by one, so a concurrent one waits rather than fails.
    let slot = request.context.scrapes.wait().await;
    let slot = slot.ok_or_else(|| ErrorResponse::busy("the server is shutting down"))?;
    let handles = Arc::clone(&request.context.handles);
    let live = upstreams::gather(&handles.shards).await;
    Ok(streamed(
        slot,
        format.content_type(),
        request.encoding,
        move |out| {
            let mut metrics = Exposition::new(format);
            (handles.metrics)(&mut metrics, &live);
            out.write_all(metrics.finish().as_bytes())
        },
    ))
}
