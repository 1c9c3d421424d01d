//! Validates a JSON Web Key Set (RFC 7517) in a policy. The proxy parses it for its keys; this
//! reports errors to its author.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Map, Value};

/// Checks a key set; the error is a message, and quotes no key.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let set: Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!(
            "is not valid JSON (line {line}, column {column}): paste the issuer's whole key set"
        )
    })?;
    let Some(keys) = set.get("keys").and_then(Value::as_array) else {
        return Err("has no list `keys`: paste the issuer's whole key set".to_owned());
    };
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err(format!("has {} keys: use 1 to {MAX_KEYS}", keys.len()));
    }
    let mut passed_over = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let fields = key.as_object().ok_or("is not an object".to_owned());
        let usable = fields
            .and_then(check_key)
            .map_err(|why| format!("has an unusable key: keys[{index}] {why}"))?;
        if let Usable::No(why) = usable {
            passed_over.push(format!("keys[{index}] {why}"));
        }
    }
    if let [first, ..] = passed_over.as_slice()
        && passed_over.len() == keys.len()
    {
        return Err(format!("has no usable key: {first}"));
    }
    Ok(())
}

/// Whether the proxy verifies tokens with a key.
enum Usable {
    Yes,
    /// It is for others, or of a kind that is unknown here: passed over, as the set of an issuer may
    /// contain such keys (RFC 7517 section 5).
    No(String),
}

/// The error is a mistake in a key of a known type.
fn check_key(key: &Map<String, Value>) -> Result<Usable, String> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    if text("kty") != Some("oct") && key.contains_key("d") {
        return Err("is a private key: leave out `d` and the other private members".to_owned());
    }
    let members: &[&str] = match (text("kty"), text("crv")) {
        (Some("RSA"), _) => &["n", "e"],
        (Some("EC"), Some("P-256" | "P-384")) => &["x", "y"],
        (Some("OKP"), Some("Ed25519")) => &["x"],
        (Some("oct"), _) => &["k"],
        (Some(kind @ ("EC" | "OKP")), curve) => {
            let curve = curve.unwrap_or("none");
            return Ok(Usable::No(format!(
                "is of type {kind} with curve {curve}: use P-256, P-384 or Ed25519"
            )));
        }
        (Some(_), _) => {
            let why = "is of an unknown type: use RSA, EC, OKP or oct";
            return Ok(Usable::No(why.to_owned()));
        }
        (None, _) => return Err("has no type: set `kty`".to_owned()),
    };
    for member in members {
        let value = text(member).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("has no `{member}`: set it as text"))?;
        BASE64_URL_SAFE_NO_PAD
            .decode(value)
            .map_err(|_| format!("has a `{member}` that is not base64url: copy it completely"))?;
    }
    Ok(if is_for_signatures(key) {
        Usable::Yes
    } else {
        Usable::No("is not for signatures: use a key whose `use` is sig".to_owned())
    })
}

/// RFC 7517 sections 4.2 and 4.3.
fn is_for_signatures(key: &Map<String, Value>) -> bool {
    let operations = key.get("key_ops").and_then(Value::as_array);
    key.get("use").is_none_or(|usage| usage == "sig")
        && operations.is_none_or(|all| all.iter().any(|one| one == "verify"))
}

/// The same limit as in the proxy.
const MAX_KEYS: usize = 100;

#[cfg(test)]
mod tests {
    use super::check;

    const RSA: &str = r#"{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}"#;

    fn set(keys: &str) -> String {
        format!(r#"{{"keys":[{keys}]}}"#)
    }

    #[test]
    fn usable_key_sets_are_accepted() {
        for keys in [
            RSA,
            r#"{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}"#,
            r#"{"kty":"OKP","crv":"Ed25519","x":"AQ"}"#,
            r#"{"kty":"oct","k":"AQ"}"#,
            &format!("{RSA},{RSA}"),
        ] {
            assert_eq!(check(&set(keys)), Ok(()), "{keys}");
        }
    }

    #[test]
    fn errors_do_not_contain_the_key() {
        let cases = [
            ("{", "is not valid JSON (line 1, column 1)"),
            ("", "is not valid JSON (line 1, column 0)"),
            ("[]", "has no list `keys`"),
            (RSA, "has no list `keys`"),
            (r#"{"keys":{}}"#, "has no list `keys`"),
            (r#"{"keys":[]}"#, "has 0 keys: use 1 to 100"),
        ];
        for (text, expected) in cases {
            let error = check(text).expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let many = set(&vec![RSA; 101].join(","));
        assert_eq!(check(&many), Err("has 101 keys: use 1 to 100".to_owned()));
    }

    #[test]
    fn a_key_of_an_unknown_kind_is_passed_over_unless_no_other_is_usable() {
        let cases = [
            (
                r#"{"kty":"AKP","alg":"ML-DSA-65","pub":"AQ"}"#,
                "is of an unknown type",
            ),
            (
                r#"{"kty":"EC","x":"AQ","y":"AQ"}"#,
                "is of type EC with curve none",
            ),
            (
                r#"{"kty":"EC","crv":"P-521","x":"AQ","y":"AQ"}"#,
                "is of type EC with curve P-521",
            ),
            (
                r#"{"kty":"EC","crv":"secp256k1","x":"AQ","y":"AQ"}"#,
                "is of type EC with curve secp256k1",
            ),
            (
                r#"{"kty":"OKP","crv":"Ed448","x":"AQ"}"#,
                "is of type OKP with curve Ed448",
            ),
            (
                r#"{"kty":"RSA","n":"AQ","e":"AQ","use":"enc"}"#,
                "is not for signatures",
            ),
            (
                r#"{"kty":"RSA","n":"AQ","e":"AQ","key_ops":["encrypt"]}"#,
                "is not for signatures",
            ),
        ];
        for (key, why) in cases {
            for keys in [format!("{RSA},{key}"), format!("{key},{RSA}")] {
                assert_eq!(check(&set(&keys)), Ok(()), "{keys}");
            }
            let error = check(&set(&format!("{key},{key}"))).expect_err(key);
            let start = format!("has no usable key: keys[0] {why}");
            assert!(error.starts_with(&start), "{key}: {error}");
        }
        let private = r#"{"kty":"EC","crv":"P-521","x":"AQ","y":"AQ","d":"AQ"}"#;
        let error = check(&set(&format!("{RSA},{private}"))).expect_err(private);
        assert!(error.contains("keys[1] is a private key"), "{error}");
    }

    #[test]
    fn an_unusable_key_is_named_by_its_position() {
        let cases = [
            (r#""AQAB""#, "is not an object"),
            (r#"{"n":"AQ"}"#, "has no type: set `kty`"),
            (r#"{"kty":"RSA","n":"AQ"}"#, "has no `e`: set it as text"),
            (r#"{"kty":"RSA","n":"","e":"AQ"}"#, "has no `n`"),
            (r#"{"kty":"RSA","n":5,"e":"AQ"}"#, "has no `n`"),
            (
                r#"{"kty":"RSA","n":"+/==","e":"AQ"}"#,
                "has a `n` that is not base64url",
            ),
            (
                r#"{"kty":"RSA","n":"AQ","e":"AQ","d":"AQ"}"#,
                "is a private key",
            ),
        ];
        for (key, expected) in cases {
            let error = check(&set(&format!("{RSA},{key}"))).expect_err(key);
            let start = format!("has an unusable key: keys[1] {expected}");
            assert!(error.starts_with(&start), "{key}: {error}");
        }
    }
}
