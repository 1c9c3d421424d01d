//! Rewrites of paths by regular expressions: parsed, measured, and compiled where they are used.

mod ere;
mod substitution;

use std::fmt;
use std::mem::size_of;
use std::sync::{Arc, OnceLock};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::pattern::{Finder, FinderError, Groups};
pub use ere::InvalidEre;
pub use substitution::{InvalidSubstitution, Substitution, SubstitutionPart};

/// The rewrite of a target's paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathRewrite {
    /// Every match is replaced.
    Rule(PathRewriteRule),
    /// The policy's is invalid: requests get status 500, since a backend does not expect their paths.
    Invalid,
}

/// An expression, and what takes the place of its matches. Clones share what was compiled.
#[derive(Clone)]
pub struct PathRewriteRule(Arc<Rule>);

struct Rule {
    pattern: Box<str>,
    substitution: Substitution,
    compiled_bytes: usize,
    /// Compiled only where paths are rewritten: a controller measures it, and keeps nothing.
    finder: OnceLock<Box<Finder>>,
}

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPathPattern {
    /// Longer than [`PathRewriteRule::MAX_BYTES`].
    #[error("it is {0} bytes long: use {max} or less", max = PathRewriteRule::MAX_BYTES)]
    TooLong(usize),
    /// Not an extended regular expression.
    #[error(transparent)]
    Syntax(#[from] InvalidEre),
    /// Compiles to more than [`super::Pattern::MAX_COMPILED_BYTES`].
    #[error(
        "it takes more than {} KiB when compiled, the budget of one regular expression: reduce its repetitions",
        super::Pattern::MAX_COMPILED_BYTES / 1024
    )]
    TooLarge,
}

impl PathRewriteRule {
    /// The longest pattern, and the longest substitution.
    pub const MAX_BYTES: usize = 1024;

    /// Parses a pattern for this substitution, and measures it.
    ///
    /// # Errors
    /// The pattern is too long, no extended regular expression, or takes too much memory.
    pub fn parse(pattern: &str, substitution: Substitution) -> Result<Self, InvalidPathPattern> {
        let finder = compile(pattern, &substitution)?;
        let texts = pattern.len() + substitution.as_str().len();
        Ok(Self(Arc::new(Rule {
            pattern: pattern.into(),
            compiled_bytes: finder.bytes() + texts + size_of::<Rule>(),
            substitution,
            finder: OnceLock::new(),
        })))
    }

    /// The pattern as written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.0.pattern
    }

    /// The substitution.
    #[must_use]
    pub fn substitution(&self) -> &Substitution {
        &self.0.substitution
    }

    /// What it takes in memory when compiled, in bytes, without the memory for searches.
    #[must_use]
    pub fn compiled_bytes(&self) -> usize {
        self.0.compiled_bytes
    }

    /// The compiled pattern. The first call compiles it: never on a shard.
    #[must_use]
    pub fn finder(&self) -> &Finder {
        self.0.finder.get_or_init(|| Box::new(self.0.compiled()))
    }
}

impl Rule {
    fn compiled(&self) -> Finder {
        let compiled = compile(&self.pattern, &self.substitution);
        compiled.expect("it was compiled to be measured")
    }
}

fn compile(pattern: &str, substitution: &Substitution) -> Result<Finder, InvalidPathPattern> {
    if pattern.len() > PathRewriteRule::MAX_BYTES {
        return Err(InvalidPathPattern::TooLong(pattern.len()));
    }
    let translated = ere::translate(pattern)?;
    // More cannot be referred to.
    let groups = if substitution.has_groups() && translated.groups > 0 {
        Groups::Wanted
    } else {
        Groups::Ignored
    };
    Finder::compile(&translated.text, groups).map_err(|error| match error {
        FinderError::TooLarge => InvalidPathPattern::TooLarge,
    })
}

impl PartialEq for PathRewriteRule {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.pattern(), self.substitution()) == (other.pattern(), other.substitution())
    }
}

impl Eq for PathRewriteRule {}

impl fmt::Debug for PathRewriteRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathRewriteRule")
            .field("pattern", &self.pattern())
            .field("substitution", &self.substitution().as_str())
            .finish()
    }
}

impl Serialize for PathRewrite {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Rule(rule) => {
                map.serialize_entry("pattern", rule.pattern())?;
                map.serialize_entry("substitution", rule.substitution())?;
            }
            Self::Invalid => map.serialize_entry("invalid", &true)?,
        }
        map.end()
    }
}
