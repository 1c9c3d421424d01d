//! Rate limits.

use super::value::list;
use crate::model::{
    Rate, RateLimitHeaders, RateLimitKey, RateLimitPolicy, RateLimitRule, RatePeriod,
};
use crate::proto::{self, rate_limit_key};

impl From<&RateLimitPolicy> for proto::RateLimitPolicy {
    fn from(policy: &RateLimitPolicy) -> Self {
        let headers = match policy.headers {
            RateLimitHeaders::Off => proto::RateLimitHeaders::Off,
            RateLimitHeaders::Draft => proto::RateLimitHeaders::Draft,
            RateLimitHeaders::Legacy => proto::RateLimitHeaders::Legacy,
        };
        Self {
            rules: list(&policy.rules),
            status: policy.status.code().into(),
            headers: headers.into(),
        }
    }
}

impl From<&RateLimitRule> for proto::RateLimitRule {
    fn from(rule: &RateLimitRule) -> Self {
        Self {
            name: rule.name.clone(),
            when: rule.when.clone(),
            key: list(&rule.key),
            rate: rule.rate.map(Into::into),
            dry_run: rule.dry_run,
            max_keys: rule.max_keys,
        }
    }
}

impl From<Rate> for proto::Rate {
    fn from(rate: Rate) -> Self {
        let per = match rate.per() {
            RatePeriod::Second => proto::RatePeriod::Second,
            RatePeriod::Minute => proto::RatePeriod::Minute,
            RatePeriod::Hour => proto::RatePeriod::Hour,
            RatePeriod::Day => proto::RatePeriod::Day,
        };
        Self {
            requests: rate.requests().get(),
            per: per.into(),
            burst: rate.burst().get(),
        }
    }
}

impl From<&RateLimitKey> for proto::RateLimitKey {
    fn from(key: &RateLimitKey) -> Self {
        let part = match key {
            RateLimitKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            } => rate_limit_key::Part::ClientAddress(proto::ClientAddressKey {
                ipv4_prefix: (*ipv4_prefix).into(),
                ipv6_prefix: (*ipv6_prefix).into(),
            }),
            RateLimitKey::Header(name) => rate_limit_key::Part::Header(name.to_string()),
            RateLimitKey::Claim(name) => rate_limit_key::Part::Claim(name.clone()),
            RateLimitKey::Cookie(name) => rate_limit_key::Part::Cookie(name.clone()),
            RateLimitKey::Host => rate_limit_key::Part::Host(proto::Unit {}),
            RateLimitKey::Path => rate_limit_key::Part::Path(proto::Unit {}),
        };
        Self { part: Some(part) }
    }
}
