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
    let mut keys = keys.iter().enumerate();
    keys.try_for_each(|(index, key)| {
        let fields = key.as_object().ok_or("is not an object".to_owned());
        fields
            .and_then(check_key)
            .map_err(|why| format!("has an unusable key: keys[{index}] {why}"))
    })
}

fn check_key(key: &Map<String, Value>) -> Result<(), String> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let members: &[&str] = match (text("kty"), text("crv")) {
        (Some("RSA"), _) => &["n", "e"],
        (Some("EC"), Some("P-256" | "P-384")) => &["x", "y"],
        (Some("OKP"), Some("Ed25519")) => &["x"],
        (Some("oct"), _) => &["k"],
        (Some(kind @ ("EC" | "OKP")), curve) => {
            let curve = curve.unwrap_or("none");
            return Err(format!(
                "is of type {kind} with curve {curve}: use P-256, P-384 or Ed25519"
            ));
        }
        (Some(_), _) => return Err("is of an unknown type: use RSA, EC, OKP or oct".to_owned()),
        (None, _) => return Err("has no type: set `kty`".to_owned()),
    };
    for member in members {
        let value = text(member).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("has no `{member}`: set it as text"))?;
        BASE64_URL_SAFE_NO_PAD
            .decode(value)
            .map_err(|_| format!("has a `{member}` that is not base64url: copy it completely"))?;
    }
    if text("kty") != Some("oct") && key.contains_key("d") {
        return Err("is a private key: leave out `d` and the other private members".to_owned());
    }
    Ok(())
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
    fn an_unusable_key_is_named_by_its_position() {
        let cases = [
            (r#""AQAB""#, "is not an object"),
            (r#"{"n":"AQ"}"#, "has no type: set `kty`"),
            (r#"{"kty":"DSA"}"#, "is of an unknown type"),
            (r#"{"kty":"RSA","n":"AQ"}"#, "has no `e`: set it as text"),
            (r#"{"kty":"RSA","n":"","e":"AQ"}"#, "has no `n`"),
            (r#"{"kty":"RSA","n":5,"e":"AQ"}"#, "has no `n`"),
            (
                r#"{"kty":"RSA","n":"+/==","e":"AQ"}"#,
                "has a `n` that is not base64url",
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
