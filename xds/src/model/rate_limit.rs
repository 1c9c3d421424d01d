//! Limits of requests per client, or per other keys.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use http::HeaderName;
use serde::ser::{SerializeMap as _, SerializeStruct as _};
use serde::{Serialize, Serializer};
use thiserror::Error;

/// The rate limits of a target. Each rule counts requests for itself, and all of them have to pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RateLimitPolicy {
    /// The rules, by name.
    pub rules: Vec<RateLimitRule>,
    /// Status of a refused request.
    pub status: RateLimitStatus,
    /// Which header fields tell clients about the limits.
    pub headers: RateLimitHeaders,
}

/// Status of a refused request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RateLimitStatus {
    /// 429 (RFC 6585 section 4).
    #[default]
    TooManyRequests,
    /// 503, for clients that do not know 429.
    Unavailable,
}

impl RateLimitStatus {
    /// The status code.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::TooManyRequests => 429,
            Self::Unavailable => 503,
        }
    }

    /// The status of this code.
    #[must_use]
    pub fn of(code: u32) -> Option<Self> {
        let all = [Self::TooManyRequests, Self::Unavailable];
        all.into_iter().find(|it| u32::from(it.code()) == code)
    }
}

impl Serialize for RateLimitStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.code())
    }
}

/// Which header fields tell clients about the limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum RateLimitHeaders {
    /// None but `Retry-After` of refusals.
    #[default]
    #[serde(rename = "Disabled")]
    Off,
    /// `RateLimit` and `RateLimit-Policy`, as in draft-ietf-httpapi-ratelimit-headers-10.
    Draft,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    Legacy,
}

/// A rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitRule {
    /// Its name, unique in the policy: counts survive changes of the policy under it.
    pub name: String,
    /// A CEL expression that is true for the requests that it counts; `None` counts all.
    pub when: Option<String>,
    /// What distinguishes clients; empty counts all requests together.
    pub key: Vec<RateLimitKey>,
    /// How many requests pass; `None` refuses all.
    pub rate: Option<Rate>,
    /// Whether it only counts what it would refuse.
    pub dry_run: bool,
    /// The number of keys that are kept, 1024 to 4 Mi.
    pub max_keys: u32,
}

impl RateLimitRule {
    /// The least number of keys that a rule keeps, and what it keeps where its Gateway has no room.
    pub const LEAST_KEYS: u32 = 1024;
    /// The number of keys that a rule keeps by default.
    pub const DEFAULT_KEYS: u32 = 65_536;
    /// The largest number of keys that a rule keeps: 32 MiB.
    pub const MOST_KEYS: u32 = 4 * 1024 * 1024;
    /// Rules of a policy.
    pub const MOST_RULES: usize = 16;
    /// Parts of a key.
    pub const MOST_KEY_PARTS: usize = 4;

    /// Bytes of its table: 8 for each key, whose number is rounded up to a power of two. None without a key.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        if self.key.is_empty() || self.rate.is_none() {
            return 0;
        }
        u64::from(self.max_keys.next_power_of_two()) * 8
    }
}

impl Serialize for RateLimitRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rule = serializer.serialize_struct("RateLimitRule", 8)?;
        rule.serialize_field("name", &self.name)?;
        if let Some(when) = &self.when {
            rule.serialize_field("when", when)?;
        }
        if !self.key.is_empty() {
            rule.serialize_field("key", &self.key)?;
        }
        match self.rate {
            Some(rate) => {
                rule.serialize_field("requests", &rate.requests)?;
                rule.serialize_field("per", &rate.per)?;
                rule.serialize_field("burst", &rate.burst)?;
            }
            None => rule.serialize_field("requests", &0)?,
        }
        if self.dry_run {
            rule.serialize_field("dryRun", &true)?;
        }
        if !self.key.is_empty() {
            rule.serialize_field("maxKeys", &self.max_keys)?;
        }
        rule.end()
    }
}

/// How many requests pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    requests: NonZeroU32,
    per: RatePeriod,
    burst: NonZeroU32,
}

/// A rate that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RateError {
    /// There are too many requests in a period.
    #[error("{0} requests are too many: use 1000000 or less, or a shorter period")]
    TooFast(NonZeroU32),
    /// The burst is too large.
    #[error("a burst of {0} is too large: use 100000000 or less")]
    BurstTooLarge(NonZeroU32),
    /// A whole burst takes too long to be allowed again.
    #[error(
        "a burst of {burst} at {requests} per {per:?} is allowed again after more than 30 days: use a burst of \
         {most} or less, or more requests"
    )]
    TooLong {
        /// The burst.
        burst: NonZeroU32,
        /// The requests of a period.
        requests: NonZeroU32,
        /// The period.
        per: RatePeriod,
        /// The largest burst at this rate.
        most: u64,
    },
}

