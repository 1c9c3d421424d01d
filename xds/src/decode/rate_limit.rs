//! Rate limits.

use super::field_path::FieldPath;
use super::value::{choice, header_name, non_zero, set_text};
use crate::model::{
    Rate, RateLimitHeaders, RateLimitKey, RateLimitPolicy, RateLimitRule, RateLimitStatus,
    RatePeriod,
};
use crate::proto::{self, rate_limit_key};

pub(super) fn rate_limit(
    at: &FieldPath<'_>,
    message: proto::RateLimitPolicy,
) -> Option<RateLimitPolicy> {
    let number = message.rules.len();
    let rules = at.list("rules", message.rules, rule)?;
    if !(1..=RateLimitRule::MOST_RULES).contains(&number) {
        let most = RateLimitRule::MOST_RULES;
        return at
            .field("rules")
            .problem(format!("there are {number}: use 1 to {most}"));
    }
    let status = RateLimitStatus::of(message.status).or_else(|| {
        let code = message.status;
        let status = at.field("status");
        status.problem(format!("{code} is no status of a refusal: use 429 or 503"))
    });
    let headers = choice(&at.field("headers"), message.headers, |it| match it {
        proto::RateLimitHeaders::Unspecified => None,
        proto::RateLimitHeaders::Off => Some(RateLimitHeaders::Off),
        proto::RateLimitHeaders::Draft => Some(RateLimitHeaders::Draft),
        proto::RateLimitHeaders::Legacy => Some(RateLimitHeaders::Legacy),
    });
    Some(RateLimitPolicy {
        rules,
        status: status?,
        headers: headers?,
    })
}

fn rule(at: &FieldPath<'_>, message: proto::RateLimitRule) -> Option<RateLimitRule> {
    let name = at.text("name", message.name);
    let when = at.optional("when", message.when, set_text);
    let parts = message.key.len();
    let key = at.list("key", message.key, key);
    if parts > RateLimitRule::MOST_KEY_PARTS {
        let most = RateLimitRule::MOST_KEY_PARTS;
        return at
            .field("key")
            .problem(format!("has {parts} parts: use {most} or less"));
    }
    let rate = at.optional("rate", message.rate, rate);
    let max_keys = message.max_keys;
    let (least, most) = (RateLimitRule::LEAST_KEYS, RateLimitRule::MOST_KEYS);
    if !(least..=most).contains(&max_keys) {
        return at
            .field("max_keys")
            .problem(format!("{max_keys} is out of range: use {least} to {most}"));
    }
    Some(RateLimitRule {
        name: name?,
        when: when?,
        key: key?,
        rate: rate?,
        dry_run: message.dry_run,
        max_keys,
    })
}

fn rate(at: &FieldPath<'_>, message: proto::Rate) -> Option<Rate> {
    let requests = non_zero(&at.field("requests"), message.requests);
    let burst = non_zero(&at.field("burst"), message.burst);
    let per = choice(&at.field("per"), message.per, |per| match per {
        proto::RatePeriod::Unspecified => None,
        proto::RatePeriod::Second => Some(RatePeriod::Second),
        proto::RatePeriod::Minute => Some(RatePeriod::Minute),
        proto::RatePeriod::Hour => Some(RatePeriod::Hour),
        proto::RatePeriod::Day => Some(RatePeriod::Day),
    });
    at.accept(Rate::new(requests?, per?, burst?))
}

fn key(at: &FieldPath<'_>, message: proto::RateLimitKey) -> Option<RateLimitKey> {
    match message.part {
        Some(rate_limit_key::Part::ClientAddress(prefixes)) => {
            let prefixes = address_prefixes(&at.field("client_address"), prefixes);
            let (ipv4_prefix, ipv6_prefix) = prefixes?;
            Some(RateLimitKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            })
        }
        Some(rate_limit_key::Part::Header(name)) => {
            header_name(&at.field("header"), &name).map(RateLimitKey::Header)
        }
        Some(rate_limit_key::Part::Claim(name)) => at.text("claim", name).map(RateLimitKey::Claim),
        Some(rate_limit_key::Part::Cookie(name)) => {
            at.text("cookie", name).map(RateLimitKey::Cookie)
        }
        Some(rate_limit_key::Part::Host(proto::Unit {})) => Some(RateLimitKey::Host),
        Some(rate_limit_key::Part::Path(proto::Unit {})) => Some(RateLimitKey::Path),
        None => at.record_missing_choice(),
    }
}

/// How many bits of addresses of IPv4 and of IPv6 a key has.
pub(super) fn address_prefixes(
    at: &FieldPath<'_>,
    message: proto::ClientAddressKey,
) -> Option<(u8, u8)> {
    let v4 = prefix(&at.field("ipv4_prefix"), message.ipv4_prefix, 32);
    let v6 = prefix(&at.field("ipv6_prefix"), message.ipv6_prefix, 128);
    Some((v4?, v6?))
}

fn prefix(at: &FieldPath<'_>, bits: u32, most: u8) -> Option<u8> {
    let short = u8::try_from(bits).ok().filter(|bits| *bits <= most);
    short.or_else(|| at.problem(format!("{bits} is too long: use {most} or less")))
}
