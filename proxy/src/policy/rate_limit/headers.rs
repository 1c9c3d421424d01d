//! The header fields that tell clients about limits: of the rule that leaves them least.

use std::fmt;
use std::time::Duration;

use xds::model::RateLimitHeaders;

/// What a rule leaves to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance<'a> {
    /// Name of the rule.
    pub rule: &'a str,
    /// Requests of a whole burst.
    pub limit: u64,
    /// Time after which a whole burst is allowed again, at the rule's rate.
    pub window: Duration,
    /// Requests that are allowed now.
    pub remaining: u64,
    /// Time until a whole burst is allowed again.
    pub reset: Duration,
}

impl Balance<'_> {
    /// Names and values of the fields.
    #[must_use]
    pub fn fields(&self, headers: RateLimitHeaders) -> Vec<(&'static str, String)> {
        let Self {
            rule,
            limit,
            remaining,
            ..
        } = self;
        let (window, reset) = (seconds(self.window), seconds(self.reset));
        match headers {
            RateLimitHeaders::Off => Vec::new(),
            RateLimitHeaders::Draft => vec![
                (
                    "RateLimit-Policy",
                    format!("\"{rule}\";q={limit};w={window}"),
                ),
                ("RateLimit", format!("\"{rule}\";r={remaining};t={reset}")),
            ],
            RateLimitHeaders::Legacy => vec![
                ("X-RateLimit-Limit", limit.to_string()),
                ("X-RateLimit-Remaining", remaining.to_string()),
                ("X-RateLimit-Reset", reset.to_string()),
            ],
        }
    }
}

/// For traces.
impl fmt::Display for Balance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reset = seconds(self.reset);
        let Self {
            limit, remaining, ..
        } = self;
        write!(
            f,
            "{remaining} of {limit} left, all of them again in {reset} s"
        )
    }
}

/// Whole seconds, rounded up.
#[must_use]
pub fn seconds(time: Duration) -> u64 {
    time.as_secs()
        .saturating_add(u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use xds::model::RateLimitHeaders;

    use super::Balance;

    #[test]
    fn fields_are_of_the_draft_or_of_what_was_before() {
        let balance = Balance {
            rule: "each-client",
            limit: 100,
            window: Duration::from_secs(10),
            remaining: 42,
            reset: Duration::from_millis(5_800),
        };
        let lines = |headers| {
            let fields = balance.fields(headers).into_iter();
            let lines = fields.map(|(name, value)| format!("{name}: {value}"));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(lines(RateLimitHeaders::Off), [""; 0]);
        assert_eq!(
            lines(RateLimitHeaders::Draft),
            [
                "RateLimit-Policy: \"each-client\";q=100;w=10",
                "RateLimit: \"each-client\";r=42;t=6"
            ]
        );
        assert_eq!(
            lines(RateLimitHeaders::Legacy),
            [
                "X-RateLimit-Limit: 100",
                "X-RateLimit-Remaining: 42",
                "X-RateLimit-Reset: 6"
            ]
        );
    }
}