impl Rate {
    /// The most requests of a period.
    pub const MOST_REQUESTS: u32 = 1_000_000;
    /// The largest burst.
    pub const MOST_BURST: u32 = 100_000_000;
    /// The longest time after which a whole burst is allowed again: 30 days.
    pub const LONGEST: Duration = Duration::from_hours(30 * 24);

    /// A rate of `requests` in a period, of which `burst` may come at once.
    ///
    /// # Errors
    /// It is too fast, or its burst is too large for it.
    pub fn new(
        requests: NonZeroU32,
        per: RatePeriod,
        burst: NonZeroU32,
    ) -> Result<Self, RateError> {
        if requests.get() > Self::MOST_REQUESTS {
            return Err(RateError::TooFast(requests));
        }
        if burst.get() > Self::MOST_BURST {
            return Err(RateError::BurstTooLarge(burst));
        }
        let most = Self::LONGEST.as_secs() * u64::from(requests.get()) / per.length().as_secs();
        if u64::from(burst.get()) > most {
            return Err(RateError::TooLong {
                burst,
                requests,
                per,
                most,
            });
        }
        Ok(Self {
            requests,
            per,
            burst,
        })
    }

    /// Requests of a period.
    #[must_use]
    pub fn requests(&self) -> NonZeroU32 {
        self.requests
    }

    /// The period.
    #[must_use]
    pub fn per(&self) -> RatePeriod {
        self.per
    }

    /// Requests that may come at once.
    #[must_use]
    pub fn burst(&self) -> NonZeroU32 {
        self.burst
    }
}

/// The period of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum RatePeriod {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// 24 hours.
    Day,
}

impl RatePeriod {
    /// Its length.
    #[must_use]
    pub const fn length(self) -> Duration {
        match self {
            Self::Second => Duration::from_secs(1),
            Self::Minute => Duration::from_mins(1),
            Self::Hour => Duration::from_hours(1),
            Self::Day => Duration::from_hours(24),
        }
    }
}

/// A part of the key of a rule. A part that a request lacks counts as empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateLimitKey {
    /// The client's address, behind trusted hops: its first bits.
    ClientAddress {
        /// Bits of an IPv4 address, 0 to 32.
        ipv4_prefix: u8,
        /// Bits of an IPv6 address, 0 to 128.
        ipv6_prefix: u8,
    },
    /// A header field; several lines are joined by commas.
    Header(HeaderName),
    /// A claim of the verified token. Dots separate members of objects.
    Claim(String),
    /// A cookie.
    Cookie(String),
    /// The host, without port.
    Host,
    /// The normalised path, without query.
    Path,
}

impl Serialize for RateLimitKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        let whole = BTreeMap::<&str, u8>::new();
        match self {
            Self::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            } => {
                let prefixes = [("ipv4Prefix", *ipv4_prefix), ("ipv6Prefix", *ipv6_prefix)];
                map.serialize_entry("clientAddress", &BTreeMap::from(prefixes))?;
            }
            Self::Header(name) => map.serialize_entry("header", name.as_str())?,
            Self::Claim(name) => map.serialize_entry("claim", name)?,
            Self::Cookie(name) => map.serialize_entry("cookie", name)?,
            Self::Host => map.serialize_entry("host", &whole)?,
            Self::Path => map.serialize_entry("path", &whole)?,
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::{Rate, RateError, RatePeriod};

    fn rate(requests: u32, per: RatePeriod, burst: u32) -> Result<Rate, RateError> {
        let number = |it| NonZeroU32::new(it).expect("not 0");
        Rate::new(number(requests), per, number(burst))
    }

    #[test]
    fn a_whole_burst_is_allowed_again_within_30_days() {
        use RatePeriod::{Day, Hour, Second};

        for (requests, per, most) in [(1, Day, 30), (1, Hour, 720), (2, Day, 60)] {
            assert!(rate(requests, per, most).is_ok());
            let error = rate(requests, per, most + 1).expect_err("it takes longer");
            assert!(
                error.to_string().contains(&format!("{most} or less")),
                "{error}"
            );
        }
        assert!(rate(1_000_000, Second, 100_000_000).is_ok());
        assert!(matches!(
            rate(1_000_001, Second, 1),
            Err(RateError::TooFast(_))
        ));
        assert!(matches!(
            rate(1_000_000, Second, 100_000_001),
            Err(RateError::BurstTooLarge(_))
        ));
    }
}
