//! Matches of an HTTP rule.

use http::{HeaderName, Method};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::json;
use super::pattern::Pattern;
use crate::secret;

/// A path that cannot be matched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the path `{0}` must start with `/`, contain only characters of a URI path, and no `//`, `/./`, \
     `/../`, `%2f` or `%00`"
)]
pub struct InvalidPath(pub String);

/// How a rule matches the path. Build through the constructors, which normalise the path like
/// request paths: `/a%62%c3%a9` is `/ab%C3%A9`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "type", content = "value")]
pub enum PathMatch {
    /// The whole path, case-sensitive.
    Exact(Box<str>),
    /// Whole leading segments; no trailing slash, so `/` is the empty text.
    #[serde(rename = "PathPrefix", serialize_with = "prefix")]
    Prefix(Box<str>),
    /// The whole path against a pattern.
    #[serde(rename = "RegularExpression")]
    Regex(Pattern),
}

impl PathMatch {
    /// Matches exactly this path.
    ///
    /// # Errors
    ///
    /// The path is not valid in a match.
    pub fn exact(path: &str) -> Result<Self, InvalidPath> {
        normal_path(path).map(|path| Self::Exact(path.into()))
    }

    /// Matches every path.
    #[must_use]
    pub fn everything() -> Self {
        Self::Prefix("".into())
    }

    /// Matches these leading segments; a trailing slash is ignored.
    ///
    /// # Errors
    ///
    /// The path is not valid in a match.
    pub fn prefix(path: &str) -> Result<Self, InvalidPath> {
        let mut path = normal_path(path)?;
        if path.ends_with('/') {
            path.pop();
        }
        Ok(Self::Prefix(path.into()))
    }
}

/// The rules of Gateway API's `HTTPPathMatch`: paths that a normalised request path never equals
/// are rejected, so that a rule which cannot match does not go unnoticed.
fn normal_path(path: &str) -> Result<String, InvalidPath> {
    let invalid = || InvalidPath(path.to_owned());
    if !path.starts_with('/') || !is_uri_path(path) {
        return Err(invalid());
    }
    // Checked in normal form: an escaped dot is a dot.
    let normal = normal_escapes(path);
    let unreachable = ["//", "/./", "/../", "%2F", "%00"]
        .iter()
        .any(|part| normal.contains(part))
        || normal.ends_with("/.")
        || normal.ends_with("/..");
    if unreachable {
        Err(invalid())
    } else {
        Ok(normal)
    }
}

/// Unescapes unreserved characters and upper-cases the other escapes (RFC 3986 section 6.2.2), in a
/// path with valid escapes.
fn normal_escapes(path: &str) -> String {
    let mut parts = path.split('%');
    let mut normal = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        match u8::from_str_radix(digits, 16) {
            Ok(byte) if is_unreserved(byte) => normal.push(char::from(byte)),
            _ => {
                normal.push('%');
                normal.push_str(&digits.to_ascii_uppercase());
            }
        }
        normal.push_str(rest);
    }
    normal
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Whether a text consists of RFC 3986 `pchar` and `/`, with valid percent escapes.
pub(super) fn is_uri_path(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&b);
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest
            }
            [byte, rest @ ..] if plain(*byte) => rest,
            _ => return false,
        };
    }
}

/// How the value of a header or query parameter is matched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StringMatch {
    /// Equal, byte for byte.
    Exact(Box<str>),
    /// The whole value against a pattern.
    Regex(Pattern),
}

/// A header that must be present with this value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderMatch {
    /// Name, case-insensitive. Several lines are matched joined by `,`.
    pub name: HeaderName,
    /// Matches the field value.
    pub value: StringMatch,
}

/// A query parameter that must be present with this value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryMatch {
    /// Name, compared exactly. Only the first occurrence is matched.
    pub name: String,
    /// Matches the parameter's value.
    pub value: StringMatch,
}

impl Serialize for HeaderMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, value } = self;
        serialize_match(name.as_str(), value, serializer)
    }
}

impl Serialize for QueryMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, value } = self;
        serialize_match(name, value, serializer)
    }
}

/// A match of a value, masked where it is secret: a rule that matches an API key contains it.
fn serialize_match<S: Serializer>(
    name: &str,
    value: &StringMatch,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let (kind, value) = match value {
        StringMatch::Exact(value) => ("Exact", &**value),
        StringMatch::Regex(pattern) => ("RegularExpression", pattern.as_str()),
    };
    let mut map = serializer.serialize_map(Some(3))?;
    map.serialize_entry("name", name)?;
    map.serialize_entry("type", kind)?;
    map.serialize_entry("value", &secret::header_value(name, value))?;
    map.end()
}

/// A prefix as Gateway API writes it.
fn prefix<S: Serializer>(prefix: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if prefix.is_empty() { "/" } else { prefix })
}

/// One match of a rule: all its parts must match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HttpMatch {
    /// Matches the normalised path.
    pub path: PathMatch,
    /// Method; `None` means any.
    #[serde(
        serialize_with = "json::optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub method: Option<Method>,
    /// Headers, all of which must match; at most one entry per name.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub headers: Box<[HeaderMatch]>,
    /// Query parameters, all of which must match; at most one entry per name.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub query: Box<[QueryMatch]>,
}

impl HttpMatch {
    /// Matches every request.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            path: PathMatch::everything(),
            method: None,
            headers: Box::default(),
            query: Box::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PathMatch;

    #[test]
    fn the_trailing_slash_of_a_prefix_is_ignored() {
        for (path, prefix) in [("/", ""), ("/a", "/a"), ("/a/", "/a"), ("/a/b", "/a/b")] {
            assert_eq!(
                PathMatch::prefix(path),
                Ok(PathMatch::Prefix(prefix.into()))
            );
        }
        assert_eq!(PathMatch::exact("/a/"), Ok(PathMatch::Exact("/a/".into())));
    }

    #[test]
    fn paths_of_matches_are_normalised() {
        for (path, normal) in [
            ("/a%62", "/ab"),
            ("/%7Euser%2D%5f", "/~user-_"),
            ("/%c3%a9", "/%C3%A9"),
            ("/%2562", "/%2562"),
            ("/a%20b%3a", "/a%20b%3A"),
            ("/a/%2Eb", "/a/.b"),
        ] {
            assert_eq!(PathMatch::exact(path), Ok(PathMatch::Exact(normal.into())));
            assert_eq!(
                PathMatch::prefix(&format!("{path}/")),
                Ok(PathMatch::Prefix(normal.into()))
            );
        }
    }

    #[test]
    fn paths_of_matches_are_validated_as_in_gateway_api() {
        for path in ["/", "/a.b/..c", "/%7euser", "/a:b@c,d;e=f", "/a/.b"] {
            assert!(PathMatch::exact(path).is_ok(), "{path}");
        }
        let bad = [
            "",
            "a",
            "//",
            "/a//b",
            "/./a",
            "/a/../b",
            "/a/.",
            "/a/..",
            "/a%2Fb",
            "/a%2fb",
            "/a?b",
            "/a/%2e%2E/b",
            "/a/.%2e",
            "/%2e",
            "/a%00",
            "/a#b",
            "/a b",
            "/%",
            "/%4",
            "/%zz",
            "/\u{e9}",
            "/a\r\n",
            "/<a>",
        ];
        for path in bad {
            assert!(PathMatch::exact(path).is_err(), "{path}");
            assert!(PathMatch::prefix(path).is_err(), "{path}");
        }
    }
}
