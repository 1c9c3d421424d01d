//! What rate limits say about a request.

use std::time::Duration;

use xds::model::RateLimitStatus;

use crate::http::grammar::is_equivalent;
use crate::http::h1::encode::field;
use crate::policy::rate_limit::seconds;

/// What rate limits tell the client of a request.
#[derive(Debug, Default)]
pub(crate) struct RateLimited {
    /// Status of a refusal.
    pub(crate) status: RateLimitStatus,
    /// Time until the next request is allowed, of a refusal.
    pub(crate) retry_after: Option<Duration>,
    /// What the rule leaves that `fields` are about.
    pub(crate) remaining: Option<u64>,
    /// Header fields of the response.
    pub(crate) fields: Vec<(&'static str, String)>,
}

impl RateLimited {
    /// Appends the lines of a refusal.
    pub(crate) fn write_refusal(&self, lines: &mut Vec<u8>) {
        if let Some(wait) = self.retry_after {
            let wait = seconds(wait).max(1);
            field(
                lines,
                b"Retry-After",
                itoa::Buffer::new().format(wait).as_bytes(),
            );
        }
        self.write_fields(lines);
    }

    /// Appends the fields of any response.
    pub(crate) fn write_fields(&self, lines: &mut Vec<u8>) {
        for (name, value) in &self.fields {
            field(lines, name.as_bytes(), value.as_bytes());
        }
    }

    /// Whether it has a field of this name, which replaces that of a backend.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        let mut names = self.fields.iter().map(|(own, _)| own.as_bytes());
        names.any(|own| is_equivalent(own, name))
    }
}
