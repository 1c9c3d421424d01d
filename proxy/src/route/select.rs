//! Selects the rule of a request by walking the candidates for its host and path.
//!
//! Host levels from the most specific one; in each the exact path, prefixes from the longest one,
//! then regular expressions; in each of these the candidates by rank. If none matches, the next one
//! is tried.

use std::ops::{ControlFlow, Range};

use xds::model::WorkExceeded;

use super::condition::Mismatch;
use super::hash::Hash;
use super::host::{Coverage, Kind, Level, hash_exact, longest_wildcard, suffixes};
use super::matcher::Matcher;
use super::part::{Matches, SharedPart, part_of};
use super::path::Node;
use super::pattern::RegexCache;
use super::request::{HeaderLookup, RequestView};
use crate::memory::Chunked;

/// The compiled matches of all rules of a listener. Immutable; shared by the shards.
#[derive(Debug, Clone)]
pub struct Router {
    /// Their number is a power of two.
    pub(super) parts: Vec<SharedPart>,
    /// The hosts, by index.
    pub(super) levels: Chunked<Level>,
    /// Most labels of any wildcard, past or present.
    deepest: usize,
    /// The index of the level for every host.
    any: Option<usize>,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            parts: vec![SharedPart::default()],
            levels: Chunked::default(),
            deepest: 0,
            any: None,
        }
    }
}

/// A match of a rule, at one place in the router.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Index of the rule.
    pub(super) route: u32,
    /// Index of the match in the rule.
    pub(super) match_index: u16,
    pub(super) conditions_start: u32,
    /// One past its last condition.
    pub(super) conditions_end: u32,
}

impl Candidate {
    fn conditions(&self) -> Range<usize> {
        self.conditions_start as usize..self.conditions_end as usize
    }
}

/// The rule selected for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected {
    /// Index of the rule.
    pub route: u32,
    /// Index of the match in the rule.
    pub match_index: u16,
    /// Bytes of the path matched by a prefix, without trailing slash; 0 for other matches.
    pub prefix_len: usize,
}

impl Router {
    /// The rule for a request, if one matches. Allocates only when `cache` meets a regular
    /// expression for the first time.
    ///
    /// # Errors
    /// The regular expressions of the candidates take more work with the request than
    /// [`REGEX_STEPS_PER_REQUEST`](crate::limits::REGEX_STEPS_PER_REQUEST). Whether they match is not
    /// known, so no candidate after them is taken: it may be less protected.
    pub fn select<H: HeaderLookup>(
        &self,
        request: &RequestView<'_, H>,
        cache: &mut RegexCache,
    ) -> Result<Option<Selected>, WorkExceeded> {
        let mut selected = Ok(None);
        let _ = self.walk(request, cache, |candidate, prefix_len, verdict| {
            selected = match verdict {
                Err(Mismatch::NotCompared) => Err(WorkExceeded),
                Err(_) => return ControlFlow::Continue(()),
                Ok(()) => Ok(Some(Selected {
                    route: candidate.route,
                    match_index: candidate.match_index,
                    prefix_len,
                })),
            };
            ControlFlow::Break(())
        });
        selected
    }

    /// Visits the candidates for host and path, best first, each with the length of its prefix and
    /// whether it matches.
    pub(super) fn walk<'r, H: HeaderLookup>(
        &'r self,
        request: &RequestView<'_, H>,
        cache: &mut RegexCache,
        mut visit: impl FnMut(&'r Candidate, usize, Result<(), Mismatch<'r>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        cache.begin();
        let mut all = |matches: &'r Matches, range: Range<usize>, prefix_len| {
            let mut matcher = Matcher::new(request, &matches.names, &matches.patterns, cache);
            matches.candidates[range].iter().try_for_each(|candidate| {
                let mut conditions = matches.conditions[candidate.conditions()].iter();
                let verdict = conditions.try_for_each(|condition| matcher.check(condition));
                visit(candidate, prefix_len, verdict)
            })
        };
        for (_, level) in self.covering(request.host) {
            let mut located = self.locate(level, request.path, usize::MAX);
            if let Some((matches, node)) = located.exact {
                all(matches, node.exact(), 0)?;
            }
            while let Some((matches, node)) = located.prefix {
                all(matches, node.prefix(), node.length())?;
                located = self.locate(level, request.path, node.length());
            }
            // The target `*` of OPTIONS matches no prefix.
            if request.path.first().is_none_or(|byte| *byte == b'/') {
                all(&level.matches, level.root(), 0)?;
            }
            all(&level.matches, level.regexes(), 0)?;
        }
        ControlFlow::Continue(())
    }

    /// The nodes of `path` in a host, up to before `limit`.
    fn locate(&self, level: &Level, path: &[u8], limit: usize) -> PathNodes<'_> {
        let mut located = PathNodes::default();
        for (step, is_exact) in level.scope.steps(path, limit) {
            let part = &*self.parts[part_of(step.hash, self.parts.len())];
            let found = part
                .paths
                .find(level.scope.id(), step.hash, &path[..step.end]);
            let found = found.map(|node| (&part.matches, node));
            if is_exact {
                located.exact = found;
            }
            located.prefix = found
                .filter(|(_, node)| !node.prefix().is_empty())
                .or(located.prefix);
        }
        located
    }

    /// The levels that cover `host`, most specific first, with their indices.
    pub(super) fn covering(&self, host: &[u8]) -> impl Iterator<Item = (usize, &Level)> {
        let exact = || self.level(hash_exact(host), Kind::Exact, host);
        let mut stage = Stage::Exact;
        let numbers = std::iter::from_fn(move || {
            loop {
                match stage {
                    Stage::Exact => {
                        stage = Stage::Under(0);
                        if let Some(exact) = exact() {
                            return Some(exact);
                        }
                    }
                    Stage::Under(after) => {
                        let under = |hash, name: &[u8]| self.level(hash, Kind::Under, name);
                        let found = longest_wildcard(host, self.deepest, after, under);
                        stage = found.map_or(Stage::Any, |(_, start)| Stage::Under(start));
                        if let Some((number, _)) = found {
                            return Some(number);
                        }
                    }
                    Stage::Any => {
                        stage = Stage::Over;
                        return self.any;
                    }
                    Stage::Over => return None,
                }
            }
        });
        numbers.filter_map(|number| Some((number, self.levels.get(number)?)))
    }

    fn level(&self, hash: Hash, kind: Kind, name: &[u8]) -> Option<usize> {
        self.parts[part_of(hash, self.parts.len())].level(hash, kind, name)
    }

    pub(super) fn record_level(&mut self, coverage: Coverage<'_>, number: usize) {
        match coverage {
            Coverage::Any => self.any = Some(number),
            Coverage::Under(name) => {
                let labels = suffixes(name.as_bytes()).count();
                self.deepest = self.deepest.max(labels);
            }
            Coverage::Exact(_) => {}
        }
    }

    pub(super) fn forget_level(&mut self, coverage: Coverage<'_>) {
        if coverage == Coverage::Any {
            self.any = None;
        }
    }
}

/// The nodes of a request's path in one host.
#[derive(Default)]
struct PathNodes<'r> {
    /// The node of the exact path.
    exact: Option<(&'r Matches, &'r Node)>,
    /// The node of the longest prefix.
    prefix: Option<(&'r Matches, &'r Node)>,
}

/// The stage of the walk over levels.
enum Stage {
    Exact,
    /// The wildcards that start after this byte of the host.
    Under(usize),
    Any,
    Over,
}
