//! Formats of names and values in Kubernetes and Gateway API. Each function returns the problem
//! with advice.

use xds::model::{GatewayDuration, Hostname};

/// The result for a text.
pub(crate) type Verdict = Result<(), String>;

/// A DNS label (RFC 1123): namespaces, port names.
pub(crate) fn label(text: &str) -> Verdict {
    if is_label(text) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a DNS label: use at most 63 lower-case letters, digits and `-`, \
         with a letter or digit at both ends"
    ))
}

/// A DNS name (RFC 1123): names of most objects, of listeners and rules.
pub(crate) fn subdomain(text: &str) -> Verdict {
    // As in an API server, labels longer than 63 are accepted here.
    let valid = text.len() <= MAX_NAME
        && text
            .split('.')
            .all(|part| has_alphanumeric_ends(part, is_label_char));
    if valid {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a DNS name: use at most {MAX_NAME} lower-case letters, digits, `-` and \
         `.`, with a letter or digit at both ends"
    ))
}

/// The name of a referenced object. Its exact format depends on the kind.
pub(crate) fn object_name(text: &str) -> Verdict {
    length(text, 1, MAX_NAME)
}

/// An API group; empty for the core group.
pub(crate) fn group(text: &str) -> Verdict {
    if text.is_empty() {
        return Ok(());
    }
    subdomain(text)
        .map_err(|_| format!("`{text}` is not an API group, such as gateway.networking.k8s.io"))
}

pub(crate) fn kind(text: &str) -> Verdict {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if text.len() <= MAX_LABEL && starts && text.chars().all(inner) && !text.ends_with('-') {
        return Ok(());
    }
    Err(format!("`{text}` is not a kind, such as Service"))
}

/// A host name, exact or with `*.` in front.
pub(crate) fn hostname(text: &str) -> Verdict {
    Hostname::parse(text)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// A host name without a wildcard.
pub(crate) fn precise_hostname(text: &str) -> Verdict {
    match Hostname::parse(text) {
        Ok(host) if host.wildcard_suffix().is_none() => Ok(()),
        Ok(_) => Err(format!("`{text}` is a wildcard: use one host name")),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks a duration of Gateway API (GEP-2257).
pub(crate) fn duration(text: &str) -> Verdict {
    GatewayDuration::parse(text)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// The name of a header field (an RFC 9110 token).
pub(crate) fn header_name(text: &str) -> Verdict {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if !text.is_empty() && text.len() <= MAX_HEADER_NAME && text.bytes().all(token) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a header name: use at most {MAX_HEADER_NAME} letters, digits and \
         !#$%&'*+-.^_`|~"
    ))
}

/// The value of a header field: words of printable ASCII, separated by one space or tab.
pub(crate) fn header_value(text: &str) -> Verdict {
    length(text, 1, 4096)?;
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic());
    if text.split([' ', '\t']).all(is_word) {
        return Ok(());
    }
    Err(
        "is not a header's value: use printable ASCII, with at most one space or tab in a row and \
         none at the ends"
            .to_owned(),
    )
}

/// A key of a Secret or `ConfigMap`.
pub(crate) fn data_key(text: &str) -> Verdict {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let valid = !text.is_empty() && text.len() <= MAX_NAME && text.chars().all(inner);
    if valid && text != "." && !text.starts_with("..") {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a key: use letters, digits, `-`, `_` and `.`"
    ))
}

/// The key of a label or annotation: a name with an optional DNS name and `/` before it.
pub(crate) fn qualified(text: &str) -> Verdict {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let prefixed = prefix.is_none_or(|prefix| subdomain(prefix).is_ok());
    if prefixed && name.len() <= MAX_LABEL && has_alphanumeric_ends(name, word) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a key: use a name of at most {MAX_LABEL} letters, digits, `-`, `_` and \
         `.`, and before it, if you like, a DNS name and `/`"
    ))
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Verdict {
    let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || (text.len() <= MAX_LABEL && has_alphanumeric_ends(text, word)) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a label's value: use at most {MAX_LABEL} letters, digits, `-`, `_` and `.`"
    ))
}

/// A text of bounded length in characters.
pub(crate) fn length(text: &str, min: usize, max: usize) -> Verdict {
    let count = text.chars().count();
    if count < min {
        return Err("is required".to_owned());
    }
    if count > max {
        return Err(format!("has {count} characters: at most {max} are allowed"));
    }
    Ok(())
}

fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && has_alphanumeric_ends(text, is_label_char)
}

/// Not empty, all of `inner`, and alphanumeric at both ends.
fn has_alphanumeric_ends(text: &str, inner: impl Fn(char) -> bool) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.chars().all(inner) && text.starts_with(edge) && text.ends_with(edge)
}

fn is_label_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

const MAX_LABEL: usize = 63;
const MAX_NAME: usize = 253;
const MAX_HEADER_NAME: usize = 256;

#[cfg(test)]
mod tests {
    use super::{Verdict, data_key, header_name, header_value, kind, label, qualified, subdomain};

    #[test]
    fn valid_and_invalid_names() {
        type Case = (
            fn(&str) -> Verdict,
            &'static [&'static str],
            &'static [&'static str],
        );
        let cases: [Case; 7] = [
            (
                label,
                &["a", "0", "a-b"],
                &["", "-a", "a-", "A", "a.b", "a_b"],
            ),
            (
                subdomain,
                &["a", "a.b-c.0"],
                &["", "a..b", ".a", "a.", "a.-b", "A"],
            ),
            (kind, &["Service", "A1"], &["", "1A", "A-", "A_B"]),
            (
                header_name,
                &["X-A", "x.y", "a|b"],
                &["", "a b", "a:b", "ä"],
            ),
            (
                header_value,
                &["a b", "a\tb", "~!", "^a$"],
                &["", "a\nb", "a\0", "ü", "a  b", " a", "a\t"],
            ),
            (data_key, &["tls.crt", "_x", "A"], &["", ".", "..a", "a/b"]),
            (
                qualified,
                &["a", "a.b/C_d", "A"],
                &["", "a/", "/a", "a/b/c", "A/b", "-a"],
            ),
        ];
        for (form, good, bad) in cases {
            for text in good {
                assert_eq!(form(text), Ok(()), "{text}");
            }
            for text in bad {
                assert!(form(text).is_err(), "{text}");
            }
        }
        assert!(label(&"a".repeat(64)).is_err());
        assert!(subdomain(&"a".repeat(254)).is_err());
    }
}
