//! A compiled expression, and the memory of its searches.
//!
//! Only whether a whole text matches is asked, so one lazily built automaton is enough: neither
//! captures nor a reverse automaton, which would double the size. When its memory is full, the
//! automaton forgets its states and goes on, at the speed of a simulation. Searches take from a
//! [`MatchWork`] what they cost.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::{Anchored, Input};
use regex_syntax::hir::Hir;

use super::automaton::{Automaton, AutomatonMemory};
use super::work::{Costs, MatchWork, STEPS_PER_MEMORY, WorkExceeded};
use super::{InvalidPattern, Pattern, syntax};

/// A compiled expression.
#[derive(Debug)]
pub struct Matcher {
    id: u64,
    prefix: Box<[u8]>,
    engine: Engine,
    #[expect(dead_code, reason = "given back when the matcher is dropped")]
    room: Taken,
}

#[derive(Debug)]
enum Engine {
    Lazy(Box<Automaton>),
    /// For Unicode word boundaries, which the automaton does not support.
    Simulation(Box<(PikeVM, Costs)>),
}

/// The memory for searches of one [`Matcher`], which grows with the texts that it has seen.
#[derive(Debug)]
pub struct MatchMemory(Memory);

#[derive(Debug)]
enum Memory {
    Lazy(Box<AutomatonMemory>),
    Simulation(Box<pikevm::Cache>),
}

/// An expression that was compiled to measure it.
#[derive(Debug)]
pub(super) struct Measured {
    /// What it takes, in bytes.
    pub(super) bytes: usize,
    prefix: Box<[u8]>,
    pub(super) nfa: NFA,
}

/// Compiles an expression.
pub(super) fn measure(text: &str) -> Result<Measured, InvalidPattern> {
    let parsed = syntax::parse(text)?;
    let prefix = syntax::literal_prefix(&parsed).into();
    let too_large = || InvalidPattern::TooLarge(text.into());
    let nfa = automaton(&syntax::anchored(parsed)).ok_or_else(too_large)?;
    let bytes = nfa.memory_usage() + size_of::<(Matcher, Automaton)>() + text.len();
    if bytes > Pattern::MAX_COMPILED_BYTES {
        return Err(too_large());
    }
    Ok(Measured { bytes, prefix, nfa })
}

/// Stops at twice the limit, since it is smaller in the end.
fn automaton(parsed: &Hir) -> Option<NFA> {
    let config = thompson::Config::new()
        .utf8(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(2 * Pattern::MAX_COMPILED_BYTES));
    COMPILATIONS.fetch_add(1, Ordering::Relaxed);
    let mut compiler = thompson::Compiler::new();
    compiler.configure(config).build_from_hir(parsed).ok()
}

pub(super) fn compilations() -> u64 {
    COMPILATIONS.load(Ordering::Relaxed)
}

impl Matcher {
    /// Compiles an expression that was measured before.
    pub(super) fn of_valid(text: &str, room: Taken) -> Self {
        let measured = measure(text).expect("it was compiled to be measured");
        Self::of(measured, room)
    }

    pub(super) fn of(Measured { prefix, nfa, .. }: Measured, room: Taken) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            prefix,
            engine: Engine::of(nfa),
            room,
        }
    }

    /// Its number, which no other matcher of the process has or will have.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The literal text that everything begins with that it matches. Most expressions of a host
    /// differ in it, and comparing it takes a tenth of the time of a search.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// New memory for searches.
    ///
    /// # Errors
    /// It takes more work than is left.
    pub fn memory(&self, work: &mut MatchWork) -> Result<MatchMemory, WorkExceeded> {
        work.take(self.costs().visit_all() + STEPS_PER_MEMORY)?;
        Ok(MatchMemory(match &self.engine {
            Engine::Lazy(automaton) => Memory::Lazy(Box::new(automaton.memory())),
            Engine::Simulation(engine) => Memory::Simulation(Box::new(engine.0.create_cache())),
        }))
    }

    /// Whether it matches the whole text. `memory` is that of this matcher.
    ///
    /// # Errors
    /// It takes more work than is left, so nothing is known.
    pub fn is_match(
        &self,
        text: &[u8],
        memory: &mut MatchMemory,
        work: &mut MatchWork,
    ) -> Result<bool, WorkExceeded> {
        match (&self.engine, &mut memory.0) {
            (Engine::Lazy(automaton), Memory::Lazy(memory)) => {
                automaton.is_match(text, memory, work)
            }
            (Engine::Simulation(engine), Memory::Simulation(cache)) => {
                let (vm, costs) = &**engine;
                work.take(costs.visit_all().saturating_mul(text.len() + 1))?;
                let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
                Ok(vm.is_match(cache, input))
            }
            (Engine::Lazy(_), Memory::Simulation(_)) | (Engine::Simulation(_), Memory::Lazy(_)) => {
                unreachable!("the memory of another matcher")
            }
        }
    }

    fn costs(&self) -> &Costs {
        match &self.engine {
            Engine::Lazy(automaton) => automaton.costs(),
            Engine::Simulation(engine) => &engine.1,
        }
    }
}

impl Engine {
    fn of(nfa: NFA) -> Self {
        if let Some(automaton) = Automaton::of(&nfa) {
            return Self::Lazy(Box::new(automaton));
        }
        let costs = Costs::of(&nfa, 0);
        let vm = PikeVM::new_from_nfa(nfa).expect("an automaton without captures");
        Self::Simulation(Box::new((vm, costs)))
    }
}

impl MatchMemory {
    /// What it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Memory::Lazy(memory) => size_of::<AutomatonMemory>() + memory.bytes(),
            Memory::Simulation(cache) => size_of::<pikevm::Cache>() + cache.memory_usage(),
        }
    }
}

/// The sum of what compiled expressions take.
#[derive(Debug)]
pub(super) struct Room(AtomicUsize);

/// A part of a [`Room`], until it is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    room: &'static Room,
    bytes: usize,
}

impl Room {
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Takes bytes, unless the sum would exceed `limit`.
    pub(super) fn take(&'static self, bytes: usize, limit: usize) -> Option<Taken> {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.is_ok().then(|| Taken { room: self, bytes })
    }

    /// The sum.
    pub(super) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes bytes, whatever the sum.
    pub(super) fn take_any(&'static self, bytes: usize) -> Taken {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Taken { room: self, bytes }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
static COMPILATIONS: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn room_is_limited_and_given_back() {
        static ROOM: Room = Room::new();
        let first = ROOM.take(60, 100).expect("there is room");
        assert!(ROOM.take(41, 100).is_none());
        let any = ROOM.take_any(41);
        assert!(ROOM.take(1, 100).is_none());
        assert_eq!(ROOM.used(), 101);
        drop((first, any));
        assert!(ROOM.take(100, 100).is_some());
        assert!(ROOM.take(usize::MAX, usize::MAX).is_some());
    }
}
