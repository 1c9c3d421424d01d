//! `/logging`: shows and sets the filter of the program log.

use http::{Method, StatusCode};

use super::handler::{Endpoint, EndpointRequest};
use crate::response::{ErrorFormat, ErrorResponse, Response};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/logging",
    methods: &[Method::GET, Method::HEAD, Method::POST],
    parameters: &["level"],
    usage: "GET /logging, or POST /logging?level=LEVEL, where LEVEL is error, warn, info, debug, \
            trace or off, or a list such as info,proxy::forward=debug",
    errors: ErrorFormat::Text,
    handle: |request| Box::pin(async move { handle(&request) }),
};

fn handle(request: &EndpointRequest<'_>) -> Result<Response, ErrorResponse> {
    let log = &request.context.handles.log;
    match (request.method == Method::POST, request.query.text("level")) {
        (true, Some(level)) => {
            let replaced = log.replace(level);
            replaced.map_err(|error| ErrorResponse::bad_parameter(error.to_string()))?;
            tracing::info!(level = log.current(), "log level changed");
        }
        (true, None) => {
            return Err(ErrorResponse::bad_parameter(
                "the parameter `level` is required",
            ));
        }
        (false, Some(_)) => return Err(ErrorResponse::bad_parameter("use POST to set the level")),
        (false, None) => {}
    }
    let text = format!("current log level is {}", log.current());
    Ok(Response::text(StatusCode::OK, &text))
}
