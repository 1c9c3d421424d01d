//! Masking of secrets in headers, URLs and queries.

mod parameters;
mod token;

use std::borrow::Cow;

pub use self::parameters::parameters;
use self::token::holds_token;

/// The text that replaces a secret.
pub const MASK: &str = "***";

/// Whether the values of a header are secrets: credentials, sessions, keys. Compared without case.
#[must_use]
pub fn is_secret_header(name: &str) -> bool {
    HEADERS.iter().any(|it| it.eq_ignore_ascii_case(name)) || is_secret_word(name)
}

/// The value of a header, or [`MASK`]. A signed token is a secret whatever the header is called: a
/// policy may take it from any. A header that names a page shows it as [`url`] does: a redirect back
/// from an identity provider carries the code, and the next request's Referer repeats it.
#[must_use]
pub fn header_value<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    if is_secret_header(name) {
        return Cow::Borrowed(MASK);
    }
    if name.eq_ignore_ascii_case(SUBPROTOCOLS) {
        return subprotocols(value);
    }
    if URLS.iter().any(|it| it.eq_ignore_ascii_case(name)) {
        return Cow::Owned(url(value));
    }
    if holds_secret(value) {
        return Cow::Borrowed(MASK);
    }
    Cow::Borrowed(value)
}

/// A path with its query and fragment; values of parameters that carry credentials are masked, and
/// so are segments of the path that are tokens.
#[must_use]
pub fn target(target: &str) -> Cow<'_, str> {
    let end = target.find(['?', '#']).map_or(target.len(), |at| at + 1);
    let (path, query) = target.split_at(end);
    match (masked(path, &IN_PATH), masked(query, &IN_QUERY)) {
        (Cow::Borrowed(_), Cow::Borrowed(_)) => Cow::Borrowed(target),
        (path, query) => Cow::Owned(path.into_owned() + &query),
    }
}

/// A URL without its credentials; what [`target`] masks is masked.
#[must_use]
pub fn url(url: &str) -> String {
    let (scheme, rest) = match (url.split_once("://"), url.strip_prefix("//")) {
        (_, Some(rest)) => ("//".to_owned(), rest),
        (Some((scheme, rest)), None) => (format!("{scheme}://"), rest),
        (None, None) => return target(url).into_owned(),
    };
    let (authority, path) = rest.split_at(end_of_authority(rest));
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    format!("{scheme}{host}{}", target(path))
}

/// The list of a WebSocket's subprotocols. Browsers cannot set headers, so their clients send
/// tokens in this one: Kubernetes' behind `base64url.bearer.authorization.k8s.io.`, others behind a
/// member that says so. Everything from the first member that looks like one is masked.
fn subprotocols(value: &str) -> Cow<'_, str> {
    let members = value.split(',').map(str::trim);
    let shown: Vec<&str> = members
        .clone()
        .take_while(|it| !is_secret_member(it))
        .collect();
    if shown.len() == members.count() {
        return Cow::Borrowed(value);
    }
    Cow::Owned([shown.as_slice(), &[MASK]].concat().join(", "))
}

fn is_secret_member(member: &str) -> bool {
    let name = member.to_ascii_lowercase();
    member.len() > LONGEST_SUBPROTOCOL
        || is_secret_word(&name)
        || name.contains("bearer")
        || name.contains("auth")
        || holds_token(member)
}

/// Whether a text holds a token, a URL with a user, or a query with a secret parameter, however often
/// it was escaped: a page to go back to is a parameter of the next one.
fn holds_secret(text: &str) -> bool {
    let mut text = Cow::Borrowed(text);
    for _ in 0..ESCAPES {
        if holds_token(&text) || names_user(&text) || has_secret_parameter(&text) {
            return true;
        }
        match unescaped(&text) {
            Some(plain) => text = Cow::Owned(plain),
            None => return false,
        }
    }
    // More layers only occur in attempts to hide a secret.
    true
}

