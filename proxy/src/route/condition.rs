//! The conditions of a match besides its path. All must be met.

use std::collections::HashMap;

use http::{HeaderName, Method};
use xds::model::{HttpMatch, PathMatch, StringMatch, WorkExceeded};

use super::pattern::{PatternId, PatternSet};
use super::table::index_u32;

/// The first condition of a match that a request does not meet, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch<'r> {
    /// None of its hosts matches.
    Host,
    /// The path does not match.
    Path,
    /// The method differs; contains the expected one.
    Method(&'r Method),
    /// The header is missing.
    HeaderMissing(&'r HeaderName),
    /// The header has another value.
    HeaderValue(&'r HeaderName),
    /// The query parameter is missing.
    QueryMissing(&'r str),
    /// The query parameter has another value.
    QueryValue(&'r str),
    /// Not known: a regular expression takes more work than is left for the request.
    NotCompared,
}

impl From<WorkExceeded> for Mismatch<'_> {
    fn from(_: WorkExceeded) -> Self {
        Self::NotCompared
    }
}

#[derive(Debug)]
pub(super) enum Condition {
    Method(Method),
    Header(NameId, ValueTest),
    Query(Box<(Box<str>, ValueTest)>),
    Path(PatternId),
}

#[derive(Debug)]
pub(super) enum ValueTest {
    Exact(Box<[u8]>),
    /// Values that match the regular expression.
    Regex(PatternId),
}

/// Index of a header name in its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameId(u32);

impl NameId {
    /// The index as usize.
    pub(super) fn place(self) -> usize {
        self.0 as usize
    }
}

/// Collects the conditions of a router under construction.
#[derive(Debug, Default)]
pub(super) struct ConditionSet<'a> {
    names: HashMap<&'a HeaderName, NameId>,
    /// The names, by index.
    pub(super) name_list: Vec<HeaderName>,
    /// The patterns of all conditions.
    pub(super) patterns: PatternSet<'a>,
    /// All conditions; those of one match are adjacent.
    pub(super) list: Vec<Condition>,
}

impl<'a> ConditionSet<'a> {
    /// Appends the conditions of a match, cheap ones first.
    pub(super) fn add(&mut self, matches: &'a HttpMatch) {
        self.list
            .extend(matches.method.clone().map(Condition::Method));
        for header in &matches.headers {
            let condition = Condition::Header(self.name(&header.name), self.test(&header.value));
            self.list.push(condition);
        }
        for parameter in &matches.query {
            let name = parameter.name.as_str().into();
            let condition = Condition::Query(Box::new((name, self.test(&parameter.value))));
            self.list.push(condition);
        }
        if let PathMatch::Regex(pattern) = &matches.path {
            self.list.push(Condition::Path(self.patterns.add(pattern)));
        }
    }

    fn name(&mut self, name: &'a HeaderName) -> NameId {
        *self.names.entry(name).or_insert_with(|| {
            self.name_list.push(name.clone());
            NameId(index_u32(self.name_list.len() - 1))
        })
    }

    fn test(&mut self, value: &'a StringMatch) -> ValueTest {
        match value {
            StringMatch::Exact(text) => ValueTest::Exact(text.as_bytes().into()),
            StringMatch::Regex(pattern) => ValueTest::Regex(self.patterns.add(pattern)),
        }
    }
}
