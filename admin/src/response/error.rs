//! Error responses.

use admin_types::ErrorAnswer;
use http::header::{ALLOW, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};

use super::message::Response;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErrorResponse {
    status: StatusCode,
    reason: String,
    allow: Option<String>,
}

impl ErrorResponse {
    fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            allow: None,
        }
    }

    /// 400 for invalid parameters; the endpoint's usage is added.
    pub(crate) fn bad_parameter(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// 404 for a path without an endpoint.
    pub(crate) fn not_found(path: &str) -> Self {
        let path = crate::query::clipped(path);
        Self::new(StatusCode::NOT_FOUND, format!("no endpoint at {path}"))
    }

    /// 403 for a disallowed host or origin.
    pub(crate) fn forbidden(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, reason)
    }

    /// 405 with the allowed methods.
    pub(crate) fn method(allowed: &[Method]) -> Self {
        let names: Vec<_> = allowed.iter().map(Method::as_str).collect();
        let names = names.join(", ");
        Self {
            allow: Some(names.clone()),
            ..Self::new(
                StatusCode::METHOD_NOT_ALLOWED,
                format!("method not allowed: use {names}"),
            )
        }
    }

    /// 409 for a request that conflicts with one in progress.
    pub(crate) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason)
    }

    /// 500 for an internal failure.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
    }

    /// 503 for an overloaded server, with `Retry-After`.
    pub(crate) fn busy(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }

    pub(crate) fn into_response(self, format: ErrorFormat, usage: &str) -> Response {
        let reason = if self.status == StatusCode::BAD_REQUEST && !usage.is_empty() {
            format!("{}; usage: {usage}", self.reason)
        } else {
            self.reason
        };
        let response = match format {
            ErrorFormat::Json => Response::json(self.status, &ErrorAnswer { error: reason }),
            ErrorFormat::Text => Response::text(self.status, &reason),
        };
        let response = match self
            .allow
            .and_then(|allow| HeaderValue::try_from(allow).ok())
        {
            Some(allow) => response.with(ALLOW, allow),
            None => response,
        };
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            return response.with(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The format of an endpoint's error responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// A JSON object: `{"error": …}`.
    Json,
    /// A line of text.
    Text,
}
