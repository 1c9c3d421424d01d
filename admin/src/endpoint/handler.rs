//! The definition of an endpoint, and the requests it handles.

use std::pin::Pin;

use http::{HeaderMap, Method};

use super::context::Context;
use crate::background::JobPermit;
use crate::query::Query;
use crate::response::{Encoding, ErrorFormat, ErrorResponse, Response};

pub(crate) struct Endpoint {
    /// The complete path, without the query.
    pub(crate) path: &'static str,
    pub(crate) methods: &'static [Method],
    /// Allowed query parameters, each at most once.
    pub(crate) parameters: &'static [&'static str],
    /// Usage, which is added to a response with status 400.
    pub(crate) usage: &'static str,
    /// Format of its error responses.
    pub(crate) errors: ErrorFormat,
    /// Handles a request, whose method and parameters have been checked against those above.
    pub(crate) handle: for<'a> fn(EndpointRequest<'a>) -> ResponseFuture<'a>,
}

/// A response being prepared.
pub(crate) type ResponseFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Response, ErrorResponse>> + 'a>>;

/// A request to an endpoint.
pub(crate) struct EndpointRequest<'a> {
    pub(crate) context: &'a Context,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query<'a>,
    pub(crate) encoding: Encoding,
}

/// The methods of read-only endpoints.
pub(super) const READ: &[Method] = &[Method::GET, Method::HEAD];

impl EndpointRequest<'_> {
    /// A slot for a background job, or 503 where all are in use.
    pub(super) fn slot(&self) -> Result<JobPermit, ErrorResponse> {
        let slot = self.context.background.slot();
        slot.ok_or_else(|| {
            ErrorResponse::busy("too many expensive requests in progress: try again later")
        })
    }
}
