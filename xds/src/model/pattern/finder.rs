//! All matches of an expression in a text, with their groups.
//!
//! A lazily built automaton finds where the first match ends, and one of the reversed expression where it
//! begins. Groups are found within the match, by an automaton that knows them if there is one (most
//! expressions have), or else by a simulation. Searches take from a [`MatchWork`] what they cost.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::dfa::onepass;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;

use super::Pattern;
use super::work::{Costs, MatchWork, STEPS_PER_MEMORY, STEPS_PER_SEARCH, WorkExceeded};

/// A compiled expression that finds its matches.
#[derive(Debug)]
pub struct Finder {
    id: u64,
    forward: Scanner,
    /// `None` if it matches at the start of a text only.
    backward: Option<Scanner>,
    groups: GroupEngine,
    bytes: usize,
}

/// Whether the groups of matches are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Groups {
    Wanted,
    Ignored,
}

/// Why an expression cannot be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinderError {
    /// It takes more than [`Pattern::MAX_COMPILED_BYTES`].
    TooLarge,
}

#[derive(Debug)]
enum GroupEngine {
    None,
    OnePass(Box<onepass::DFA>),
    Simulation(Box<PikeVM>),
}

/// The memory for searches of one [`Finder`], which grows with the texts that it has seen.
#[derive(Debug)]
pub struct FinderMemory {
    forward: ScannerMemory,
    backward: Option<ScannerMemory>,
    groups: GroupMemory,
    /// Begin and end of the whole match and of its groups.
    slots: Vec<Option<NonMaxUsize>>,
}

#[derive(Debug)]
enum GroupMemory {
    None,
    OnePass(Box<onepass::Cache>),
    Simulation(Box<pikevm::Cache>),
}

/// Where a match is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

impl Finder {
    /// Compiles an expression in the syntax of `regex_syntax`, whose syntax was checked. It means bytes.
    pub(crate) fn compile(text: &str, groups: Groups) -> Result<Self, FinderError> {
        let mut parser = ParserBuilder::new()
            .utf8(false)
            .unicode(false)
            .dot_matches_new_line(true)
            .build();
        // What is refused here is too large too: its syntax was checked.
        let parsed = parser.parse(text).map_err(|_| FinderError::TooLarge)?;
        let captures = match groups {
            Groups::Wanted => WhichCaptures::All,
            Groups::Ignored => WhichCaptures::Implicit,
        };
        let nfa = automaton(&parsed, captures, Direction::Forward)?;
        let groups = GroupEngine::of(&nfa, groups);
        let is_anchored = nfa.is_always_start_anchored();
        let reversed = (!is_anchored)
            .then(|| automaton(&parsed, WhichCaptures::None, Direction::Backward))
            .transpose()?;
        let nfas = [Some(&nfa), reversed.as_ref()].into_iter().flatten();
        let nfas: usize = nfas.map(NFA::memory_usage).sum();
        let bytes = nfas + groups.bytes() + size_of::<Self>();
        if bytes > Pattern::MAX_COMPILED_BYTES {
            return Err(FinderError::TooLarge);
        }
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            forward: Scanner::of(nfa, Direction::Forward),
            backward: reversed.map(|nfa| Scanner::of(nfa, Direction::Backward)),
            groups,
            bytes,
        })
    }

    /// Its number, which no other finder of the process has or will have.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// New memory for searches.
    ///
    /// # Errors
    /// It takes more work than is left.
    pub fn memory(&self, work: &mut MatchWork) -> Result<FinderMemory, WorkExceeded> {
        work.take(self.forward.costs.visit_all() + STEPS_PER_MEMORY)?;
        let (groups, slots) = match &self.groups {
            GroupEngine::None => (GroupMemory::None, 2),
            GroupEngine::OnePass(engine) => (
                GroupMemory::OnePass(Box::new(engine.create_cache())),
                engine.get_nfa().group_info().slot_len(),
            ),
            GroupEngine::Simulation(engine) => (
                GroupMemory::Simulation(Box::new(engine.create_cache())),
                engine.get_nfa().group_info().slot_len(),
            ),
        };
        Ok(FinderMemory {
            forward: self.forward.memory(),
            backward: self.backward.as_ref().map(Scanner::memory),
            groups,
            slots: vec![None; slots.min(MAX_SLOTS)],
        })
    }

    /// The first match at `from` or later: the leftmost one, and of those the one that the first alternatives
    /// lead to. `memory` is that of this finder, and has its groups afterwards.
    ///
    /// # Errors
    /// It takes more work than is left, so nothing is known.
    pub fn find(
        &self,
        text: &[u8],
        from: usize,
        memory: &mut FinderMemory,
        work: &mut MatchWork,
    ) -> Result<Option<Found>, WorkExceeded> {
        if from > text.len() || (from > 0 && self.backward.is_none()) {
            return Ok(None);
        }
        let range = (from, text.len());
        let Some(end) = self.forward.scan(text, range, &mut memory.forward, work)? else {
            return Ok(None);
        };
        let start = match (&self.backward, &mut memory.backward) {
            (Some(scanner), Some(memory)) => scanner.scan(text, (from, end), memory, work)?,
            _ => None,
        };
        let found = Found {
            start: start.unwrap_or(from),
            end,
        };
        self.find_groups(text, found, memory, work)?;
        Ok(Some(found))
    }

    fn find_groups(
        &self,
        text: &[u8],
        Found { start, end }: Found,
        memory: &mut FinderMemory,
        work: &mut MatchWork,
    ) -> Result<(), WorkExceeded> {
        let input = Input::new(text).range(start..end).anchored(Anchored::Yes);
        let slots = &mut memory.slots;
        slots.fill(None);
        match (&self.groups, &mut memory.groups) {
            (GroupEngine::OnePass(engine), GroupMemory::OnePass(cache)) => {
                work.take(STEPS_PER_SEARCH + slots.len() * (end - start + 1))?;
                // It fails for searches alone that are not anchored.
                let found = engine.try_search_slots(cache, &input, slots);
                debug_assert!(found.is_ok_and(|it| it.is_some()), "it was found before");
            }
            (GroupEngine::Simulation(engine), GroupMemory::Simulation(cache)) => {
                let each = self.forward.costs.visit_all();
                work.take(each.saturating_mul(end - start + 1))?;
                engine.search_slots(cache, &input, slots);
            }
            _ => {}
        }
        if let [first, second, ..] = &mut **slots {
            (*first, *second) = (NonMaxUsize::new(start), NonMaxUsize::new(end));
        }
        Ok(())
    }
}

