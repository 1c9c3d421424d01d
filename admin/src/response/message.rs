//! Responses with the headers that all of them have.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use super::body::Body;
use super::encoding::Encoding;

/// A response of a server.
#[derive(Debug)]
pub(crate) struct Response(http::Response<Body>);

impl Response {
    /// A response with the headers that all responses have.
    pub(crate) fn new(status: StatusCode, content_type: &'static str, body: Body) -> Self {
        let mut response = http::Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        // Responses are snapshots of the current state, and may contain untrusted text.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Self(response)
    }

    /// Plain text; a final newline is added.
    pub(crate) fn text(status: StatusCode, text: &str) -> Self {
        let line = Bytes::from(format!("{text}\n"));
        Self::new(status, TEXT, Body::Whole(Some(line)))
    }

    /// A value as JSON.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(mut bytes) => {
                bytes.push(b'\n');
                Self::new(status, JSON, Body::Whole(Some(bytes.into())))
            }
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// Declares the encoding of the body.
    pub(crate) fn encoded(self, encoding: Encoding) -> Self {
        let response = self.with(VARY, HeaderValue::from_static("accept-encoding"));
        match encoding {
            Encoding::Identity => response,
            Encoding::Gzip => response.with(CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        }
    }

    /// Marks a response that has large memory, shared with others of its generation.
    pub(crate) fn of_generation(mut self, generation: u64) -> Self {
        self.0.extensions_mut().insert(Generation(generation));
        self
    }

    pub(crate) fn into_http(self) -> http::Response<Body> {
        self.0
    }
}

/// The generation of a response: see [`Response::of_generation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(pub(crate) u64);

/// Media type of plain text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// Media type of JSON.
pub(crate) const JSON: &str = "application/json";
