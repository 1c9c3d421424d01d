use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

use super::{KeySet, KeySetError, Provenance};
use crate::limits::{JWKS_BYTES, JWKS_KEYS};

fn parse(set: &Value) -> Result<KeySet, KeySetError> {
    KeySet::parse(set.to_string().as_bytes(), Provenance::Fetched)
}

fn rsa(n: &str) -> Value {
    json!({"kty": "RSA", "kid": "a", "n": n, "e": "AQAB"})
}

#[test]
fn an_invalid_key_set_is_distinguished_from_an_empty_one() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"keys":null}"#,
        "\u{feff}{}",
    ] {
        let parsed = KeySet::parse(text.as_bytes(), Provenance::Configured);
        let error = parsed.expect_err(text);
        assert!(
            matches!(error, KeySetError::Malformed(_)),
            "{text}: {error}"
        );
    }
    let empty = parse(&json!({"keys": []})).expect("a key set");
    assert!(empty.is_empty());
}

#[test]
fn a_key_set_is_bounded() {
    let key = json!({"kty": "oct", "k": "AA"});
    let max = vec![key.clone(); JWKS_KEYS];
    assert!(parse(&json!({"keys": max})).is_ok());
    let more = vec![key; JWKS_KEYS + 1];
    let error = parse(&json!({"keys": more})).expect_err("too many");
    assert_eq!(error, KeySetError::TooMany(JWKS_KEYS + 1));
    let long = format!(r#"{{"keys":[],"x":"{}"}}"#, "x".repeat(JWKS_BYTES));
    let error = KeySet::parse(long.as_bytes(), Provenance::Fetched).expect_err("too large");
    assert_eq!(error, KeySetError::TooLarge);
}

#[test]
fn an_unusable_key_does_not_affect_others() {
    // 256 bytes that begin with a one.
    let modulus = format!("gAAA{}", "AAAA".repeat(84) + "AA");
    let set = parse(&json!({"keys": [
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "A".repeat(44), "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "!", "y": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"},
        {"kty": "OKP", "crv": "Ed448", "x": "AAAA"},
        {"kty": "RSA", "kid": 1, "n": modulus, "e": "AQAB"},
        {"kty": "RSA", "n": modulus, "e": "AA"},
        {"kty": "RSA", "n": modulus, "e": "AQAB", "alg": "RSA-OAEP"},
        {"kty": "RSA", "n": modulus, "e": "AQAB", "alg": "ES256"},
        {"kty": "RSA", "n": modulus, "e": "AQAB", "use": "enc"},
        {"kty": "RSA", "n": modulus},
        {},
        7,
        rsa(&modulus),
    ]}));
    let set = set.expect("a key set");
    assert_eq!((set.len(), set.unusable()), (1, 13));
    assert!(set.contains("a"));
}

#[test]
fn wrong_lengths_of_key_parameters_are_corrected() {
    // A leading zero of the modulus, padding after it, and a coordinate without its leading zero.
    let modulus = format!("AIAA{}", "AAAA".repeat(84) + "AAA=");
    let short = json!({"kty": "EC", "crv": "P-256", "x": "AQ", "y": "Ag"});
    let set = parse(&json!({"keys": [rsa(&modulus), short]})).expect("a key set");
    assert_eq!(set.len(), 2);
    let mut keys = set.candidates(None, Algorithm::ES256);
    let key = keys.next().expect("the key").decoding.try_get_as_bytes();
    let point = key.expect("a point");
    assert_eq!((point.len(), point[0], point[32], point[64]), (65, 4, 1, 2));
}

#[test]
fn keys_are_not_part_of_debug_output() {
    let set = json!({"keys": [{"kty": "oct", "kid": "s", "k": "A".repeat(43)}]});
    let set = KeySet::parse(set.to_string().as_bytes(), Provenance::Configured);
    let text = format!("{:?}", set.expect("a key set"));
    assert!(
        text.contains("\"s\"") && !text.contains("AAAA") && !text.contains("0, 0"),
        "{text}"
    );
}
