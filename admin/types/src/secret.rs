//! What must not be shown of headers and of queries.

use std::borrow::Cow;

/// What stands in the place of a secret.
pub const MASK: &str = "***";

/// Whether the values of a header are secrets: credentials, sessions, keys. Compared without case.
#[must_use]
pub fn is_secret_header(name: &str) -> bool {
    HEADERS.iter().any(|it| it.eq_ignore_ascii_case(name)) || is_secret_word(name)
}

/// The value of a header, or [`MASK`].
#[must_use]
pub fn header_value<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret_header(name) { MASK } else { value }
}

/// A path and its query; values of parameters that carry credentials are masked.
#[must_use]
pub fn target(target: &str) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else {
        return Cow::Borrowed(target);
    };
    let secret = |pair: &str| {
        pair.split_once('=')
            .is_some_and(|(name, _)| is_secret_parameter(name))
    };
    if !query.split('&').any(secret) {
        return Cow::Borrowed(target);
    }
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret_parameter(name) => Cow::Owned(format!("{name}={MASK}")),
        _ => Cow::Borrowed(pair),
    });
    let pairs: Vec<_> = pairs.collect();
    Cow::Owned(format!("{path}?{}", pairs.join("&")))
}

/// A URL without its credentials; values of parameters that carry some are masked.
#[must_use]
pub fn url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return target(url).into_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{}", target(path))
}

fn is_secret_parameter(name: &str) -> bool {
    // An escaped name could be any of them.
    name.contains('%')
        || PARAMETERS.iter().any(|it| it.eq_ignore_ascii_case(name))
        || is_secret_word(name)
}

/// Whether a name says itself that its value is a secret.
fn is_secret_word(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

const HEADERS: [&str; 5] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-forwarded-client-cert",
];

const PARAMETERS: [&str; 6] = ["code", "key", "sig", "signature", "jwt", "sid"];

const WORDS: [&str; 7] = [
    "token", "secret", "passw", "api-key", "api_key", "apikey", "session",
];

#[cfg(test)]
mod tests {
    use super::{MASK, header_value, target, url};

    #[test]
    fn credentials_are_masked() {
        for name in [
            "Authorization",
            "cookie",
            "X-Api-Key",
            "x-auth-token",
            "X-Session-Id",
        ] {
            assert_eq!(header_value(name, "v"), MASK, "{name}");
        }
        for name in ["accept", "host", "x-request-id", "content-length"] {
            assert_eq!(header_value(name, "v"), "v", "{name}");
        }
    }

    #[test]
    fn urls_are_shown_without_credentials() {
        for (text, shown) in [
            ("https://a.test/keys", "https://a.test/keys"),
            (
                "https://me:hush@a.test/keys?token=x",
                "https://a.test/keys?token=***",
            ),
            ("https://a.test?a=@b", "https://a.test?a=@b"),
        ] {
            assert_eq!(url(text), shown);
        }
    }

    #[test]
    fn parameters_that_carry_credentials_are_masked() {
        for (text, shown) in [
            ("/a", "/a"),
            ("/a?b=c&d", "/a?b=c&d"),
            ("/a?access_token=x&b=c", "/a?access_token=***&b=c"),
            ("/a?b=c&API_KEY=x=y", "/a?b=c&API_KEY=***"),
            ("/a?%74oken=x", "/a?%74oken=***"),
            ("/a?token", "/a?token"),
        ] {
            assert_eq!(target(text), shown);
        }
    }
}
