//! Query parameters, compared without decoding them into memory first.
//!
//! Names and values are decoded as forms (WHATWG URL, `application/x-www-form-urlencoded`): `+` is
//! a space, `%41` is `A`, an invalid escape stays as it is. Parameters are separated by `&`; one
//! without `=` has an empty value.

/// The raw value of the first parameter of this name.
pub(crate) fn first<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    query
        .split(|byte| *byte == b'&')
        .map(|parameter| {
            let equals = parameter.iter().position(|byte| *byte == b'=');
            let (name, value) = parameter.split_at(equals.unwrap_or(parameter.len()));
            (name, value.get(1..).unwrap_or_default())
        })
        .find(|(raw, _)| equals(raw, name))
        .map(|(_, value)| value)
}

/// Whether `raw` decodes to `expected`.
pub(crate) fn equals(raw: &[u8], expected: &[u8]) -> bool {
    if is_plain(raw) {
        raw == expected
    } else {
        decoded(raw).eq(expected.iter().copied())
    }
}

/// Whether decoding changes nothing.
pub(crate) fn is_plain(raw: &[u8]) -> bool {
    !raw.iter().any(|byte| matches!(byte, b'%' | b'+'))
}

/// The bytes that `raw` decodes to.
pub(crate) fn decoded(raw: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let (byte, after) = match rest {
            [b'%', high, low, after @ ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (b'%', rest.get(1..)?),
            },
            [b'+', after @ ..] => (b' ', after),
            [byte, after @ ..] => (*byte, after),
            [] => return None,
        };
        rest = after;
        Some(byte)
    })
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{decoded, equals, first};

    #[test]
    fn query_parameters_are_form_decoded() {
        for (raw, expected) in [
            ("plain", "plain"),
            ("a+b", "a b"),
            ("a%20b", "a b"),
            ("%41%6a%4A", "AjJ"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
            ("%%41", "%A"),
            ("%2B", "+"),
        ] {
            let text: Vec<u8> = decoded(raw.as_bytes()).collect();
            assert_eq!(text, expected.as_bytes(), "{raw}");
            assert!(equals(raw.as_bytes(), expected.as_bytes()), "{raw}");
        }
        assert!(!equals(b"a%20b", b"a b "));
        assert!(!equals(b"a%20b", b"a"));
    }

    #[test]
    fn the_first_parameter_of_a_name_is_used() {
        for (query, expected) in [
            ("a=1", Some("1")),
            ("b=2&a=1&a=3", Some("1")),
            ("%61=1", Some("1")),
            ("a", Some("")),
            ("a=", Some("")),
            ("a=x=y", Some("x=y")),
            ("aa=1", None),
            ("A=1", None),
            ("", None),
            ("&&", None),
        ] {
            let value = first(query.as_bytes(), b"a");
            assert_eq!(value, expected.map(str::as_bytes), "{query}");
        }
    }
}
