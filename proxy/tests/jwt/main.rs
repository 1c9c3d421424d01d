//! Hostile tokens: every token of `tokens.toml` is created, presented, and has the expected
//! outcome.

mod recipe;
#[path = "../support/tokens.rs"]
mod tokens;

use std::sync::Arc;

use http::HeaderName;
use proxy::http::head::{Field, Fields, Span};
use proxy::http::known::KnownHeader;
use proxy::policy::jwt::{
    Authenticator, ClaimsUse, FetchWaker, KeySet, KeySource, Provenance, TokenCache, TokenSources,
};
use serde_json::{Value, json};
use xds::model::{JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider};

use recipe::{Recipe, Signers};
use tokens::{Signer, key_set};

/// The time at which every token is presented, in seconds of Unix time.
const NOW: i64 = 1_800_000_000;

fn provider(issuer: &str, audiences: &[&str]) -> JwtProvider {
    JwtProvider {
        name: issuer.to_owned(),
        issuer: issuer.to_owned(),
        audiences: audiences
            .iter()
            .map(|&audience| audience.to_owned())
            .collect(),
        keys: JwtKeys::Inline(String::new()),
        from: Vec::new(),
        forward: JwtForward::Keep,
        clock_skew: None,
        expiry: JwtExpiry::Required,
        claims_to_headers: Vec::new(),
    }
}

fn policy(providers: Vec<JwtProvider>) -> JwtPolicy {
    JwtPolicy {
        mode: JwtMode::Strict,
        realm: None,
        providers,
    }
}

fn keys(set: &str, provenance: Provenance) -> Arc<KeySource> {
    let keys = KeySet::parse(set.as_bytes(), provenance).expect("a key set");
    Arc::new(KeySource::constant(keys))
}

/// Presents a token as `Authorization: Bearer`: `accept`, or why not.
fn authenticate(policy: &Authenticator, token: &str, cache: &mut TokenCache) -> &'static str {
    let span = |start: usize, end: usize| Span::new(start, end).expect("below 64 KiB");
    let head = format!("AuthorizationBearer {token}");
    let mut fields = Fields::default();
    fields.push(Field {
        name: span(0, 13),
        value: span(13, head.len()),
        known: KnownHeader::Authorization,
    });
    let sources = TokenSources {
        fields: &fields,
        bytes: head.as_bytes(),
        query: None,
    };
    let outcome = policy.authenticate(sources, NOW, cache);
    outcome.map_or_else(|denied| denied.refusal.reason(), |_| "accept")
}

/// The policy of the table.
fn table_policy(signers: &Signers) -> Authenticator {
    let first = provider("https://issuer.test", &["api", "web"]);
    let second = provider("https://other.test", &[]);
    let sources = [
        keys(&signers.first_set(), Provenance::Configured),
        keys(&signers.second_set(), Provenance::Configured),
    ];
    Authenticator::compile(&policy(vec![first, second]), sources, ClaimsUse::Headers)
}

