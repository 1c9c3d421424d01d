//! What searches cost, and how much they may.
//!
//! An expression of 64 KiB can be made so that every byte of a text that was made for it costs a visit
//! of all its states: 16 KiB of text then take half a second, and a route can have many such
//! expressions. So searches count their work in steps, which depend on the expression, the texts, and
//! what was learnt from texts before, never on a clock.

use std::collections::HashSet;
use std::mem::size_of;

use regex_automata::hybrid::LazyStateID;
use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;
use thiserror::Error;

/// The work that some searches may still take together, in steps. A step is about what a byte takes
/// whose transition is known: a nanosecond.
#[derive(Debug)]
pub struct MatchWork {
    left: u64,
}

/// A search would take more work than is left. Whether the text matches is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the regular expressions take too much work")]
pub struct WorkExceeded;

impl MatchWork {
    /// Work of `steps`.
    #[must_use]
    pub fn of(steps: u64) -> Self {
        Self { left: steps }
    }

    /// Steps that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes steps for what is to be done. If fewer are left, none are left after it.
    ///
    /// # Errors
    /// Fewer steps are left.
    pub fn take(&mut self, steps: usize) -> Result<(), WorkExceeded> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or_default();
        left.map(drop).ok_or(WorkExceeded)
    }

    /// Takes steps for what was done, which is little.
    pub(super) fn spend(&mut self, steps: usize) {
        self.left = self.left.saturating_sub(steps as u64);
    }
}

/// What parts of a search cost with one expression, in steps.
#[derive(Debug)]
pub(super) struct Costs {
    /// States of the expression.
    states: usize,
    /// The most of them that one transition of one state leads to.
    widest: usize,
    /// What a state of the automaton takes in memory without its set, in bytes.
    row: usize,
}

impl Costs {
    /// The costs of an expression with so many classes of bytes, as a power of two.
    pub(super) fn of(nfa: &NFA, stride2: usize) -> Self {
        Self {
            states: nfa.states().len(),
            widest: widest(nfa),
            row: (size_of::<LazyStateID>() << stride2) + STATE_OVERHEAD,
        }
    }

    /// The same with so many classes of bytes, as a power of two.
    pub(super) fn with_stride(self, stride2: usize) -> Self {
        Self {
            row: (size_of::<LazyStateID>() << stride2) + STATE_OVERHEAD,
            ..self
        }
    }

    /// Whatever the text is: to visit every state of the expression.
    pub(super) fn visit_all(&self) -> usize {
        STEPS_PER_STATE * self.states + STEPS_PER_TRANSITION
    }

    /// To compute a transition from a set of at most `largest_set` states.
    pub(super) fn transition(&self, largest_set: usize) -> usize {
        let visited = largest_set.saturating_mul(self.widest).min(self.states);
        STEPS_PER_STATE * visited + STEPS_PER_TRANSITION
    }

    /// The most states in the set of a state of the automaton that took so many bytes: each takes a byte
    /// at least.
    pub(super) fn set_of(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.row)
    }
}

/// The most states that a byte leads to from one state, through empty transitions. All of them if more
/// than [`MAX_WIDTH`], so that finding it takes time linear in the states.
fn widest(nfa: &NFA) -> usize {
    let mut widest = 1;
    let mut seen = HashSet::new();
    let mut pending = Vec::new();
    let targets = nfa.states().iter().flat_map(byte_targets);
    for target in targets {
        seen.clear();
        pending.push(target);
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            if seen.len() > MAX_WIDTH {
                return nfa.states().len();
            }
            match nfa.state(id) {
                State::Look { next, .. } | State::Capture { next, .. } => pending.push(*next),
                State::Union { alternates } => pending.extend(alternates),
                State::BinaryUnion { alt1, alt2 } => pending.extend([*alt1, *alt2]),
                State::ByteRange { .. }
                | State::Sparse(_)
                | State::Dense(_)
                | State::Fail
                | State::Match { .. } => {}
            }
        }
        widest = widest.max(seen.len());
    }
    widest
}

/// Where the bytes of a state lead to.
fn byte_targets(state: &State) -> Vec<StateID> {
    let mut targets = match state {
        State::ByteRange { trans } => vec![trans.next],
        State::Sparse(sparse) => sparse.transitions.iter().map(|it| it.next).collect(),
        State::Dense(dense) => dense.transitions.to_vec(),
        _ => Vec::new(),
    };
    targets.dedup();
    targets
}

/// To visit a state of an expression, some 10 ns.
const STEPS_PER_STATE: usize = 8;
/// To compute a transition, without the states it visits: some 100 ns.
const STEPS_PER_TRANSITION: usize = 128;
/// To begin and end a search.
pub(super) const STEPS_PER_SEARCH: usize = 64;
/// To allocate the memory for the searches of an expression, without its states.
pub(super) const STEPS_PER_MEMORY: usize = 512;
/// The states beyond which a transition counts as one to all states of the expression: 32, which
/// only alternatives of many words have.
const MAX_WIDTH: usize = 32;
/// What a state of the automaton takes beside its transitions and its set, in bytes: two pointers with
/// lengths, its number, and flags.
const STATE_OVERHEAD: usize = 36;
