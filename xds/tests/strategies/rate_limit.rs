//! Rate limits.

use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    Rate, RateLimitHeaders, RateLimitKey, RateLimitPolicy, RateLimitRule, RateLimitStatus,
    RatePeriod,
};

use super::value::header_name;

prop_compose! {
    pub(super) fn rate_limit()(
        rules in vec(rule(), 1..4),
        status in prop_oneof![
            Just(RateLimitStatus::TooManyRequests),
            Just(RateLimitStatus::Unavailable),
        ],
        headers in prop_oneof![
            Just(RateLimitHeaders::Off),
            Just(RateLimitHeaders::Draft),
            Just(RateLimitHeaders::Legacy),
        ],
    ) -> RateLimitPolicy {
        RateLimitPolicy { rules, status, headers }
    }
}

prop_compose! {
    fn rule()(
        name in "[a-z]{1,8}",
        when in option::of("claims\\.[a-z]{1,8}"),
        key in vec(key(), 0..=4),
        rate in option::of(rate()),
        dry_run in any::<bool>(),
        max_keys in 1024..=4_194_304_u32,
    ) -> RateLimitRule {
        RateLimitRule { name, when, key, rate, dry_run, max_keys }
    }
}

prop_compose! {
    fn rate()(
        requests in 1..=1_000_000_u32,
        per in prop_oneof![
            Just(RatePeriod::Second),
            Just(RatePeriod::Minute),
            Just(RatePeriod::Hour),
            Just(RatePeriod::Day),
        ],
        burst in 1..=30_u32,
    ) -> Rate {
        let number = |it| NonZeroU32::new(it).expect("not 0");
        Rate::new(number(requests), per, number(burst)).expect("a short burst")
    }
}

fn key() -> impl Strategy<Value = RateLimitKey> {
    prop_oneof![
        (0..=32_u8, 0..=128_u8).prop_map(|(ipv4_prefix, ipv6_prefix)| {
            RateLimitKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            }
        }),
        header_name().prop_map(RateLimitKey::Header),
        "[a-z.]{1,8}".prop_map(RateLimitKey::Claim),
        "[a-z]{1,8}".prop_map(RateLimitKey::Cookie),
        Just(RateLimitKey::Host),
        Just(RateLimitKey::Path),
    ]
}
