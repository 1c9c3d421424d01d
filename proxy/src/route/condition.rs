//! What a candidate demands beyond host and path prefix: method, headers, query parameters and a
//! regular expression for the path. All of it must hold.

use http::{HeaderName, Method};
use xds::model::{HttpMatch, PathMatch, StringMatch};

use super::pattern::{PatternId, PatternSet, Patterns, RegexCache};
use super::query;
use super::request::{HeaderLookup, RequestView};

/// The first demand of a candidate that a request does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch<'r> {
    /// None of its hosts covers the request's.
    Host,
    /// Neither exact path, prefix nor regular expression covers the path.
    Path,
    /// Another method.
    Method(&'r Method),
    /// No such header.
    HeaderMissing(&'r HeaderName),
    /// The header has another value.
    HeaderValue(&'r HeaderName),
    /// No such query parameter.
    QueryMissing(&'r str),
    /// The query parameter has another value.
    QueryValue(&'r str),
}

/// The demands of one match, cheap ones first.
#[derive(Debug)]
pub(super) struct Conditions {
    method: Option<Method>,
    headers: Box<[(HeaderName, ValueTest)]>,
    query: Box<[(Box<str>, ValueTest)]>,
    path: Option<PatternId>,
}

impl Conditions {
    /// The demands of a match; `None` where host and path say it all.
    pub(super) fn compile<'a>(
        matches: &'a HttpMatch,
        patterns: &mut PatternSet<'a>,
    ) -> Option<Self> {
        let path = match &matches.path {
            PathMatch::Exact(_) | PathMatch::Prefix(_) => None,
            PathMatch::Regex(pattern) => Some(patterns.add(pattern)),
        };
        let plain = matches.headers.is_empty() && matches.query.is_empty();
        if plain && matches.method.is_none() && path.is_none() {
            return None;
        }
        let header = |test: &'a xds::model::HeaderMatch| test.name.clone();
        Some(Self {
            method: matches.method.clone(),
            headers: matches
                .headers
                .iter()
                .map(|test| (header(test), ValueTest::compile(&test.value, patterns)))
                .collect(),
            query: matches
                .query
                .iter()
                .map(|test| {
                    let value = ValueTest::compile(&test.value, patterns);
                    (test.name.as_str().into(), value)
                })
                .collect(),
            path,
        })
    }

    /// Whether a request meets all of them.
    pub(super) fn check<H: HeaderLookup>(
        &self,
        request: &RequestView<'_, H>,
        patterns: &Patterns,
        cache: &mut RegexCache,
    ) -> Result<(), Mismatch<'_>> {
        if let Some(method) = &self.method
            && method.as_str().as_bytes() != request.method
        {
            return Err(Mismatch::Method(method));
        }
        for (name, test) in &self.headers {
            test.check_header(request.headers, name, patterns, cache)?;
        }
        for (name, test) in &self.query {
            test.check_query(request.query, name, patterns, cache)?;
        }
        match self.path {
            Some(pattern) if !patterns.is_match(pattern, request.path, cache) => {
                Err(Mismatch::Path)
            }
            _ => Ok(()),
        }
    }
}

/// What a value must be.
#[derive(Debug)]
enum ValueTest {
    Exact(Box<[u8]>),
    Regex(PatternId),
}

impl ValueTest {
    fn compile<'a>(value: &'a StringMatch, patterns: &mut PatternSet<'a>) -> Self {
        match value {
            StringMatch::Exact(text) => Self::Exact(text.as_bytes().into()),
            StringMatch::Regex(pattern) => Self::Regex(patterns.add(pattern)),
        }
    }

    /// Several lines of one name are one value, joined by commas (RFC 9110 section 5.3).
    fn check_header<'r>(
        &self,
        headers: &impl HeaderLookup,
        name: &'r HeaderName,
        patterns: &Patterns,
        cache: &mut RegexCache,
    ) -> Result<(), Mismatch<'r>> {
        let mut lines = headers.values(name);
        let first = lines.next().ok_or(Mismatch::HeaderMissing(name))?;
        let mut more = lines.flat_map(|line| [b",".as_slice(), line]);
        let matches = match (self, more.next()) {
            (Self::Exact(text), None) => **text == *first,
            (Self::Regex(id), None) => patterns.is_match(*id, first, cache),
            (Self::Exact(text), Some(second)) => {
                let parts = [first, second].into_iter().chain(more);
                is_made_of(text, parts)
            }
            (Self::Regex(id), Some(second)) => {
                let parts = [first, second].into_iter().chain(more);
                patterns.is_match_of(*id, parts.flatten().copied(), cache)
            }
        };
        matches.then_some(()).ok_or(Mismatch::HeaderValue(name))
    }

    fn check_query<'r>(
        &self,
        query: Option<&[u8]>,
        name: &'r str,
        patterns: &Patterns,
        cache: &mut RegexCache,
    ) -> Result<(), Mismatch<'r>> {
        let raw = query
            .and_then(|query| query::first(query, name.as_bytes()))
            .ok_or(Mismatch::QueryMissing(name))?;
        let matches = match self {
            Self::Exact(text) => query::equals(raw, text),
            Self::Regex(id) if query::is_plain(raw) => patterns.is_match(*id, raw, cache),
            Self::Regex(id) => patterns.is_match_of(*id, query::decoded(raw), cache),
        };
        matches.then_some(()).ok_or(Mismatch::QueryValue(name))
    }
}

/// Whether the parts in a row are the text.
fn is_made_of<'t>(text: &[u8], mut parts: impl Iterator<Item = &'t [u8]>) -> bool {
    parts
        .try_fold(text, |rest, part| rest.strip_prefix(part))
        .is_some_and(<[u8]>::is_empty)
}
