//! `/debug/pprof/profile`: where CPU time goes for the next seconds.

use std::time::Duration;

use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, StatusCode};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Asked, Endpoint};
use crate::limits::{
    PROFILE_FREQUENCY, PROFILE_FREQUENCY_DEFAULT, PROFILE_PAUSE, PROFILE_SECONDS,
    PROFILE_SECONDS_DEFAULT,
};
use crate::pprof::Format;
use crate::pprof::cpu::{CpuProfile, CpuProfileError};
use crate::query::Query;
use crate::server::{Answer, Body, Encoding, ErrorForm, Refusal};

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
    let Wanted {
        time,
        frequency,
        format,
    } = Wanted::read(&asked.query).map_err(Refusal::bad_parameter)?;
    let slot = asked.slot()?;
    let mut profile = CpuProfile::start(frequency).map_err(|error| refusal(&error))?;
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::time::sleep_until(end.min(Instant::now() + PROFILE_PAUSE)).await;
        profile.collect().map_err(|error| refusal(&error))?;
    }
    let sampled = profile.end().map_err(|error| refusal(&error))?;
    let encoding = encoding(format, &asked);
    let (reply, written) = oneshot::channel();
    slot.run(move || {
        let written = sampled.write(format);
        // Nobody waits where the client has left.
        let _ = reply.send(written.map(|bytes| encoding.encode(bytes)));
    });
    let bytes = written
        .await
        .map_err(|_| Refusal::failed("the thread that writes the profile ended"))?
        .map_err(|error| Refusal::failed(format!("the profile cannot be written: {error}")))?;
    let body = Body::Whole(Some(bytes.into()));
    let answer = Answer::new(StatusCode::OK, format.content_type(), body).encoded(encoding);
    Ok(attached(answer, "cpu", format))
}

/// What is asked for.
pub(crate) struct Wanted {
    time: Duration,
    frequency: u32,
    format: Format,
}

impl Wanted {
    /// Reads it from the parameters.
    pub(crate) fn read(query: &Query<'_>) -> Result<Self, String> {
        let seconds = query.number("seconds", PROFILE_SECONDS)?;
        let frequency = query.number("frequency", PROFILE_FREQUENCY)?;
        Ok(Self {
            time: Duration::from_secs(u64::from(seconds.unwrap_or(PROFILE_SECONDS_DEFAULT))),
            frequency: frequency.unwrap_or(PROFILE_FREQUENCY_DEFAULT),
            format: format(query)?,
        })
    }
}

fn refusal(error: &CpuProfileError) -> Refusal {
    match error {
        CpuProfileError::Busy => Refusal::conflict(error.to_string()),
        CpuProfileError::Refused(_) => Refusal::failed(error.to_string()),
    }
}

/// The form that is asked for.
pub(crate) fn format(query: &Query<'_>) -> Result<Format, String> {
    let named = query.choice("format", &["pprof", "flamegraph"])?;
    Ok(named.and_then(Format::of).unwrap_or_default())
}

/// How a profile of this form is encoded: what is gzipped by its form stays as it is.
pub(super) fn encoding(format: Format, asked: &Asked<'_>) -> Encoding {
    match format {
        Format::Pprof => Encoding::Identity,
        Format::FlameGraph => asked.encoding,
    }
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