#[test]
fn every_token_has_its_expected_result() {
    let recipes = Recipe::all();
    assert!(recipes.len() >= 100, "the table is not where it should be");
    let signers = Signers::default();
    let policy = table_policy(&signers);
    let mut wrong = Vec::new();
    for recipe in &recipes {
        let token = recipe.make(&signers);
        let mut cache = TokenCache::default();
        // The second time, an accepted token is found in the cache.
        for time in ["first", "second"] {
            let outcome = authenticate(&policy, &token, &mut cache);
            if outcome != recipe.expect {
                let Recipe { name, expect, .. } = recipe;
                wrong.push(format!("{name}, {time} time: {outcome}, not {expect}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_truncated_token_is_rejected() {
    let signers = Signers::default();
    let policy = table_policy(&signers);
    let token = signers.find("p256").signs("p256", &recipe::claims());
    let mut cache = TokenCache::default();
    assert_eq!(authenticate(&policy, &token, &mut cache), "accept");
    for end in 1..token.len() {
        assert_ne!(
            authenticate(&policy, &token[..end], &mut cache),
            "accept",
            "{end}"
        );
    }
}

#[test]
fn a_token_with_any_character_changed_is_refused() {
    let signers = Signers::default();
    let policy = table_policy(&signers);
    let token = signers.find("ed25519").signs("ed25519", &recipe::claims());
    let mut cache = TokenCache::default();
    assert_eq!(authenticate(&policy, &token, &mut cache), "accept");
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("ASCII");
        assert_ne!(
            authenticate(&policy, &changed, &mut cache),
            "accept",
            "{at}"
        );
    }
}

#[test]
fn a_token_without_a_key_id_is_tried_with_four_keys() {
    let signers: Vec<Signer> = (0..6).map(|_| Signer::p256()).collect();
    let jwks: Vec<Value> = (0..)
        .zip(&signers)
        .map(|(n, it)| it.jwk(&format!("k{n}")))
        .collect();
    let source = keys(&key_set(&jwks), Provenance::Fetched);
    let provider = provider("https://issuer.test", &[]);
    let policy = Authenticator::compile(&policy(vec![provider]), [source], ClaimsUse::Headers);
    let outcome = signers.iter().map(|signer| {
        let token = signer.token(&json!({"alg": "ES256"}), &recipe::claims());
        authenticate(&policy, &token, &mut TokenCache::default())
    });
    let outcome: Vec<&str> = outcome.collect();
    let (tried, rest) = outcome.split_at(4);
    assert_eq!(tried, ["accept"; 4]);
    assert_eq!(rest, ["wrong_signature"; 2]);
}

#[test]
fn a_fetched_symmetric_key_is_not_used() {
    let secret = Signer::secret(64);
    let token = secret.signs("secret", &recipe::claims());
    let set = key_set(&[secret.jwk("secret")]);
    for (provenance, expected) in [
        (Provenance::Configured, "accept"),
        (Provenance::Fetched, "unknown_key"),
    ] {
        let provider = provider("https://issuer.test", &[]);
        let policy = Authenticator::compile(
            &policy(vec![provider]),
            [keys(&set, provenance)],
            ClaimsUse::Headers,
        );
        let outcome = authenticate(&policy, &token, &mut TokenCache::default());
        assert_eq!(outcome, expected);
    }
}

#[test]
fn a_policy_without_providers_refuses_every_token() {
    let policy = Authenticator::compile(&policy(Vec::new()), [], ClaimsUse::Headers);
    let token = Signer::p256().signs("p256", &recipe::claims());
    let outcome = authenticate(&policy, &token, &mut TokenCache::default());
    assert_eq!(outcome, "unknown_issuer");
}

#[test]
fn a_cached_token_is_valid_only_for_its_policy_keys_and_lifetime() {
    let signer = Signer::p256();
    let token = signer.signs("p256", &recipe::claims());
    let set = key_set(&[signer.jwk("p256")]);
    let strict = provider("https://issuer.test", &["api"]);
    let elsewhere = provider("https://issuer.test", &["elsewhere"]);
    let source = Arc::new(KeySource::pending(None));
    let publish = |set: &str, good_until| {
        let keys = KeySet::parse(set.as_bytes(), Provenance::Fetched).expect("a key set");
        source.publish(Arc::new(keys), good_until);
    };
    let ours = Authenticator::compile(
        &policy(vec![strict]),
        [Arc::clone(&source)],
        ClaimsUse::Headers,
    );
    let other = Authenticator::compile(
        &policy(vec![elsewhere]),
        [Arc::clone(&source)],
        ClaimsUse::Headers,
    );
    let mut cache = TokenCache::default();
    assert_eq!(authenticate(&ours, &token, &mut cache), "no_keys");
    publish(&set, NOW + 1);
    assert_eq!(authenticate(&ours, &token, &mut cache), "accept");
    assert_eq!(authenticate(&other, &token, &mut cache), "other_audience");
    publish(&key_set(&[]), NOW + 1);
    assert_eq!(authenticate(&ours, &token, &mut cache), "unknown_key");
    publish(&set, NOW);
    assert_eq!(authenticate(&ours, &token, &mut cache), "no_keys");
    publish(&set, NOW + 1);
    assert_eq!(authenticate(&ours, &token, &mut cache), "accept");
}

#[test]
fn an_unknown_key_is_requested_once() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let signer = Signer::p256();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let wake = FetchWaker::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let source = Arc::new(KeySource::pending(Some(wake)));
    let set = KeySet::parse(
        key_set(&[signer.jwk("old")]).as_bytes(),
        Provenance::Fetched,
    );
    source.publish(Arc::new(set.expect("a key set")), NOW + 1);
    let provider = provider("https://issuer.test", &[]);
    let policy = Authenticator::compile(
        &policy(vec![provider]),
        [Arc::clone(&source)],
        ClaimsUse::Headers,
    );
    let mut cache = TokenCache::default();
    let asks = |cache: &mut TokenCache, id: &str| {
        authenticate(&policy, &signer.signs(id, &recipe::claims()), cache);
        calls.load(Ordering::Relaxed)
    };
    assert_eq!(asks(&mut cache, "old"), 0);
    for id in ["new", "newer", "new"] {
        assert_eq!(asks(&mut cache, id), 1);
    }
    assert!(source.take_requested());
    assert_eq!(asks(&mut cache, "new"), 2);
}

#[test]
fn claims_cannot_set_header_fields_of_http_itself() {
    // `Host` from a claim would let a token choose the backend's virtual host.
    let mut provider = provider("https://issuer.test", &[]);
    provider.claims_to_headers = vec![xds::model::ClaimHeader {
        claim: "sub".to_owned(),
        header: HeaderName::from_static("host"),
    }];
    let signer = Signer::p256();
    let source = keys(&key_set(&[signer.jwk("p256")]), Provenance::Fetched);
    let policy = Authenticator::compile(&policy(vec![provider]), [source], ClaimsUse::Headers);
    let token = signer.signs("p256", &recipe::claims());
    assert_eq!(
        authenticate(&policy, &token, &mut TokenCache::default()),
        "accept"
    );
    assert!(!format!("{policy:?}").contains("\"host\""));
}
