//! Checks one request against conditions.

use http::HeaderName;
use xds::model::WorkExceeded;

use super::condition::{Condition, Mismatch, NameId, ValueTest};
use super::pattern::{Patterns, RegexCache};
use super::query;
use super::request::{HeaderLookup, RequestView};

/// A request, and the state for checking the conditions of a router.
pub(super) struct Matcher<'a, 'r, H> {
    request: &'a RequestView<'a, H>,
    names: &'r [HeaderName],
    patterns: &'r Patterns,
    cache: &'a mut RegexCache,
    /// The last header looked up: candidates of one path mostly use the same one.
    recent: Option<(NameId, Lines<'a>)>,
}

/// The lines of one header.
#[derive(Clone, Copy)]
enum Lines<'a> {
    None,
    One(&'a [u8]),
    Many,
}

impl<'a, 'r: 'a, H: HeaderLookup> Matcher<'a, 'r, H> {
    /// A matcher for one request.
    pub(super) fn new(
        request: &'a RequestView<'a, H>,
        names: &'r [HeaderName],
        patterns: &'r Patterns,
        cache: &'a mut RegexCache,
    ) -> Self {
        Self {
            request,
            names,
            patterns,
            cache,
            recent: None,
        }
    }

    /// Whether the request meets the condition.
    pub(super) fn check(&mut self, condition: &'r Condition) -> Result<(), Mismatch<'r>> {
        match condition {
            Condition::Method(method) => {
                let is_same = method.as_str().as_bytes() == self.request.method;
                is_same.then_some(()).ok_or(Mismatch::Method(method))
            }
            Condition::Header(id, test) => {
                let name = &self.names[id.place()];
                let is_met = self.header(*id, name, test)?;
                let is_met = is_met.ok_or(Mismatch::HeaderMissing(name))?;
                is_met.then_some(()).ok_or(Mismatch::HeaderValue(name))
            }
            Condition::Query(parameter) => {
                let (name, test) = &**parameter;
                let is_met = self.parameter(name, test)?;
                let is_met = is_met.ok_or(Mismatch::QueryMissing(name))?;
                is_met.then_some(()).ok_or(Mismatch::QueryValue(name))
            }
            Condition::Path(pattern) => {
                let path = self.request.path;
                let is_match = self.patterns.is_match(*pattern, path, self.cache)?;
                is_match.then_some(()).ok_or(Mismatch::Path)
            }
        }
    }

    /// Whether a header has the value; `None` if absent. Several lines are one value, joined by
    /// commas (RFC 9110 section 5.3).
    fn header(
        &mut self,
        id: NameId,
        name: &'r HeaderName,
        test: &ValueTest,
    ) -> Result<Option<bool>, WorkExceeded> {
        let is_met = match (self.lines(id, name), test) {
            (Lines::None, _) => return Ok(None),
            (Lines::One(value), ValueTest::Exact(expected)) => *value == **expected,
            (Lines::One(value), ValueTest::Regex(pattern)) => {
                self.patterns.is_match(*pattern, value, self.cache)?
            }
            (Lines::Many, ValueTest::Exact(expected)) => {
                let value = joined(self.request.headers, name);
                value.eq(expected.iter().copied())
            }
            (Lines::Many, ValueTest::Regex(pattern)) => {
                let value = joined(self.request.headers, name);
                self.patterns.is_match_of(*pattern, value, self.cache)?
            }
        };
        Ok(Some(is_met))
    }

    fn lines(&mut self, id: NameId, name: &'r HeaderName) -> Lines<'a> {
        if let Some((recent, lines)) = self.recent
            && recent == id
        {
            return lines;
        }
        let mut values = self.request.headers.values(name);
        let lines = match (values.next(), values.next()) {
            (None, _) => Lines::None,
            (Some(value), None) => Lines::One(value),
            (Some(_), Some(_)) => Lines::Many,
        };
        self.recent = Some((id, lines));
        lines
    }

    /// Whether the first parameter of this name has the value; `None` if absent.
    fn parameter(&mut self, name: &str, test: &ValueTest) -> Result<Option<bool>, WorkExceeded> {
        let query = self.request.query;
        let Some(raw) = query.and_then(|query| query::first(query, name.as_bytes())) else {
            return Ok(None);
        };
        let is_met = match test {
            ValueTest::Exact(expected) => query::equals(raw, expected),
            ValueTest::Regex(pattern) if query::is_plain(raw) => {
                self.patterns.is_match(*pattern, raw, self.cache)?
            }
            ValueTest::Regex(pattern) => {
                let value = query::decoded(raw);
                self.patterns.is_match_of(*pattern, value, self.cache)?
            }
        };
        Ok(Some(is_met))
    }
}

/// The value of all lines of a header.
fn joined<'a>(
    headers: &'a impl HeaderLookup,
    name: &'a HeaderName,
) -> impl Iterator<Item = u8> + 'a {
    let lines = headers.values(name).enumerate();
    lines
        .flat_map(|(number, line)| {
            let comma: &[u8] = if number == 0 { b"" } else { b"," };
            comma.iter().chain(line)
        })
        .copied()
}
