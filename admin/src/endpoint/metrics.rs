//! `/metrics`: metrics in the Prometheus and `OpenMetrics` text formats.

use http::StatusCode;
use http::header::ACCEPT;

use super::handler::{Endpoint, EndpointRequest, READ};
use crate::metrics::Format;
use crate::response::{Body, ErrorFormat, ErrorResponse, Response};

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
    let (context, encoding) = (request.context, request.encoding);
    let scrape = context.scrapes.scrape(&context.handles, format, encoding);
    let scrape = scrape.await.ok_or_else(|| {
        ErrorResponse::failed("the metrics could not be written: see the log of the process")
    })?;
    let response = Response::new(
        StatusCode::OK,
        scrape.content_type,
        Body::Whole(Some(scrape.text)),
    );
    Ok(response.encoded(encoding).of_generation(scrape.generation))
}
