//! Rate limits. Of a policy with a problem none applies: a rule left out would let requests pass.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use http::HeaderName;
use xds::model::{
    Rate, RateLimitHeaders, RateLimitKey, RateLimitPolicy, RateLimitRule, RateLimitStatus,
    RatePeriod,
};

use super::api::{
    ClientAddressKeySpec, RateLimitHeadersSpec, RateLimitKeySpec, RateLimitRuleSpec, RateLimitSpec,
    RatePeriodSpec,
};
use super::expression::Expression;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the rate limits of a policy, and returns their problems.
pub(crate) fn lower(spec: &RateLimitSpec) -> (RateLimitPolicy, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut problem = |field: String, message: String| {
        problems.push(Problem::new(Reason::Invalid, field, message));
    };
    if spec.rules.is_empty() {
        problem("rules".to_owned(), "has no rule: add one".to_owned());
    }
    if spec.rules.len() > RateLimitRule::MOST_RULES {
        let most = RateLimitRule::MOST_RULES;
        let message = format!("has {} rules: use {most} or less", spec.rules.len());
        problem("rules".to_owned(), message);
    }
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for (index, rule) in spec.rules.iter().enumerate() {
        let mut problem =
            |field: &str, message: String| problem(format!("rules[{index}].{field}"), message);
        if !names.insert(&rule.name) {
            let name = &rule.name;
            problem(
                "name",
                format!("a rule before has the name `{name}` too: use another"),
            );
        }
        rules.push(lower_rule(rule, &mut problem));
    }
    let status = RateLimitStatus::of(spec.status.into()).unwrap_or_else(|| {
        let message = format!("{} is no status of a refusal: use 429 or 503", spec.status);
        problem("status".to_owned(), message);
        RateLimitStatus::default()
    });
    let headers = match spec.headers {
        RateLimitHeadersSpec::Off => RateLimitHeaders::Off,
        RateLimitHeadersSpec::Draft => RateLimitHeaders::Draft,
        RateLimitHeadersSpec::Legacy => RateLimitHeaders::Legacy,
    };
    let policy = RateLimitPolicy {
        rules,
        status,
        headers,
    };
    (policy, problems)
}

fn lower_rule(spec: &RateLimitRuleSpec, problem: &mut impl FnMut(&str, String)) -> RateLimitRule {
    if let Some(Err(why)) = spec.when.as_deref().map(Expression::parse) {
        problem("when", why.to_string());
    }
    if spec.key.len() > RateLimitRule::MOST_KEY_PARTS {
        let most = RateLimitRule::MOST_KEY_PARTS;
        problem(
            "key",
            format!("has {} parts: use {most} or less", spec.key.len()),
        );
    }
    let mut key = Vec::new();
    for (index, part) in spec.key.iter().enumerate() {
        match lower_key(part) {
            Ok(part) => key.push(part),
            Err((field, message)) => problem(&format!("key[{index}]{field}"), message),
        }
    }
    let rate = rate(spec).unwrap_or_else(|(field, message)| {
        problem(field, message);
        None
    });
    let (least, most) = (RateLimitRule::LEAST_KEYS, RateLimitRule::MOST_KEYS);
    let max_keys = spec.max_keys.unwrap_or(RateLimitRule::DEFAULT_KEYS);
    if !(least..=most).contains(&max_keys) {
        problem(
            "maxKeys",
            format!("{max_keys} is out of range: use {least} to {most}"),
        );
    }
    RateLimitRule {
        name: spec.name.clone(),
        when: spec.when.clone(),
        key,
        rate,
        dry_run: spec.dry_run,
        max_keys: max_keys.clamp(least, most),
    }
}

/// The rate of a rule; `None` refuses all requests.
fn rate(spec: &RateLimitRuleSpec) -> Result<Option<Rate>, (&'static str, String)> {
    let Some(requests) = NonZeroU32::new(spec.requests) else {
        if spec.burst.is_none() {
            return Ok(None);
        }
        let message = "a rule of 0 requests refuses all: it has no burst";
        return Err(("burst", message.to_owned()));
    };
    let burst = spec.burst.unwrap_or(spec.requests);
    let burst = NonZeroU32::new(burst).ok_or_else(|| {
        let message = "a burst of 0 would refuse all: use 1 or more, or 0 requests";
        ("burst", message.to_owned())
    })?;
    let per = match spec.per {
        RatePeriodSpec::Second => RatePeriod::Second,
        RatePeriodSpec::Minute => RatePeriod::Minute,
        RatePeriodSpec::Hour => RatePeriod::Hour,
        RatePeriodSpec::Day => RatePeriod::Day,
    };
    let field = if spec.burst.is_some() {
        "burst"
    } else {
        "requests"
    };
    let rate = Rate::new(requests, per, burst);
    rate.map(Some).map_err(|why| (field, why.to_string()))
}

/// A part of a key, or what is wrong with which of its fields.
fn lower_key(spec: &RateLimitKeySpec) -> Result<RateLimitKey, KeyProblem> {
    let parts = [
        spec.client_address.map(|bits| {
            let (ipv4_prefix, ipv6_prefix) = address_prefixes(bits)?;
            Ok(RateLimitKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            })
        }),
        (spec.header.as_deref()).map(|name| header(name).map(RateLimitKey::Header)),
        (spec.claim.as_deref()).map(|name| claim(name).map(RateLimitKey::Claim)),
        (spec.cookie.as_deref()).map(|name| cookie(name).map(RateLimitKey::Cookie)),
        spec.host.map(|_| Ok(RateLimitKey::Host)),
        spec.path.map(|_| Ok(RateLimitKey::Path)),
    ];
    only_part(
        parts,
        "set exactly one of clientAddress, header, claim, cookie, host and path",
    )
}

/// A field of a part of a key, and what is wrong with it.
pub(super) type KeyProblem = (&'static str, String);

/// The part of a key that is set, if it is the only one.
pub(super) fn only_part<K, const N: usize>(
    parts: [Option<Result<K, KeyProblem>>; N],
    message: &str,
) -> Result<K, KeyProblem> {
    let mut parts = parts.into_iter().flatten();
    if let (Some(part), None) = (parts.next(), parts.next()) {
        return part;
    }
    Err(("", message.to_owned()))
}

/// How many bits of addresses of IPv4 and of IPv6 are meant.
pub(super) fn address_prefixes(bits: ClientAddressKeySpec) -> Result<(u8, u8), KeyProblem> {
    if bits.ipv4_prefix > 32 {
        let message = format!("{} is too long: use 32 or less", bits.ipv4_prefix);
        return Err((".clientAddress.ipv4Prefix", message));
    }
    if bits.ipv6_prefix > 128 {
        let message = format!("{} is too long: use 128 or less", bits.ipv6_prefix);
        return Err((".clientAddress.ipv6Prefix", message));
    }
    Ok((bits.ipv4_prefix, bits.ipv6_prefix))
}

pub(super) fn header(name: &str) -> Result<HeaderName, KeyProblem> {
    let parsed = HeaderName::from_bytes(name.as_bytes());
    parsed.map_err(|_| (".header", format!("`{name}` is not a header name")))
}

pub(super) fn claim(name: &str) -> Result<String, KeyProblem> {
    match name {
        "" => Err((".claim", "is empty: name a claim".to_owned())),
        name => Ok(name.to_owned()),
    }
}

pub(super) fn cookie(name: &str) -> Result<String, KeyProblem> {
    let parsed = HeaderName::from_bytes(name.as_bytes());
    let parsed = parsed.map(|_| name.to_owned());
    parsed.map_err(|_| (".cookie", format!("`{name}` is not a name of a cookie")))
}
