//! The path by which a load balancer asks whether a proxy takes requests.

use serde::Serialize;
use thiserror::Error;

/// A path in its normal form, so that it equals that of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct HealthPath(Box<str>);

/// Why a text is not a health path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidHealthPath {
    /// Longer than [`HealthPath::MAX_BYTES`].
    #[error(
        "it has more than {} characters: use a shorter path",
        HealthPath::MAX_BYTES
    )]
    TooLong,
    /// It does not begin with a slash.
    #[error("it does not begin with a slash: write a path such as /healthz")]
    NoSlash,
    /// A character that paths have in another form, or that ends a path.
    #[error("it has `{0}`: use letters, digits, slashes and -._~!$&'()*+,;=:@, without a query")]
    Character(char),
    /// An empty segment, `.` or `..`, which requests lose before they are compared.
    #[error("it has a segment that is empty, `.` or `..`, which no request keeps: leave it out")]
    Segment,
}

impl HealthPath {
    /// Most bytes of a path.
    pub const MAX_BYTES: usize = 1_024;

    /// Parses a path.
    ///
    /// # Errors
    ///
    /// No request could have it, or it is not a path.
    pub fn parse(text: &str) -> Result<Self, InvalidHealthPath> {
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidHealthPath::TooLong);
        }
        let segments = text.strip_prefix('/').ok_or(InvalidHealthPath::NoSlash)?;
        let is_allowed = |it: &char| it.is_ascii_alphanumeric() || MARKS.contains(*it);
        if let Some(character) = text.chars().find(|it| !is_allowed(it)) {
            return Err(InvalidHealthPath::Character(character));
        }
        // A final slash is kept.
        let whole = segments.strip_suffix('/').unwrap_or(segments);
        let is_lost = |segment: &str| matches!(segment, "" | "." | "..");
        if !segments.is_empty() && whole.split('/').any(is_lost) {
            return Err(InvalidHealthPath::Segment);
        }
        Ok(Self(text.into()))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a path may have besides letters and digits (RFC 3986 section 3.3), without percent-encoding.
const MARKS: &str = "/-._~!$&'()*+,;=:@";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_that_requests_can_have() {
        for path in ["/", "/healthz", "/.well-known/ready", "/a/b/", "/a...b/(c)"] {
            assert_eq!(
                HealthPath::parse(path).map(|it| it.0.to_string()),
                Ok(path.to_owned())
            );
        }
        for (path, expected) in [
            ("", InvalidHealthPath::NoSlash),
            ("healthz", InvalidHealthPath::NoSlash),
            ("/a?b", InvalidHealthPath::Character('?')),
            ("/a b", InvalidHealthPath::Character(' ')),
            ("/%61", InvalidHealthPath::Character('%')),
            ("/\u{e4}", InvalidHealthPath::Character('\u{e4}')),
            ("//", InvalidHealthPath::Segment),
            ("/a//b", InvalidHealthPath::Segment),
            ("/a/../b", InvalidHealthPath::Segment),
            ("/a/.", InvalidHealthPath::Segment),
        ] {
            assert_eq!(HealthPath::parse(path), Err(expected), "{path}");
        }
        let long = format!("/{}", "a".repeat(HealthPath::MAX_BYTES));
        assert_eq!(HealthPath::parse(&long), Err(InvalidHealthPath::TooLong));
    }
}
