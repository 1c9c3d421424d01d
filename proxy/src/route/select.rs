//! Selects the rule of a request: the walk over the candidates that its host and path lead to.
//!
//! Host levels from the most specific one; in each the exact path, prefixes from the longest one,
//! regular expressions; in each of these the candidates by rank. What does not match falls through
//! to the next.

use std::ops::{ControlFlow, Range};

use http::HeaderName;

use super::condition::{Condition, Mismatch};
use super::host::Hosts;
use super::matcher::Matcher;
use super::path::Paths;
use super::pattern::{Patterns, RegexCache};
use super::request::{HeaderLookup, RequestView};

/// The compiled matches of all rules of a listener. Immutable; shards share it.
#[derive(Debug)]
pub struct Router {
    pub(super) hosts: Hosts,
    pub(super) paths: Paths,
    pub(super) candidates: Box<[Candidate]>,
    pub(super) conditions: Box<[Condition]>,
    /// Names of the headers that conditions ask for.
    pub(super) names: Box<[HeaderName]>,
    pub(super) patterns: Patterns,
}

/// A match of a rule, at one place in the router.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// The rule, by the caller's number.
    pub(super) route: u32,
    /// Number of the match in the rule.
    pub(super) match_index: u16,
    /// Its first condition.
    pub(super) conditions_start: u32,
    /// One past its last condition.
    pub(super) conditions_end: u32,
}

impl Candidate {
    fn conditions(&self) -> Range<usize> {
        self.conditions_start as usize..self.conditions_end as usize
    }
}

/// The rule that serves a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected {
    /// The rule, by the number it was compiled with.
    pub route: u32,
    /// Which of its matches.
    pub match_index: u16,
    /// Bytes of the path that a prefix matched, without trailing slash; 0 for other matches.
    pub prefix_len: usize,
}

impl Router {
    /// The rule that serves a request, if there is one. Allocates nothing, unless `cache` meets
    /// a regular expression for the first time.
    #[must_use]
    pub fn select<H: HeaderLookup>(
        &self,
        request: &RequestView<'_, H>,
        cache: &mut RegexCache,
    ) -> Option<Selected> {
        let mut selected = None;
        let _ = self.walk(request, cache, |candidate, prefix_len, verdict| {
            if verdict.is_err() {
                return ControlFlow::Continue(());
            }
            selected = Some(Selected {
                route: candidate.route,
                match_index: candidate.match_index,
                prefix_len,
            });
            ControlFlow::Break(())
        });
        selected
    }

    /// Visits the candidates that host and path lead to, best first, each with the length of its
    /// prefix and whether it matches.
    pub(super) fn walk<'r, H: HeaderLookup>(
        &'r self,
        request: &RequestView<'_, H>,
        cache: &mut RegexCache,
        mut visit: impl FnMut(&'r Candidate, usize, Result<(), Mismatch<'r>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut matcher = Matcher::new(request, &self.names, &self.patterns, cache);
        let mut all = |range: Range<usize>, prefix_len| {
            self.candidates[range].iter().try_for_each(|candidate| {
                let mut conditions = self.conditions[candidate.conditions()].iter();
                let verdict = conditions.try_for_each(|condition| matcher.meets(condition));
                visit(candidate, prefix_len, verdict)
            })
        };
        for (_, level) in self.hosts.covering(request.host) {
            let located = self.paths.locate(&level.scope, request.path);
            if let Some(node) = located.exact {
                all(self.paths.node(node).exact(), 0)?;
            }
            for node in self.paths.prefixes(located.prefix) {
                all(node.prefix(), node.length())?;
            }
            all(level.regexes(), 0)?;
        }
        ControlFlow::Continue(())
    }
}
