//! Explains a selection: every candidate, and why it was not selected.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use super::condition::Mismatch;
use super::part::Matches;
use super::pattern::RegexCache;
use super::request::{HeaderLookup, RequestView};
use super::select::{Candidate, Router};

/// A match that a request was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsideredMatch<'r> {
    /// Index of the rule.
    pub route: u32,
    /// Index of the match in the rule.
    pub match_index: u16,
    /// Whether it matched, or why not.
    pub outcome: Outcome<'r>,
}

/// The result of comparing a request with a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'r> {
    /// It serves the request.
    Selected,
    /// It matches, but a more specific or older one is selected.
    Shadowed,
    /// It does not match.
    Lost(Mismatch<'r>),
}

impl Router {
    /// Every match that the request was compared with, in the order of [`Router::select`], then
    /// those not reached by its host or path; at most `limit`, each match once.
    #[must_use]
    pub fn explain<H: HeaderLookup>(
        &self,
        request: &RequestView<'_, H>,
        cache: &mut RegexCache,
        limit: usize,
    ) -> Vec<ConsideredMatch<'_>> {
        let mut list = Explanation::new(limit);
        let mut is_decided = false;
        let mut done = self.walk(request, cache, |candidate, _, verdict| {
            // No candidate after it is taken.
            is_decided |= verdict == Err(Mismatch::NotCompared);
            let outcome = match verdict {
                Err(mismatch) => Outcome::Lost(mismatch),
                Ok(()) if is_decided => Outcome::Shadowed,
                Ok(()) => Outcome::Selected,
            };
            is_decided |= verdict.is_ok();
            list.add(candidate, outcome)
        });
        if done.is_continue() {
            done = self.unreached(request.host, &mut list);
        }
        debug_assert!(done.is_continue() || list.is_full());
        list.considered
    }

    /// Adds the candidates that the walk did not reach.
    fn unreached<'r>(&'r self, host: &[u8], list: &mut Explanation<'r>) -> ControlFlow<()> {
        let covering: Vec<usize> = self.covering(host).map(|(number, _)| number).collect();
        let mut all = |matches: &'r Matches, range: Range<usize>, mismatch| {
            let mut candidates = matches.candidates[range].iter();
            candidates.try_for_each(|candidate| list.add(candidate, Outcome::Lost(mismatch)))
        };
        for (is_near, mismatch) in [(true, Mismatch::Path), (false, Mismatch::Host)] {
            let is_meant = |number: usize| covering.contains(&number) == is_near;
            for (_, level) in self
                .levels
                .entries()
                .filter(|(number, _)| is_meant(*number))
            {
                all(&level.matches, level.root(), mismatch)?;
                all(&level.matches, level.regexes(), mismatch)?;
            }
            for part in &self.parts {
                for node in part
                    .paths
                    .nodes()
                    .iter()
                    .filter(|node| is_meant(node.scope()))
                {
                    all(&part.matches, node.exact(), mismatch)?;
                    all(&part.matches, node.prefix(), mismatch)?;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The explanation so far: the first outcome of each match.
struct Explanation<'r> {
    limit: usize,
    seen: HashSet<(u32, u16)>,
    considered: Vec<ConsideredMatch<'r>>,
}

impl<'r> Explanation<'r> {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            seen: HashSet::new(),
            considered: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.considered.len() >= self.limit
    }

    fn add(&mut self, candidate: &Candidate, outcome: Outcome<'r>) -> ControlFlow<()> {
        if self.is_full() {
            return ControlFlow::Break(());
        }
        if self.seen.insert((candidate.route, candidate.match_index)) {
            self.considered.push(ConsideredMatch {
                route: candidate.route,
                match_index: candidate.match_index,
                outcome,
            });
        }
        ControlFlow::Continue(())
    }
}
