use std::rc::Rc;

use xds::model::JwtForward;

use super::{Entry, Fingerprint, TokenCache};
use crate::limits::{JWT_CACHE_SETS, JWT_CACHE_WAYS};
use crate::policy::jwt::Verified;

fn entry(token: &str, expires: i64) -> Entry {
    Entry {
        fingerprint: Fingerprint::of(token.as_bytes()),
        policy: 1,
        location: 0,
        provider: 0,
        keys: 1,
        expires,
        verified: Rc::new(Verified {
            subject: None,
            forward: JwtForward::Keep,
            lines: Box::default(),
            claims: None,
        }),
    }
}

fn has(cache: &TokenCache, token: &str, now: i64) -> bool {
    let fingerprint = Fingerprint::of(token.as_bytes());
    cache.find(&fingerprint, 1, 0, now).is_some()
}

#[test]
fn a_cached_token_is_valid_until_it_expires_and_for_its_policy_only() {
    let mut cache = TokenCache::default();
    assert!(!has(&cache, "a", 0));
    cache.insert(entry("a", 10));
    assert!(has(&cache, "a", 9));
    assert!(!has(&cache, "a", 10));
    assert!(!has(&cache, "b", 9));
    let fingerprint = Fingerprint::of(b"a");
    assert!(
        cache.find(&fingerprint, 2, 0, 9).is_none(),
        "another policy"
    );
    assert!(cache.find(&fingerprint, 1, 1, 9).is_none(), "another place");
}

#[test]
fn a_full_cache_set_evicts_the_token_that_expires_first() {
    let mut cache = TokenCache::default();
    let names = tokens_of_one_set(JWT_CACHE_WAYS + 2);
    for (name, expires) in names.iter().zip([40, 10, 30, 20]) {
        cache.insert(entry(name, expires));
    }
    cache.insert(entry(&names[4], 50));
    let cached: Vec<bool> = names
        .iter()
        .take(5)
        .map(|name| has(&cache, name, 0))
        .collect();
    assert_eq!(cached, [true, false, true, true, true]);
    cache.insert(entry(&names[4], 5));
    assert!(!has(&cache, &names[4], 5), "a token has one slot");
    cache.insert(entry(&names[5], 50));
    let cached: Vec<bool> = names.iter().map(|name| has(&cache, name, 0)).collect();
    assert_eq!(cached, [true, false, true, true, false, true]);
    assert_eq!(cache.slots.len(), JWT_CACHE_SETS * JWT_CACHE_WAYS);
}

/// Tokens that compete for the same slots.
fn tokens_of_one_set(count: usize) -> Vec<String> {
    let slot = Fingerprint::of(b"0").slot();
    let names = (0..).map(|number: u32| number.to_string());
    let same = names.filter(|name| Fingerprint::of(name.as_bytes()).slot() == slot);
    same.take(count).collect()
}
