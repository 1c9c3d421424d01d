//! `/debug/pprof/profile`: a CPU profile of the next seconds.

use std::time::Duration;

use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, StatusCode};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::handler::{Endpoint, EndpointRequest};
use crate::limits::{
    PROFILE_FREQUENCY, PROFILE_FREQUENCY_DEFAULT, PROFILE_PAUSE, PROFILE_SECONDS,
    PROFILE_SECONDS_DEFAULT,
};
use crate::pprof::Format;
use crate::pprof::cpu::{CpuProfile, CpuProfileError};
use crate::query::Query;
use crate::response::{Body, Encoding, ErrorFormat, ErrorResponse, Response};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/debug/pprof/profile",
    methods: &[http::Method::GET],
    parameters: &["seconds", "frequency", "format"],
    usage: "GET /debug/pprof/profile?seconds=1..300&frequency=1..250&format=pprof|flamegraph",
    errors: ErrorFormat::Text,
    handle: |request| Box::pin(handle(request)),
};

/// Samples are taken in a signal handler and symbolized on a background thread. Profiling stops where
/// the client disconnects.
async fn handle(request: EndpointRequest<'_>) -> Result<Response, ErrorResponse> {
    let Parameters {
        time,
        frequency,
        format,
    } = Parameters::parse(&request.query).map_err(ErrorResponse::bad_parameter)?;
    let slot = request.slot()?;
    let mut profile = CpuProfile::start(frequency).map_err(|error| refusal(&error))?;
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::time::sleep_until(end.min(Instant::now() + PROFILE_PAUSE)).await;
        profile.collect().map_err(|error| refusal(&error))?;
    }
    let sampled = profile.end().map_err(|error| refusal(&error))?;
    let encoding = encoding(format, &request);
    let (reply, written) = oneshot::channel();
    slot.run(move || {
        let written = sampled.write(format);
        // The receiver is gone where the client has disconnected.
        let _ = reply.send(written.map(|bytes| encoding.encode(bytes)));
    });
    let bytes = written
        .await
        .map_err(|_| ErrorResponse::failed("the thread that writes the profile has panicked"))?
        .map_err(|error| {
            ErrorResponse::failed(format!("the profile cannot be written: {error}"))
        })?;
    let body = Body::Whole(Some(bytes.into()));
    let response = Response::new(StatusCode::OK, format.content_type(), body).encoded(encoding);
    Ok(attached(response, "cpu", format))
}

pub(crate) struct Parameters {
    time: Duration,
    frequency: u32,
    format: Format,
}

impl Parameters {
    /// Parses the query parameters.
    pub(crate) fn parse(query: &Query<'_>) -> Result<Self, String> {
        let seconds = query.number("seconds", PROFILE_SECONDS)?;
        let frequency = query.number("frequency", PROFILE_FREQUENCY)?;
        Ok(Self {
            time: Duration::from_secs(u64::from(seconds.unwrap_or(PROFILE_SECONDS_DEFAULT))),
            frequency: frequency.unwrap_or(PROFILE_FREQUENCY_DEFAULT),
            format: format(query)?,
        })
    }
}

fn refusal(error: &CpuProfileError) -> ErrorResponse {
    match error {
        CpuProfileError::Busy => ErrorResponse::conflict(error.to_string()),
        CpuProfileError::Refused(_) => ErrorResponse::failed(error.to_string()),
    }
}

pub(crate) fn format(query: &Query<'_>) -> Result<Format, String> {
    let named = query.choice("format", &["pprof", "flamegraph"])?;
    Ok(named.and_then(Format::parse).unwrap_or_default())
}

/// The content encoding of a profile: pprof is already compressed.
pub(super) fn encoding(format: Format, request: &EndpointRequest<'_>) -> Encoding {
    match format {
        Format::Pprof => Encoding::Identity,
        Format::FlameGraph => request.encoding,
    }
}

/// Adds a file name. Browsers save a profile and display a flame graph.
pub(super) fn attached(response: Response, what: &str, format: Format) -> Response {
    let disposition = match format {
        Format::Pprof => "attachment",
        Format::FlameGraph => "inline",
    };
    let text = format!(
        "{disposition}; filename=\"gateway-{what}.{}\"",
        format.extension()
    );
    match HeaderValue::try_from(text) {
        Ok(value) => response.with(CONTENT_DISPOSITION, value),
        Err(_) => response,
    }
}