impl FinderMemory {
    /// Where a group of the last match is; `None` if the expression has no such group, or it did not match.
    #[must_use]
    pub fn group(&self, number: usize) -> Option<Found> {
        let slot = |at: usize| Some(self.slots.get(at).copied()??.get());
        Some(Found {
            start: slot(2 * number)?,
            end: slot(2 * number + 1)?,
        })
    }

    /// What it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let groups = match &self.groups {
            GroupMemory::None => 0,
            GroupMemory::OnePass(cache) => cache.memory_usage(),
            GroupMemory::Simulation(cache) => cache.memory_usage(),
        };
        let backward = self.backward.as_ref().map_or(0, ScannerMemory::bytes);
        size_of::<Self>() + self.forward.bytes() + backward + groups + size_of_val(&*self.slots)
    }
}

impl GroupEngine {
    fn of(nfa: &NFA, groups: Groups) -> Self {
        if groups == Groups::Ignored {
            return Self::None;
        }
        let config = onepass::Config::new().size_limit(Some(ONE_PASS_BYTES));
        let mut builder = onepass::DFA::builder();
        if let Ok(engine) = builder.configure(config).build_from_nfa(nfa.clone()) {
            return Self::OnePass(Box::new(engine));
        }
        let engine = PikeVM::new_from_nfa(nfa.clone());
        Self::Simulation(Box::new(engine.expect("an automaton with captures")))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::OnePass(engine) => engine.memory_usage() + size_of::<onepass::DFA>(),
            Self::Simulation(_) => size_of::<PikeVM>(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Stops at twice the limit, since it is smaller in the end.
fn automaton(
    parsed: &Hir,
    captures: WhichCaptures,
    direction: Direction,
) -> Result<NFA, FinderError> {
    let config = thompson::Config::new()
        .utf8(false)
        .reverse(direction == Direction::Backward)
        .which_captures(captures)
        .nfa_size_limit(Some(2 * Pattern::MAX_COMPILED_BYTES));
    let mut compiler = thompson::Compiler::new();
    let compiled = compiler.configure(config).build_from_hir(parsed);
    compiled.map_err(|_| FinderError::TooLarge)
}

/// An automaton whose states are built when a text first leads to them, and that reads in one direction.
#[derive(Debug)]
struct Scanner {
    dfa: DFA,
    direction: Direction,
    anchored: Anchored,
    costs: Costs,
}

#[derive(Debug)]
struct ScannerMemory {
    cache: Cache,
    /// The most states of the expression that one of the automaton stands for, so far.
    largest_set: usize,
}

impl Scanner {
    fn of(nfa: NFA, direction: Direction) -> Self {
        let (kind, anchored) = match direction {
            Direction::Forward if nfa.is_always_start_anchored() => {
                (MatchKind::LeftmostFirst, Anchored::Yes)
            }
            Direction::Forward => (MatchKind::LeftmostFirst, Anchored::No),
            // The match begins as far to the left as it can.
            Direction::Backward => (MatchKind::All, Anchored::Yes),
        };
        let config = Config::new()
            .match_kind(kind)
            .cache_capacity(SEARCH_BYTES)
            .skip_cache_capacity_check(true);
        let costs = Costs::of(&nfa, 0);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa);
        let dfa = dfa.expect("an expression without Unicode word boundaries");
        let costs = costs.with_stride(dfa.byte_classes().stride2());
        Self {
            dfa,
            direction,
            anchored,
            costs,
        }
    }

    fn memory(&self) -> ScannerMemory {
        ScannerMemory {
            cache: self.dfa.create_cache(),
            largest_set: 1,
        }
    }

    /// Where the match in the range ends that decides, in the direction of reading.
    fn scan(
        &self,
        text: &[u8],
        (from, to): (usize, usize),
        memory: &mut ScannerMemory,
        work: &mut MatchWork,
    ) -> Result<Option<usize>, WorkExceeded> {
        work.take(STEPS_PER_SEARCH)?;
        let input = Input::new(text).range(from..to).anchored(self.anchored);
        let mut state = self.start(&input, memory, work)?;
        let mut last = None;
        if state.is_dead() {
            return Ok(None);
        }
        let read = text.get(from..to).unwrap_or_default();
        for passed in 0..read.len() {
            let (byte, place) = match self.direction {
                Direction::Forward => (read.get(passed), from + passed),
                Direction::Backward => (read.get(read.len() - 1 - passed), to - passed),
            };
            let byte = byte.copied().unwrap_or_default();
            let next = self.step(state, byte, memory, work)?;
            if next.is_match() {
                // It is known one byte later.
                last = Some(place);
            } else if next.is_dead() {
                work.spend(passed);
                return Ok(last);
            }
            state = next;
        }
        // Whether the last transition is known cannot be asked.
        let costs = self.costs.transition(memory.largest_set);
        work.take(read.len() + costs)?;
        let (beyond, end) = match self.direction {
            Direction::Forward => (text.get(to), to),
            Direction::Backward => (from.checked_sub(1).and_then(|at| text.get(at)), from),
        };
        let next = match beyond {
            Some(byte) => self.dfa.next_state(&mut memory.cache, state, *byte),
            None => self.dfa.next_eoi_state(&mut memory.cache, state),
        };
        let is_match = next.map_err(|_| WorkExceeded)?.is_match();
        Ok(if is_match { Some(end) } else { last })
    }

    fn start(
        &self,
        input: &Input<'_>,
        memory: &mut ScannerMemory,
        work: &mut MatchWork,
    ) -> Result<LazyStateID, WorkExceeded> {
        let before = memory.bytes();
        let start = match self.direction {
            Direction::Forward => self.dfa.start_state_forward(&mut memory.cache, input),
            Direction::Backward => self.dfa.start_state_reverse(&mut memory.cache, input),
        };
        if memory.bytes() != before {
            memory.learn(before, &self.costs);
            work.take(self.costs.visit_all())?;
        }
        start.map_err(|_| WorkExceeded)
    }

    fn step(
        &self,
        from: LazyStateID,
        byte: u8,
        memory: &mut ScannerMemory,
        work: &mut MatchWork,
    ) -> Result<LazyStateID, WorkExceeded> {
        if from.is_tagged() {
            return self.step_from_match(from, byte, memory, work);
        }
        let next = self.dfa.next_state_untagged(&memory.cache, from, byte);
        if next.is_unknown() {
            return self.transition(from, byte, memory, work);
        }
        Ok(next)
    }

    /// From a state that matches, of which it cannot be asked whether a transition is known.
    fn step_from_match(
        &self,
        from: LazyStateID,
        byte: u8,
        memory: &mut ScannerMemory,
        work: &mut MatchWork,
    ) -> Result<LazyStateID, WorkExceeded> {
        let before = memory.bytes();
        let next = self.dfa.next_state(&mut memory.cache, from, byte);
        if memory.bytes() != before {
            memory.learn(before, &self.costs);
            work.take(self.costs.transition(memory.largest_set))?;
        }
        next.map_err(|_| WorkExceeded)
    }

    /// Computes a transition.
    #[cold]
    fn transition(
        &self,
        from: LazyStateID,
        byte: u8,
        memory: &mut ScannerMemory,
        work: &mut MatchWork,
    ) -> Result<LazyStateID, WorkExceeded> {
        work.take(self.costs.transition(memory.largest_set))?;
        let before = memory.bytes();
        let next = self.dfa.next_state(&mut memory.cache, from, byte);
        memory.learn(before, &self.costs);
        // It is not configured to give up.
        next.map_err(|_| WorkExceeded)
    }
}

impl ScannerMemory {
    fn bytes(&self) -> usize {
        self.cache.memory_usage()
    }

    /// Notes the size of the state that was added, if one was.
    fn learn(&mut self, before: usize, costs: &Costs) {
        let added = self.bytes().saturating_sub(before);
        self.largest_set = self.largest_set.max(costs.set_of(added));
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
/// What the states of one automaton take at most, in bytes, as in matches: 64 KiB.
const SEARCH_BYTES: usize = 64 * 1024;
/// What the automaton that knows groups takes at most, in bytes: 32 KiB, half of what an expression may take.
const ONE_PASS_BYTES: usize = 32 * 1024;
/// Slots that are kept: of the whole match and of the nine groups that a substitution can name.
const MAX_SLOTS: usize = 20;

#[cfg(test)]
mod tests;
