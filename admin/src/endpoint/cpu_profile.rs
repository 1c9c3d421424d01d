//! `/debug/pprof/profile`: where CPU time goes for the next seconds.

use std::time::Duration;

use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, StatusCode};
use tokio::sync::oneshot;

use super::{Asked, Endpoint};
use crate::limits::{
    PROFILE_FREQUENCY, PROFILE_FREQUENCY_DEFAULT, PROFILE_SECONDS, PROFILE_SECONDS_DEFAULT,
};
use crate::pprof::Format;
use crate::pprof::cpu::{CpuProfile, CpuProfileError};
use crate::server::{Answer, Body, ErrorForm, Refusal};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/debug/pprof/profile",
    methods: &[http::Method::GET],
    parameters: &["seconds", "frequency", "format"],
    usage: "GET /debug/pprof/profile?seconds=1..300&frequency=1..250&format=pprof|flamegraph",
    errors: ErrorForm::Text,
    answer: |asked| Box::pin(answer(asked)),
};

/// Samples are taken by a signal; names are looked up on a background thread. A client that leaves
/// ends the profile.
async fn answer(asked: Asked<'_>) -> Result<Answer, Refusal> {
    let query = &asked.query;
    let seconds = query
        .number("seconds", PROFILE_SECONDS)
        .map_err(Refusal::bad_parameter)?;
    let frequency = query
        .number("frequency", PROFILE_FREQUENCY)
        .map_err(Refusal::bad_parameter)?;
    let format = format(&asked)?;
    let slot = asked.slot()?;
    let time = Duration::from_secs(u64::from(seconds.unwrap_or(PROFILE_SECONDS_DEFAULT)));
    let profile = CpuProfile::start(frequency.unwrap_or(PROFILE_FREQUENCY_DEFAULT))
        .map_err(|error| refusal(&error))?;
    tokio::time::sleep(time).await;
    let (reply, written) = oneshot::channel();
    slot.run(move || {
        // Nobody waits where the client has left.
        let _ = reply.send(profile.finish(time, format));
    });
    let bytes = written
        .await
        .map_err(|_| Refusal::failed("the thread that writes the profile ended"))?
        .map_err(|error| refusal(&error))?;
    let body = Body::Whole(Some(bytes.into()));
    let answer = Answer::new(StatusCode::OK, format.content_type(), body);
    Ok(attached(answer, "cpu", format))
}

fn refusal(error: &CpuProfileError) -> Refusal {
    match error {
        CpuProfileError::Busy => Refusal::conflict(error.to_string()),
        CpuProfileError::Failed(_) => Refusal::failed(error.to_string()),
    }
}

/// The form that is asked for.
pub(super) fn format(asked: &Asked<'_>) -> Result<Format, Refusal> {
    let named = asked.query.choice("format", &["pprof", "flamegraph"]);
    let named = named.map_err(Refusal::bad_parameter)?;
    Ok(named.and_then(Format::of).unwrap_or_default())
}

/// With a name for whoever saves it. A flame graph is to be looked at instead.
pub(super) fn attached(answer: Answer, what: &str, format: Format) -> Answer {
    let disposition = match format {
        Format::Pprof => "attachment",
        Format::FlameGraph => "inline",
    };
    let text = format!(
        "{disposition}; filename=\"gateway-{what}.{}\"",
        format.extension()
    );
    match HeaderValue::try_from(text) {
        Ok(value) => answer.with(CONTENT_DISPOSITION, value),
        Err(_) => answer,
    }
}
