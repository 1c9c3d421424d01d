//! Matches a request's origin with the allowed ones.

use xds::model::CorsOrigin;

/// A compiled [`CorsOrigin`]. Case-insensitive, as scheme and host are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Any,
    Exact(Box<str>),
    Wildcard { before: Box<str>, after: Box<str> },
}

impl Origin {
    pub(super) fn compile(origin: &CorsOrigin) -> Self {
        match origin {
            CorsOrigin::Any => Self::Any,
            CorsOrigin::Exact(origin) => Self::Exact(without_default_port(origin, origin).into()),
            CorsOrigin::Wildcard { before, after } => Self::Wildcard {
                before: before.as_str().into(),
                after: without_default_port(before, after).into(),
            },
        }
    }

    pub(super) fn matches(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(allowed) => allowed.as_bytes().eq_ignore_ascii_case(origin),
            Self::Wildcard { before, after } => {
                wildcard_part(before.as_bytes(), after.as_bytes(), origin).is_some_and(is_host)
            }
        }
    }
}

/// The text matched by the `*`.
fn wildcard_part<'a>(before: &[u8], after: &[u8], origin: &'a [u8]) -> Option<&'a [u8]> {
    let (start, rest) = origin.split_at_checked(before.len())?;
    let (wild, end) = rest.split_at_checked(rest.len().checked_sub(after.len())?)?;
    (start.eq_ignore_ascii_case(before) && end.eq_ignore_ascii_case(after)).then_some(wild)
}

/// Labels, or an address in brackets; never a port, so `http://*` means the default port.
fn is_host(text: &[u8]) -> bool {
    let address = |&byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let label = |&byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match text {
        [b'[', inner @ .., b']'] => inner.iter().all(address),
        text => !text.is_empty() && text.iter().all(label),
    }
}

/// Browsers omit the default port, so `https://a:443` is compared as `https://a`.
fn without_default_port<'a>(origin: &str, end: &'a str) -> &'a str {
    let port = if origin.starts_with("https:") {
        ":443"
    } else {
        ":80"
    };
    end.strip_suffix(port).unwrap_or(end)
}

/// Whether a value may be repeated in a response: `null`, or scheme and authority of safe bytes.
/// Other values, such as a list or a URL with a path, are never allowed, not even by `*`.
pub(super) fn is_serialised(origin: &[u8]) -> bool {
    if origin == b"null" {
        return true;
    }
    let Some(colon) = origin.iter().position(|&byte| byte == b':') else {
        return false;
    };
    let (scheme, rest) = origin.split_at(colon);
    let in_scheme = |&byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let in_authority = |&byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'[' | b']')
    };
    let authority = rest.strip_prefix(b"://").unwrap_or_default();
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(in_scheme)
        && !authority.is_empty()
        && authority.iter().all(in_authority)
}
