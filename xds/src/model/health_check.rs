//! Active health checks: what is asked of the endpoints of a service, how often, and what follows.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use super::{Hostname, StatusRange, json};

/// The health check of a service's endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// What is asked.
    #[serde(flatten)]
    pub probe: HealthProbe,
    /// Where it is asked, if not at the port that serves requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
    /// Time from one probe of an endpoint to the next.
    #[serde(serialize_with = "json::duration")]
    pub interval: Duration,
    /// Time for the whole answer.
    #[serde(serialize_with = "json::duration")]
    pub timeout: Duration,
    /// Failures in a row that put an endpoint out of service.
    pub unhealthy_after: NonZeroU32,
    /// Successes in a row that put it back.
    pub healthy_after: NonZeroU32,
    /// What holds of an endpoint before its first verdict.
    pub initial: InitialHealth,
    /// With a smaller share of the endpoints in service, in percent, probes are ignored; 0 for never.
    pub panic_percent: u32,
}

impl HealthCheck {
    /// Shortest time between two probes of an endpoint: 1 s.
    pub const LEAST_INTERVAL: Duration = Duration::from_secs(1);
    /// Longest one: 1 h.
    pub const MOST_INTERVAL: Duration = Duration::from_hours(1);
    /// Longest time for an answer: 60 s. A probe that hangs takes a place from others for as long.
    pub const MOST_TIMEOUT: Duration = Duration::from_mins(1);
    /// Most ranges of statuses of healthy endpoints.
    pub const MOST_STATUSES: usize = 16;
    /// Most bytes of the service in a gRPC check.
    pub const MAX_SERVICE_BYTES: usize = 255;
    /// Most results in a row that change the state of an endpoint.
    pub const MOST_IN_A_ROW: u32 = 1_000;
}

/// What a health check asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "type")]
pub enum HealthProbe {
    /// A GET request.
    #[serde(rename = "HTTP")]
    Http {
        /// Path, and maybe query.
        path: ProbePath,
        /// The `Host`; `None` for the name of the service.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<Hostname>,
        /// The statuses of healthy endpoints; at least one.
        expect: Vec<StatusRange>,
    },
    /// The method `Check` of `grpc.health.v1.Health`.
    #[serde(rename = "GRPC")]
    Grpc {
        /// The `:authority`; `None` for the name of the service.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<Hostname>,
        /// The service that is asked about; empty for the server as a whole.
        #[serde(skip_serializing_if = "String::is_empty")]
        service: String,
    },
    /// A connection, with TLS if the service has it.
    #[serde(rename = "TCP")]
    Tcp,
}

/// What holds of an endpoint before its first verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub enum InitialHealth {
    /// It is in service.
    #[default]
    Healthy,
    /// It is not, until its first success.
    Unhealthy,
}

/// The path of a probe, with its query.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct ProbePath(Box<str>);

/// Why a text is not the path of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidProbePath {
    /// Longer than [`ProbePath::MAX_BYTES`].
    #[error(
        "it has more than {} characters: use a shorter path",
        ProbePath::MAX_BYTES
    )]
    TooLong,
    /// It does not begin with a slash.
    #[error("it does not begin with a slash: write a path such as /healthz")]
    NoSlash,
    /// A character that a request target must not have.
    #[error("it has `{}`: write it percent-encoded, or leave it out", .0.escape_default())]
    Character(char),
}

impl ProbePath {
    /// Most bytes of a path.
    pub const MAX_BYTES: usize = 1_024;

    /// Parses a path.
    ///
    /// # Errors
    ///
    /// It cannot be sent as it is.
    pub fn parse(text: &str) -> Result<Self, InvalidProbePath> {
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidProbePath::TooLong);
        }
        if !text.starts_with('/') {
            return Err(InvalidProbePath::NoSlash);
        }
        let is_allowed = |it: &char| it.is_ascii_graphic() && !FORBIDDEN.contains(*it);
        match text.chars().find(|it| !is_allowed(it)) {
            Some(character) => Err(InvalidProbePath::Character(character)),
            None => Ok(Self(text.into())),
        }
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Visible characters that a request target must not have (RFC 3986 appendix A).
const FORBIDDEN: &str = "#\"<>\\^`{|}[]";

#[cfg(test)]
mod tests {
    use super::{InvalidProbePath, ProbePath};

    #[test]
    fn a_path_is_sent_as_it_is() {
        for path in ["/", "/healthz", "/a%20b?full=1&x=/", "//a/../b"] {
            let parsed = ProbePath::parse(path).expect("a path");
            assert_eq!(parsed.as_str(), path);
        }
        for (path, expected) in [
            ("", InvalidProbePath::NoSlash),
            ("healthz", InvalidProbePath::NoSlash),
            ("http://a/", InvalidProbePath::NoSlash),
            ("/a b", InvalidProbePath::Character(' ')),
            ("/a#b", InvalidProbePath::Character('#')),
            ("/a\r\nHost: b", InvalidProbePath::Character('\r')),
            ("/\u{e4}", InvalidProbePath::Character('\u{e4}')),
        ] {
            assert_eq!(ProbePath::parse(path), Err(expected), "{path}");
        }
        let long = format!("/{}", "a".repeat(ProbePath::MAX_BYTES));
        assert_eq!(ProbePath::parse(&long), Err(InvalidProbePath::TooLong));
    }
}
