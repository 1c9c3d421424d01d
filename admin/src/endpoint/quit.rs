//! `/quitquitquit`: drains connections and ends the process.

use http::{Method, StatusCode};

use super::handler::Endpoint;
use crate::response::{ErrorFormat, Response};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/quitquitquit",
    methods: &[Method::POST],
    parameters: &[],
    usage: "POST /quitquitquit",
    errors: ErrorFormat::Text,
    handle: |request| {
        Box::pin(async move {
            tracing::info!("shutdown requested through the admin server");
            (request.context.handles.quit)();
            Ok(Response::text(StatusCode::OK, "draining"))
        })
    },
};
