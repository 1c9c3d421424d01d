//! `/quitquitquit`: drains the process and ends it.

use http::{Method, StatusCode};

use super::Endpoint;
use crate::server::{Answer, ErrorForm};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/quitquitquit",
    methods: &[Method::POST],
    parameters: &[],
    usage: "POST /quitquitquit",
    errors: ErrorForm::Text,
    answer: |asked| {
        Box::pin(async move {
            tracing::info!("asked to end by the admin server");
            (asked.shared.handles.quit)();
            Ok(Answer::text(StatusCode::OK, "draining"))
        })
    },
};
