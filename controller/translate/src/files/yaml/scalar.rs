//! The meaning of scalars: the core schema of YAML 1.2 (10.3.2), and differences to YAML 1.1
//! (kubectl).

use serde_json::{Number, Value};

/// The value of a plain scalar.
///
/// # Errors
///
/// It is a number that JSON cannot represent.
pub(super) fn resolve(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Ok(Value::Null),
        "true" | "True" | "TRUE" => Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => Ok(Value::Bool(false)),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => number(text),
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// kubectl's interpretation of the plain scalar, if different.
pub(super) fn kubectl_difference(text: &str) -> Option<String> {
    let boolean = match text.to_ascii_lowercase().as_str() {
        "yes" | "on" | "y" => "true",
        "no" | "off" | "n" => "false",
        _ => {
            let digits = text.strip_prefix('0')?;
            let octal = !digits.is_empty() && digits.bytes().all(|b| (b'0'..b'8').contains(&b));
            return octal.then(|| {
                format!(
                    "`{text}` is octal to kubectl (YAML 1.1) and decimal here: \
                     write it in quotes, or without the leading 0"
                )
            });
        }
    };
    // `yEs` is text to both.
    let cased = [
        text.to_ascii_lowercase(),
        text.to_ascii_uppercase(),
        title(text),
    ];
    cased.iter().any(|form| form == text).then(|| {
        format!(
            "`{text}` is the text \"{text}\" here and `{boolean}` to kubectl (YAML 1.1): \
             write {boolean}, or \"{text}\" in quotes"
        )
    })
}

fn title(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut rest = lower.chars();
    rest.next()
        .map(|first| first.to_ascii_uppercase().to_string() + rest.as_str())
        .unwrap_or_default()
}

fn number(text: &str) -> Result<Value, String> {
    let radix = |prefix, radix| {
        let digits: &str = text.strip_prefix(prefix)?;
        let plain = digits.starts_with(|c: char| c.is_ascii_alphanumeric());
        u64::from_str_radix(digits, radix).ok().filter(|_| plain)
    };
    if let Some(value) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Ok(value.into());
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(format!(
            "`{text}` is not allowed in an object: use a finite number"
        ));
    }
    if !looks_like_number(unsigned) {
        return Ok(Value::String(text.to_owned()));
    }
    let digits = text.strip_prefix('+').unwrap_or(text);
    if let Ok(value) = digits.parse::<i64>() {
        return Ok(value.into());
    }
    if let Ok(value) = digits.parse::<u64>() {
        return Ok(value.into());
    }
    digits
        .parse()
        .ok()
        .and_then(Number::from_f64)
        .map(Value::Number)
        .ok_or_else(|| "the number is too large".to_owned())
}

/// `[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?`, or one that starts with its dot.
fn looks_like_number(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_fits
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{kubectl_difference, resolve};

    #[test]
    fn scalars_follow_the_core_schema() {
        for (text, expected) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("True", json!(true)),
            ("80", json!(80)),
            ("+80", json!(80)),
            ("-1", json!(-1)),
            ("0x1F", json!(31)),
            ("0o17", json!(15)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("1e3", json!(1000.0)),
            ("1.2.3.4", json!("1.2.3.4")),
            ("1m30s", json!("1m30s")),
            ("10s", json!("10s")),
            ("-", json!("-")),
            ("0x", json!("0x")),
            ("0x+1", json!("0x+1")),
            ("1e", json!("1e")),
            ("no", json!("no")),
        ] {
            assert_eq!(resolve(text), Ok(expected), "{text}");
        }
        assert!(resolve(".inf").is_err());
        assert!(resolve("1e999").is_err());
    }

    #[test]
    fn scalars_that_kubectl_reads_differently_are_detected() {
        for text in ["no", "Yes", "ON", "y", "0755"] {
            assert!(kubectl_difference(text).is_some(), "{text}");
        }
        for text in ["nO", "none", "0", "0.5", "089", "true", "755"] {
            assert_eq!(kubectl_difference(text), None, "{text}");
        }
    }
}