/// The text with one layer of escapes removed; `None` if it has none.
fn unescaped(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    let mut found = false;
    for piece in pieces {
        let is_escape = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let digits = piece.get(..2).filter(is_escape);
        let rest = if let Some(Ok(byte)) = digits.map(|digits| u8::from_str_radix(digits, 16)) {
            found = true;
            bytes.push(byte);
            piece.split_at(2).1
        } else {
            bytes.push(b'%');
            piece
        };
        bytes.extend_from_slice(rest.as_bytes());
    }
    found.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether there is a URL in a text that names a user, and mostly a password.
fn names_user(text: &str) -> bool {
    let authorities = text.split("//").skip(1);
    authorities
        .map(|rest| rest.split_at(end_of_authority(rest)).0)
        .any(|authority| authority.contains('@') && !authority.contains(char::is_whitespace))
}

fn end_of_authority(rest: &str) -> usize {
    rest.find(['/', '?', '#']).unwrap_or(rest.len())
}

/// Whether there is a query or a fragment in a text that has a secret parameter.
fn has_secret_parameter(text: &str) -> bool {
    let Some((_, query)) = text.split_once(['?', '#']) else {
        return false;
    };
    let mut parameters = query.split(['?', '&', '#', ';']);
    parameters.any(|pair| {
        let named = pair.split_once('=');
        named.is_some_and(|(name, _)| is_secret_parameter(name))
    })
}

/// A text with the values of its secret parts masked.
fn masked<'a>(text: &'a str, separators: &[char]) -> Cow<'a, str> {
    let is_secret = |part: &str| match part.split_once('=') {
        Some((name, value)) => is_secret_parameter(name) || holds_secret(value),
        None => holds_secret(part),
    };
    if !text.split(separators).any(is_secret) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(separators) {
        let bare = part.trim_end_matches(separators);
        match bare.split_once('=') {
            _ if !is_secret(bare) => shown.push_str(bare),
            Some((name, _)) if !holds_secret(name) => shown.extend([name, "=", MASK]),
            _ => shown.push_str(MASK),
        }
        shown.push_str(&part[bare.len()..]);
    }
    Cow::Owned(shown)
}

/// Separators between segments of a path and their parameters (`;jsessionid=`), and before its
/// query.
const IN_PATH: [char; 4] = ['/', ';', '?', '#'];

/// Separators between parameters, and between a query and a fragment. A further `?` is data.
const IN_QUERY: [char; 3] = ['&', ';', '#'];

/// Layers of escapes that are looked under.
const ESCAPES: usize = 4;

/// Maximum length in bytes of a subprotocol that is shown: registered ones are shorter.
const LONGEST_SUBPROTOCOL: usize = 40;

fn is_secret_parameter(name: &str) -> bool {
    // An escaped name could be any of them.
    name.contains('%')
        || PARAMETERS.iter().any(|it| it.eq_ignore_ascii_case(name))
        || is_secret_word(name)
}

/// Whether a name implies that its value is a secret.
fn is_secret_word(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

const SUBPROTOCOLS: &str = "sec-websocket-protocol";

const HEADERS: [&str; 3] = ["authentication", "x-auth", "x-forwarded-client-cert"];

const PARAMETERS: [&str; 11] = [
    "code",
    "key",
    "sig",
    "sid",
    "auth",
    "pass",
    "pwd",
    "otp",
    "ticket",
    "samlresponse",
    "samlrequest",
];

const WORDS: [&str; 19] = [
    "token",
    "secret",
    "passw",
    "api-key",
    "api_key",
    "apikey",
    "auth-key",
    "access-key",
    "access_key",
    "accesskey",
    "private-key",
    "functions-key",
    "session",
    "signature",
    "credential",
    "subscription-key",
    "authorization",
    "cookie",
    "jwt",
];

/// Headers that name a page.
const URLS: [&str; 7] = [
    "referer",
    "location",
    "content-location",
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-forwarded-uri",
];

#[cfg(test)]
mod tests;
