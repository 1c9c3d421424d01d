//! A request that the rules of a rate limit count: of thousands of clients, none of which is refused.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use proxy::http::head::Fields;
use proxy::policy::authorization::{ClaimValues, Subject};
use proxy::policy::effective_fields::{EffectiveFields, PolicyView};
use proxy::policy::forwarded::HeaderTrust;
use proxy::policy::rate_limit::{Moment, Pace, RateLimit, RateLimits, RuleCounter, no_counts};
use serde_json::json;
use xds::model::{
    Rate, RateLimitHeaders, RateLimitKey, RateLimitPolicy, RateLimitRule, RateLimitStatus,
    RatePeriod,
};

/// So many rules by the client's address, or late by a claim.
fn limits(moment: Moment, rules: usize) -> RateLimits {
    let many = NonZeroU32::new(100_000).expect("not 0");
    let rate = Rate::new(many, RatePeriod::Second, many).expect("a short burst");
    let key = match moment {
        Moment::Head | Moment::Early => RateLimitKey::ClientAddress {
            ipv4_prefix: 32,
            ipv6_prefix: 64,
        },
        Moment::Late => RateLimitKey::Claim("sub".to_owned()),
    };
    let rule = RateLimitRule {
        name: "each".to_owned(),
        when: None,
        key: vec![key],
        rate: Some(rate),
        dry_run: false,
        max_keys: RateLimitRule::DEFAULT_KEYS,
    };
    let policy = RateLimitPolicy {
        rules: vec![rule; rules],
        status: RateLimitStatus::TooManyRequests,
        headers: RateLimitHeaders::Off,
    };
    let limit = RateLimit::compile(&policy, |rule| {
        let counter = RuleCounter::new(("TrafficPolicy/a/b", "each"), no_counts(1));
        counter.set(rule.rate.map(Pace::new), rule.max_keys, Duration::ZERO);
        Arc::new(counter)
    });
    let limit = Arc::new(limit);
    let limits = match moment {
        Moment::Head => RateLimits::at_head([(limit, PolicyView::AsSent)]),
        Moment::Early | Moment::Late => RateLimits::at_rule([(limit, PolicyView::Effective)], None),
    };
    limits.expect("a rule that counts")
}

/// Counts requests of clients in turn.
pub(super) fn count(times: u64, moment: Moment, rules: usize) {
    let limits = limits(moment, rules);
    let fields = Fields::default();
    let claims =
        json!({"sub": "0123456789abcdef0123456789abcdef", "iss": "https://idp.example.com"});
    let claims = claims.as_object().map(ClaimValues::new);
    for number in 0..times {
        let address = u32::try_from(number % 4096).expect("below") + 0x0a00_0000;
        let subject = Subject {
            method: b"GET",
            host: "shop.example.com",
            path: "/api/v1/items/42",
            fields: EffectiveFields {
                fields: &fields,
                bytes: b"",
                header_trust: HeaderTrust::Untrusted,
                principal: None,
                own: b"",
                grants: None,
                view: PolicyView::Effective,
            },
            client: IpAddr::V4(Ipv4Addr::from_bits(address)),
            claims: claims.as_ref(),
        };
        let since = Duration::from_micros(number);
        let counted = limits.count(moment, |_| black_box(subject), (since, 0), false);
        assert!(black_box(counted).refusal.is_none());
    }
}
