//! `/logging`: shows and sets the filter of the program's own log.

use http::{Method, StatusCode};

use super::{Asked, Endpoint};
use crate::server::{Answer, ErrorForm, Refusal};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/logging",
    methods: &[Method::GET, Method::HEAD, Method::POST],
    parameters: &["level"],
    usage: "GET /logging, or POST /logging?level=LEVEL, where LEVEL is error, warn, info, debug, \
            trace or off, or a list such as info,proxy::forward=debug",
    errors: ErrorForm::Text,
    answer: |asked| Box::pin(async move { answer(&asked) }),
};

fn answer(asked: &Asked<'_>) -> Result<Answer, Refusal> {
    let log = &asked.shared.handles.log;
    match (asked.method == Method::POST, asked.query.text("level")) {
        (true, Some(level)) => {
            let replaced = log.replace(level);
            replaced.map_err(|error| Refusal::bad_parameter(error.to_string()))?;
            tracing::info!(level = log.current(), "the log level was set");
        }
        (true, None) => return Err(Refusal::bad_parameter("no level is given")),
        (false, Some(_)) => return Err(Refusal::bad_parameter("the level is set by POST")),
        (false, None) => {}
    }
    let text = format!("current log level is {}", log.current());
    Ok(Answer::text(StatusCode::OK, &text))
}
