//! What an HTTP rule matches.

use std::fmt;

use http::{HeaderName, Method};
use regex_automata::meta;
use thiserror::Error;

/// A regular expression known to compile, anchored at both ends when matched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(String);

/// Why a text is no [`Pattern`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPattern {
    /// Longer than [`Pattern::MAX_BYTES`].
    #[error("the regular expression is {0} bytes long, {max} at most", max = Pattern::MAX_BYTES)]
    TooLong(usize),
    /// Does not compile, or compiles to more than [`Pattern::MAX_COMPILED_BYTES`].
    #[error("the regular expression does not compile: {0}")]
    Syntax(String),
}

impl Pattern {
    /// The longest source we accept: long ones are mistakes, and cost memory in every shard.
    pub const MAX_BYTES: usize = 1024;
    /// The largest compiled form (1 MiB), against `a{1000}{1000}`.
    pub const MAX_COMPILED_BYTES: usize = 1 << 20;

    /// Checks length and syntax (the `regex` crate's, so linear time and no look-around).
    ///
    /// # Errors
    /// The text is too long, or does not compile.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidPattern::TooLong(text.len()));
        }
        let pattern = Self(text.to_owned());
        pattern
            .compile()
            .map_err(|error| InvalidPattern::Syntax(explain(&error)))?;
        Ok(pattern)
    }

    /// The source as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compiles it, anchored at both ends.
    ///
    /// # Errors
    /// The source does not compile; [`Pattern::parse`] rules that out.
    pub fn compile(&self) -> Result<meta::Regex, Box<meta::BuildError>> {
        meta::Regex::builder()
            .configure(meta::Config::new().nfa_size_limit(Some(Self::MAX_COMPILED_BYTES)))
            .build(&format!("^(?:{})$", self.0))
            .map_err(Box::new)
    }
}

/// Why a pattern does not compile, in one line: the parser draws a picture and ends with the reason.
fn explain(error: &meta::BuildError) -> String {
    if error.size_limit().is_some() {
        return format!(
            "it compiles to more than {} bytes",
            Pattern::MAX_COMPILED_BYTES
        );
    }
    let text = error
        .syntax_error()
        .map_or_else(|| error.to_string(), ToString::to_string);
    let reason = text.lines().last().unwrap_or_default();
    reason.trim_start_matches("error: ").to_owned()
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a path cannot be matched on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the path `{0}` must start with `/` and have no `//`, `/./`, `/../`, `%2f`, `#`, `?`")]
pub struct InvalidPath(pub String);

/// How a rule matches the path. Build through the constructors.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathMatch {
    /// The whole path, case-sensitive.
    Exact(String),
    /// Leading whole segments; no trailing slash, so `/` is the empty text.
    Prefix(String),
    /// The whole path against a pattern.
    Regex(Pattern),
}

impl PathMatch {
    /// Matches exactly this path.
    ///
    /// # Errors
    /// No valid path of a match.
    pub fn exact(path: &str) -> Result<Self, InvalidPath> {
        check_path(path).map(|()| Self::Exact(path.to_owned()))
    }

    /// Matches these leading segments; a trailing slash means nothing.
    ///
    /// # Errors
    /// No valid path of a match.
    pub fn prefix(path: &str) -> Result<Self, InvalidPath> {
        check_path(path)?;
        Ok(Self::Prefix(
            path.strip_suffix('/').unwrap_or(path).to_owned(),
        ))
    }
}

fn check_path(path: &str) -> Result<(), InvalidPath> {
    let lower = path.to_ascii_lowercase();
    let bad = ["//", "/./", "/../", "%2f", "#", "?"]
        .iter()
        .any(|part| lower.contains(part))
        || lower.ends_with("/.")
        || lower.ends_with("/..")
        || !path.bytes().all(|b| b.is_ascii_graphic());
    if path.starts_with('/') && !bad {
        Ok(())
    } else {
        Err(InvalidPath(path.to_owned()))
    }
}

/// How a header's or a query parameter's value is matched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StringMatch {
    /// Equal, byte for byte.
    Exact(String),
    /// The whole value against a pattern.
    Regex(Pattern),
}

/// A header that must be there with this value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderMatch {
    /// Name, compared without case. Several lines of it are matched joined by `,`.
    pub name: HeaderName,
    /// Value.
    pub value: StringMatch,
}

/// A query parameter that must be there with this value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryMatch {
    /// Name, compared exactly. Only its first occurrence counts.
    pub name: String,
    /// Value.
    pub value: StringMatch,
}

/// One match of a rule: all of its parts must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpMatch {
    /// Path.
    pub path: PathMatch,
    /// Method; `None` means any.
    pub method: Option<Method>,
    /// Headers, all of them; at most one entry a name.
    pub headers: Vec<HeaderMatch>,
    /// Query parameters, all of them; at most one entry a name.
    pub query: Vec<QueryMatch>,
}
