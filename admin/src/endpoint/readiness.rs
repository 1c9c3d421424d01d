//! `/healthz/ready`: whether traffic may come.

use http::StatusCode;

use super::{Endpoint, READ};
use crate::server::{Answer, ErrorForm};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/healthz/ready",
    methods: READ,
    parameters: &[],
    usage: "GET /healthz/ready",
    errors: ErrorForm::Text,
    answer: |asked| {
        Box::pin(async move {
            let pending = (asked.shared.handles.pending)();
            if pending.is_empty() {
                return Ok(Answer::text(StatusCode::OK, "ready"));
            }
            let text = format!("not ready, pending: {}", pending.join(", "));
            Ok(Answer::text(StatusCode::SERVICE_UNAVAILABLE, &text))
        })
    },
};
