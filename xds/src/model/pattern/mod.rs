//! Regular expressions of matches: parsed, measured, and remembered.
//!
//! An expression costs its text nothing and its proxies memory, so every one has a size
//! ([`Pattern::compiled_bytes`]), and whoever takes expressions from a user does so through a
//! [`PatternBudget`]. Texts that were compiled once are known (`known`): the same text is neither
//! measured nor compiled twice.

mod automaton;
mod budget;
mod finder;
mod known;
mod matcher;
mod syntax;
mod work;

use std::cmp;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use thiserror::Error;

pub use budget::PatternBudget;
pub use finder::{Finder, FinderMemory, Found};
pub(super) use finder::{FinderError, Groups};
pub use matcher::{MatchMemory, Matcher};
pub use work::{MatchWork, WorkExceeded};

use matcher::{Measured, Room, Taken};

/// A regular expression that compiles within [`Pattern::MAX_COMPILED_BYTES`]. It matches whole
/// texts, which are bytes: see `syntax` for the meaning of its classes.
#[derive(Clone)]
pub struct Pattern(Arc<Parsed>);

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What a pattern is parsed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Its verdict and size, as in a controller.
    Check,
    /// To match texts, as in a proxy.
    Match,
}

/// What equal patterns share.
struct Parsed {
    text: Arc<str>,
    compiled_bytes: usize,
    /// Compiled only where it is matched: a controller measures expressions, and keeps none.
    matcher: OnceLock<Box<Matcher>>,
}

/// Why a text cannot be used as a [`Pattern`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPattern {
    /// Length of the text, which exceeds [`Pattern::MAX_BYTES`].
    #[error("the regular expression is {0} bytes long; the limit is {max}", max = Pattern::MAX_BYTES)]
    TooLong(usize),
    /// It does not compile.
    #[error("the regular expression `{pattern}` does not compile: {reason}")]
    Syntax {
        /// The expression that was given.
        pattern: Arc<str>,
        /// What the parser says about it.
        reason: Arc<str>,
    },
    /// Compiles to more than [`Pattern::MAX_COMPILED_BYTES`].
    #[error(
        "the regular expression `{0}` takes more than {max} KiB when compiled, the budget of one: \
         reduce its repetitions, or its classes of Unicode characters",
        max = Pattern::MAX_COMPILED_BYTES / 1024
    )]
    TooLarge(Arc<str>),
    /// Too large together with others of the object.
    #[error(
        "this regular expression is refused: those of the object exceed its budget, with {kib} KiB \
         of {max} KiB when compiled: use fewer or simpler ones, or split the object",
        kib = .bytes.div_ceil(1024),
        max = .limit / 1024
    )]
    OverBudget {
        /// What they take with the first one that exceeds the budget.
        bytes: usize,
        /// The budget.
        limit: usize,
    },
    /// Not even compiled: as many others of the object are invalid.
    #[error(
        "this regular expression was not checked: correct the {0} invalid ones before it first"
    )]
    NotChecked(usize),
    /// All expressions in use by this process take too much.
    #[error(
        "the regular expressions of all routes take more than {max} MiB when compiled, the limit \
         of a proxy: use fewer or simpler ones",
        max = .0 / 1024 / 1024
    )]
    NoRoom(usize),
}

impl Pattern {
    /// The longest text: 1 KiB; longer ones are mistakes.
    pub const MAX_BYTES: usize = 1024;
    /// The largest compiled form of one expression: 64 KiB. Ordinary ones take 2 to 7 KiB, and
    /// `[A-Za-z0-9+/=_-]{20,512}` takes 54 KiB. The work of a search can grow with it, see
    /// [`MatchWork`].
    pub const MAX_COMPILED_BYTES: usize = 64 * 1024;
    /// The largest sum of the compiled expressions in use by a process: 64 MiB, twice those of a
    /// Gateway, since the previous configuration stays until requests have left it.
    pub const MAX_PROCESS_BYTES: usize = 64 * 1024 * 1024;

    /// Checks length, syntax (the `regex` crate's, so linear time and no look-around), and size.
    /// Compiles a text only if it is not known.
    ///
    /// # Errors
    /// The text is too long, does not compile, or takes too much memory.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        Self::of_text(text, Purpose::Check)
    }

    fn of_text(text: &str, purpose: Purpose) -> Result<Self, InvalidPattern> {
        Self::check_length(text)?;
        known::pattern(text, purpose)
    }

    fn check_length(text: &str) -> Result<(), InvalidPattern> {
        let is_short = text.len() <= Self::MAX_BYTES;
        is_short
            .then_some(())
            .ok_or(InvalidPattern::TooLong(text.len()))
    }

    /// The text as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// What it takes in memory when compiled, in bytes, without the memory for searches.
    #[must_use]
    pub fn compiled_bytes(&self) -> usize {
        self.0.compiled_bytes
    }

    /// How often this process has compiled an expression, to measure or to match it.
    #[must_use]
    pub fn compilations() -> u64 {
        matcher::compilations()
    }

    /// What the compiled expressions of this process take, in bytes.
    #[must_use]
    pub fn process_bytes() -> usize {
        ROOM.used()
    }

    /// How often this process has refused an expression because all of them would take more than
    /// [`Pattern::MAX_PROCESS_BYTES`].
    #[must_use]
    pub fn refused_for_room() -> u64 {
        REFUSED_FOR_ROOM.load(Ordering::Relaxed)
    }

    /// Compiles it for matching, unless that was done. Fails if all expressions of the process would take
    /// more than [`Pattern::MAX_PROCESS_BYTES`].
    fn prepare(&self) -> Result<(), InvalidPattern> {
        if self.0.matcher.get().is_none() {
            self.compile(self.take_room()?);
        }
        Ok(())
    }

    /// Keeps what was compiled to measure it.
    fn prepare_with(&self, measured: Measured) -> Result<(), InvalidPattern> {
        let room = self.take_room()?;
        let matcher = || Box::new(Matcher::of(measured, room));
        self.0.matcher.get_or_init(matcher);
        Ok(())
    }

    fn take_room(&self) -> Result<Taken, InvalidPattern> {
        let room = ROOM.take(self.compiled_bytes(), Self::MAX_PROCESS_BYTES);
        room.ok_or_else(|| {
            REFUSED_FOR_ROOM.fetch_add(1, Ordering::Relaxed);
            InvalidPattern::NoRoom(Self::MAX_PROCESS_BYTES)
        })
    }

    /// The compiled form, which all patterns of this text share.
    #[must_use]
    pub fn matcher(&self) -> &Matcher {
        match self.0.matcher.get() {
            Some(matcher) => matcher,
            None => self.compile(ROOM.take_any(self.compiled_bytes())),
        }
    }

    fn compile(&self, room: Taken) -> &Matcher {
        let matcher = || Box::new(Matcher::of_valid(&self.0.text, room));
        self.0.matcher.get_or_init(matcher)
    }
}

/// What the compiled expressions of this process take.
static ROOM: Room = Room::new();
static REFUSED_FOR_ROOM: AtomicU64 = AtomicU64::new(0);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.as_str()).finish()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
