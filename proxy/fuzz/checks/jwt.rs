//! Tokens and key sets: whatever comes, a token is accepted only if a plain reading of it finds the
//! one signature that counts.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proxy::http::head::{Field, Fields, Span};
use proxy::http::known::KnownHeader;
use proxy::policy::jwt::{
    Authenticator, ClaimsUse, KeySet, KeySource, Provenance, TokenCache, TokenSources,
};
use serde_json::Value;
use xds::model::{ClaimHeader, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider};

const SECRET: [u8; 32] = [7; 32];
const NOW: i64 = 1_800_000_000;
const KEYS: &str =
    r#"{"keys":[{"kty":"oct","kid":"k","k":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc"}]}"#;

/// Checks `data`: `k` and a key set, or anything else and a token.
pub(crate) fn check(data: &[u8]) {
    match data {
        [b'k', set @ ..] => check_key_set(set),
        [_, token @ ..] => check_token(token),
        [] => {}
    }
}

fn check_key_set(set: &[u8]) {
    let sizes = [Provenance::Configured, Provenance::Fetched].map(|provenance| {
        let set = KeySet::parse(set, provenance).ok()?;
        Some((set.len(), set.len() + set.unusable()))
    });
    match sizes {
        [Some((configured, all)), Some((fetched, same))] => {
            assert!(fetched <= configured, "a fetched set never has more");
            assert_eq!(all, same);
        }
        [None, None] => {}
        _ => panic!("whether it is a key set does not depend on where it comes from"),
    }
}

fn check_token(token: &[u8]) {
    let mut head = b"AuthorizationBearer ".to_vec();
    head.extend_from_slice(token);
    let (Some(name), Some(value)) = (Span::new(0, 13), Span::new(13, head.len())) else {
        return;
    };
    let mut fields = Fields::default();
    fields.push(Field {
        name,
        value,
        known: KnownHeader::Authorization,
    });
    let sources = TokenSources {
        fields: &fields,
        bytes: &head,
        query: None,
    };
    let (policy, mut cache) = (policy(), TokenCache::default());
    let first = policy.authenticate(sources, NOW, &mut cache).is_ok();
    let again = policy.authenticate(sources, NOW, &mut cache);
    assert_eq!(first, again.is_ok(), "the cache changes nothing");
    if let Ok(passed) = again {
        let text = token.trim_ascii();
        assert!(is_signed(text), "accepted: {}", text.escape_ascii());
        let mut lines = Vec::new();
        passed.write_claims(None, &mut lines);
        let ends = lines.iter().filter(|&&byte| byte < b' ').count();
        assert!(ends <= 2, "one line, one end: {}", lines.escape_ascii());
    }
}

fn policy() -> Authenticator {
    let keys = KeySet::parse(KEYS.as_bytes(), Provenance::Configured).expect("our own keys");
    let provider = JwtProvider {
        name: "p".to_owned(),
        issuer: "i".to_owned(),
        audiences: Vec::new(),
        keys: JwtKeys::Inline(KEYS.to_owned()),
        from: Vec::new(),
        forward: JwtForward::Keep,
        clock_skew: None,
        expiry: JwtExpiry::Required,
        claims_to_headers: vec![ClaimHeader {
            claim: "sub".to_owned(),
            header: http::HeaderName::from_static("x-user"),
        }],
    };
    let policy = JwtPolicy {
        mode: JwtMode::Strict,
        realm: None,
        providers: vec![provider],
    };
    Authenticator::compile(
        &policy,
        [Arc::new(KeySource::constant(keys))],
        ClaimsUse::Headers,
    )
}

/// Three parts, the algorithm, the signature, the issuer and the time: read without haste.
fn is_signed(token: &[u8]) -> bool {
    let parts: Vec<&[u8]> = token.split(|&byte| byte == b'.').collect();
    let [header, claims, signature] = parts.as_slice() else {
        return false;
    };
    let json = |part: &[u8]| -> Option<Value> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    };
    let (Some(header), Some(claims), Ok(signature)) = (
        json(header),
        json(claims),
        URL_SAFE_NO_PAD.decode(signature),
    ) else {
        return false;
    };
    let signed = &token[..parts[0].len() + 1 + parts[1].len()];
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &SECRET);
    ring::hmac::verify(&key, signed, &signature).is_ok()
        && header["alg"] == "HS256"
        && header.get("crit").is_none()
        && claims["iss"] == "i"
        && claims["exp"]
            .as_f64()
            .is_some_and(|exp| exp >= 1_799_999_941.0)
}
