//! Answers and refusals.

use admin_types::ErrorAnswer;
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Response, StatusCode};
use serde::Serialize;

use super::body::Body;
use super::made::Encoding;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer(Response<Body>);

impl Answer {
    /// One with a body of this type.
    pub(crate) fn new(status: StatusCode, content_type: &'static str, body: Body) -> Self {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        // What it says holds for this moment, and nobody else is to make more of it.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Self(response)
    }

    /// Lines to read; the last one's end is added.
    pub(crate) fn text(status: StatusCode, text: &str) -> Self {
        let line = Bytes::from(format!("{text}\n"));
        Self::new(status, TEXT, Body::Whole(Some(line)))
    }

    /// JSON.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(mut bytes) => {
                bytes.push(b'\n');
                Self::new(status, JSON, Body::Whole(Some(bytes.into())))
            }
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    /// With one more header.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// Says that its body is in this encoding, by the client's choice.
    pub(crate) fn encoded(self, encoding: Encoding) -> Self {
        let answer = self.with(VARY, HeaderValue::from_static("accept-encoding"));
        match encoding {
            Encoding::Identity => answer,
            Encoding::Gzip => answer.with(CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        }
    }

    pub(super) fn into_response(self) -> Response<Body> {
        self.0
    }
}

/// Why a request is not answered as it wants to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    reason: String,
    allow: Option<String>,
}

impl Refusal {
    fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            allow: None,
        }
    }

    /// A parameter is wrong; the endpoint's usage is added.
    pub(crate) fn bad_parameter(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// Nothing is there.
    pub(crate) fn not_found(path: &str) -> Self {
        let path = crate::query::clipped(path);
        Self::new(StatusCode::NOT_FOUND, format!("there is nothing at {path}"))
    }

    /// It may not come from there.
    pub(crate) fn forbidden(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, reason)
    }

    /// Only other methods are understood.
    pub(crate) fn method(allowed: &[Method]) -> Self {
        let names: Vec<_> = allowed.iter().map(Method::as_str).collect();
        let names = names.join(", ");
        Self {
            allow: Some(names.clone()),
            ..Self::new(
                StatusCode::METHOD_NOT_ALLOWED,
                format!("the method has to be one of {names}"),
            )
        }
    }

    /// It would disturb what is under way.
    pub(crate) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason)
    }

    /// It cannot be done.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
    }

    /// Too much is being done already.
    pub(crate) fn busy(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }

    /// The answer that says so.
    pub(crate) fn answer(self, form: ErrorForm, usage: &str) -> Answer {
        let reason = if self.status == StatusCode::BAD_REQUEST && !usage.is_empty() {
            format!("{}; usage: {usage}", self.reason)
        } else {
            self.reason
        };
        let answer = match form {
            ErrorForm::Json => Answer::json(self.status, &ErrorAnswer { error: reason }),
            ErrorForm::Text => Answer::text(self.status, &reason),
        };
        let answer = match self
            .allow
            .and_then(|allow| HeaderValue::try_from(allow).ok())
        {
            Some(allow) => answer.with(ALLOW, allow),
            None => answer,
        };
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            return answer.with(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }
}

/// The form in which an endpoint refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `{"error": …}`
    Json,
    /// A line.
    Text,
}

/// The media type of lines.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";
