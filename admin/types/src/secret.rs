//! What must not be shown of headers and of queries.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What stands in the place of a secret.
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
    let names_a_page = URLS.iter().any(|it| it.eq_ignore_ascii_case(name));
    let shown = if names_a_page {
        Cow::Owned(url(value))
    } else {
        Cow::Borrowed(value)
    };
    if holds_token(&shown) {
        return Cow::Borrowed(MASK);
    }
    shown
}

/// A path with its query and fragment; values of parameters that carry credentials are masked.
#[must_use]
pub fn target(target: &str) -> Cow<'_, str> {
    let Some(start) = target.find(['?', '#']) else {
        return Cow::Borrowed(target);
    };
    let (path, parts) = target.split_at(start + 1);
    if !parts.split(PARTS).any(is_secret_pair) {
        return Cow::Borrowed(target);
    }
    let mut shown = path.to_owned();
    for part in parts.split_inclusive(PARTS) {
        let (pair, separator) = match part.char_indices().next_back() {
            Some((at, last)) if PARTS.contains(&last) => part.split_at(at),
            _ => (part, ""),
        };
        match pair.split_once('=') {
            Some((name, _)) if is_secret_pair(pair) => shown.extend([name, "=", MASK]),
            _ => shown.push_str(pair),
        }
        shown.push_str(separator);
    }
    Cow::Owned(shown)
}

fn is_secret_pair(pair: &str) -> bool {
    let named = pair.split_once('=');
    named.is_some_and(|(name, value)| is_secret_parameter(name) || holds_token(value))
}

/// What is between parameters, and between a query and a fragment. A further `?` is data.
const PARTS: [char; 2] = ['&', '#'];

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

/// Whether there is a signed token (RFC 7515 section 7.1) among the words of a value: three parts of
/// base64url, of which the first begins as every JSON object with a member does.
fn holds_token(value: &str) -> bool {
    let mut words = value.split(|c: char| !is_base64url(c) && c != '.');
    words.any(|word| {
        let mut parts = word.split('.');
        parts.next().is_some_and(is_object) && parts.count() + 1 >= TOKEN_PARTS
    })
}

/// Whether base64url stands for `{"…`, with white space wherever JSON allows it.
fn is_object(part: &str) -> bool {
    let whole = part.get(..part.len() / 4 * 4).unwrap_or_default();
    let json = URL_SAFE_NO_PAD.decode(whole).unwrap_or_default();
    let json = json.trim_ascii_start().strip_prefix(b"{");
    json.is_some_and(|members| members.trim_ascii_start().starts_with(b"\""))
}

fn is_base64url(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Header, payload, signature; one that is encrypted has five.
const TOKEN_PARTS: usize = 3;

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

const HEADERS: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "authentication",
    "x-auth",
    "cookie",
    "set-cookie",
    "x-forwarded-client-cert",
];

const PARAMETERS: [&str; 6] = ["code", "key", "sig", "signature", "jwt", "sid"];

const WORDS: [&str; 10] = [
    "token",
    "secret",
    "passw",
    "api-key",
    "api_key",
    "apikey",
    "session",
    "signature",
    "credential",
    "subscription-key",
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
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::{MASK, header_value, target, url};

    #[test]
    fn credentials_are_masked() {
        for name in [
            "Authorization",
            "cookie",
            "X-Api-Key",
            "x-auth-token",
            "X-Session-Id",
            "Ocp-Apim-Subscription-Key",
            "X-Hub-Signature-256",
            "Authentication",
        ] {
            assert_eq!(header_value(name, "v"), MASK, "{name}");
        }
        for name in ["accept", "host", "x-request-id", "content-length"] {
            assert_eq!(header_value(name, "v"), "v", "{name}");
        }
    }

    #[test]
    fn headers_that_name_a_page_are_shown_without_its_credentials() {
        for (name, value, shown) in [
            (
                "Location",
                "https://a.test/back?code=x&state=y#access_token=z&n=1",
                "https://a.test/back?code=***&state=y#access_token=***&n=1",
            ),
            ("referer", "http://me:hush@a.test/", "http://a.test/"),
            ("X-Original-Url", "/a?sig=x", "/a?sig=***"),
            ("location", "/a?b=c#d", "/a?b=c#d"),
        ] {
            assert_eq!(header_value(name, value), shown);
        }
    }

    #[test]
    fn tokens_are_masked_wherever_they_are() {
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln";
        for value in [
            token.to_owned(),
            format!("JWT {token}"),
            format!("a;b=\"{token}\""),
        ] {
            assert_eq!(header_value("x-who", &value), MASK, "{value}");
        }
        assert_eq!(target(&format!("/a?who={token}&b=c")), "/a?who=***&b=c");
        // White space is as good as none.
        for head in [
            "{ \"alg\": \"none\"}",
            "{\n\t\"alg\":\"none\"}",
            " {\"alg\":\"none\"}",
        ] {
            let token = format!("{}.e30.c2ln", URL_SAFE_NO_PAD.encode(head));
            assert_eq!(header_value("x-who", &token), MASK, "{head}");
        }
        for value in [
            "eyJhbGciOiJSUzI1NiJ9",
            "a.b.c",
            "1.2.3",
            "eyJ.x",
            "edge.example.com",
            "ex.shop.example",
        ] {
            assert_eq!(header_value("x-who", value), value);
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
            (
                "/a?b=c&X-Amz-Signature=x&X-Amz-Credential=y",
                "/a?b=c&X-Amz-Signature=***&X-Amz-Credential=***",
            ),
            ("/a#id_token=x", "/a#id_token=***"),
            ("/a?token=x?y&b=c", "/a?token=***&b=c"),
        ] {
            assert_eq!(target(text), shown);
        }
    }
}
