//! A compiled expression, and the memory of its searches.
//!
//! Only whether a whole text matches is asked, so one lazily built automaton is enough: neither
//! captures nor a reverse automaton, which would double the size. When its memory is full, the
//! automaton forgets its states and goes on, at the speed of a simulation.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::{Anchored, Input};
use regex_syntax::hir::Hir;

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
    Lazy(Box<DFA>),
    /// For Unicode word boundaries, which the automaton does not support.
    Simulation(PikeVM),
}

/// The memory for searches of one [`Matcher`], which grows with the texts that it has seen.
#[derive(Debug)]
pub struct MatchMemory(Memory);

#[derive(Debug)]
enum Memory {
    Lazy(Box<dfa::Cache>),
    Simulation(Box<pikevm::Cache>),
}

/// An expression that was compiled to measure it.
#[derive(Debug)]
pub(super) struct Measured {
    /// What it takes, in bytes.
    pub(super) bytes: usize,
    prefix: Box<[u8]>,
    nfa: NFA,
}

/// Compiles an expression.
pub(super) fn measure(text: &str) -> Result<Measured, InvalidPattern> {
    let parsed = syntax::parse(text)?;
    let prefix = syntax::literal_prefix(&parsed).into();
    let too_large = || InvalidPattern::TooLarge(text.into());
    let nfa = automaton(&syntax::anchored(parsed)).ok_or_else(too_large)?;
    let bytes = nfa.memory_usage() + size_of::<(Matcher, DFA)>() + text.len();
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
    #[must_use]
    pub fn memory(&self) -> MatchMemory {
        MatchMemory(match &self.engine {
            Engine::Lazy(dfa) => Memory::Lazy(Box::new(dfa.create_cache())),
            Engine::Simulation(vm) => Memory::Simulation(Box::new(vm.create_cache())),
        })
    }

    /// Whether it matches the whole text. `memory` is that of this matcher.
    #[must_use]
    pub fn is_match(&self, text: &[u8], memory: &mut MatchMemory) -> bool {
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        match (&self.engine, &mut memory.0) {
            (Engine::Lazy(dfa), Memory::Lazy(cache)) => {
                let found = dfa.try_search_fwd(cache, &input);
                debug_assert!(found.is_ok(), "it neither gives up nor has quit bytes");
                found.is_ok_and(|end| end.is_some())
            }
            (Engine::Simulation(vm), Memory::Simulation(cache)) => vm.is_match(cache, input),
            (Engine::Lazy(_), Memory::Simulation(_)) | (Engine::Simulation(_), Memory::Lazy(_)) => {
                unreachable!("the memory of another matcher")
            }
        }
    }
}

impl Engine {
    fn of(nfa: NFA) -> Self {
        let config = dfa::Config::new()
            .cache_capacity(SEARCH_BYTES)
            .skip_cache_capacity_check(true);
        let mut builder = DFA::builder();
        if let Ok(dfa) = builder.configure(config).build_from_nfa(nfa.clone()) {
            return Self::Lazy(Box::new(dfa));
        }
        let vm = PikeVM::new_from_nfa(nfa);
        Self::Simulation(vm.expect("an automaton without captures"))
    }
}

impl MatchMemory {
    /// What it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Memory::Lazy(cache) => size_of::<dfa::Cache>() + cache.memory_usage(),
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

/// What the states of one automaton take at most, in bytes: 64 KiB; ordinary ones need 1 to 10. A
/// large automaton takes what its fewest states need, up to about its own size.
const SEARCH_BYTES: usize = 64 * 1024;

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
        drop((first, any));
        assert!(ROOM.take(100, 100).is_some());
        assert!(ROOM.take(usize::MAX, usize::MAX).is_some());
    }
}
