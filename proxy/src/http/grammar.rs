//! Grammar shared by HTTP fields (RFC 9110 section 5.6): tokens, lists, white space.

/// Whether `bytes` is a token: one or more of the characters allowed in names.
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A field's value without the spaces and tabs around it.
#[must_use]
pub fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let Some(first) = value.iter().position(is_text) else {
        return &[];
    };
    let last = value.iter().rposition(is_text).unwrap_or(first);
    value.get(first..=last).unwrap_or_default()
}

/// Members of a comma-separated list, trimmed, including empty ones.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// Whether two field names are the same to a backend that ignores case and reads `_` as `-`, as CGI
/// and WSGI do.
#[must_use]
pub fn is_equivalent(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().map(folded).eq(other.iter().map(folded))
}

/// A byte of a field name as such a backend reads it.
#[must_use]
pub fn folded(byte: &u8) -> u8 {
    match byte {
        b'_' => b'-',
        other => other.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_equivalent, is_token, list, trim};

    #[test]
    fn names_are_compared_without_case_and_with_underscores_as_hyphens() {
        for (one, other, alike) in [
            ("x-user", "X_User", true),
            ("x_user", "x-user", true),
            ("x-user", "x-user-", false),
            ("x-user", "x.user", false),
        ] {
            assert_eq!(
                is_equivalent(one.as_bytes(), other.as_bytes()),
                alike,
                "{one} {other}"
            );
        }
    }

    #[test]
    fn recognises_tokens() {
        for (bytes, expected) in [
            ("chunked", true),
            ("x-a_b.c!", true),
            ("", false),
            ("a b", false),
            ("a:", false),
            ("a/b", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_token(bytes.as_bytes()), expected, "{bytes}");
        }
    }

    #[test]
    fn lists_are_split_and_trimmed() {
        let members: Vec<&[u8]> = list(b" a,\tb c ,,d").collect();
        assert_eq!(members, [&b"a"[..], b"b c", b"", b"d"]);
        assert_eq!(trim(b" \t "), b"");
    }
}
