//! Host levels of a router, from the most specific to the least.
//!
//! A level is an exact name, a wildcard, or every host.

use std::ops::Range;
use std::sync::Arc;

use xds::model::Hostname;

use super::compile::NewLevel;
use super::hash::Hash;
use super::part::{Matches, NewMatches};
use super::path::Scope;
use super::rank::Source;

/// The hosts of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Coverage<'a> {
    Exact(&'a str),
    /// Every name under this one, but not itself.
    Under(&'a str),
    Any,
}

impl<'a> Coverage<'a> {
    /// The coverage of a host name; `None` covers every host.
    pub(super) fn of(hostname: Option<&'a Hostname>) -> Self {
        let Some(hostname) = hostname else {
            return Self::Any;
        };
        match hostname.wildcard_suffix() {
            Some(suffix) => Self::Under(suffix),
            None => Self::Exact(hostname.as_str()),
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Exact(_) => Kind::Exact,
            Self::Under(_) => Kind::Under,
            Self::Any => Kind::Any,
        }
    }

    pub(super) fn name(&self) -> &[u8] {
        match self {
            Self::Exact(name) | Self::Under(name) => name.as_bytes(),
            Self::Any => b"",
        }
    }

    pub(super) fn hash(self) -> Hash {
        match self {
            Self::Exact(name) => hash_exact(name.as_bytes()),
            Self::Under(name) => suffixes(name.as_bytes())
                .last()
                .map_or(Hash::seeded(Kind::Under as u32), |suffix| suffix.hash),
            Self::Any => Hash::seeded(Kind::Any as u32),
        }
    }
}

/// The kind of a [`Coverage`]; the value seeds the name's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    Exact,
    Under,
    Any,
}

/// A [`Coverage`] with an owned name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HostName {
    kind: Kind,
    text: Arc<str>,
}

impl HostName {
    pub(super) fn of(coverage: Coverage<'_>) -> Self {
        let text = match coverage {
            Coverage::Exact(name) | Coverage::Under(name) => name,
            Coverage::Any => "",
        };
        Self {
            kind: coverage.kind(),
            text: text.into(),
        }
    }

    pub(super) fn coverage(&self) -> Coverage<'_> {
        match self.kind {
            Kind::Exact => Coverage::Exact(&self.text),
            Kind::Under => Coverage::Under(&self.text),
            Kind::Any => Coverage::Any,
        }
    }

    pub(super) fn is(&self, kind: Kind, name: &[u8]) -> bool {
        self.kind == kind && self.text.as_bytes() == name
    }
}

/// A level: its path table, and the candidates that are not found by path.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) scope: Scope,
    /// The candidates of the prefix `/`, followed by those with regular expressions.
    pub(super) matches: Matches,
    /// How many of them have the prefix.
    root: u32,
}

impl Level {
    pub(super) fn compile<S: Source>(new: &NewLevel<S>) -> Self {
        let mut matches = NewMatches::default();
        matches.add(&new.root);
        let root = matches.count();
        matches.add(&new.regexes);
        Self {
            scope: new.scope,
            matches: matches.build(),
            root,
        }
    }

    /// Candidates of the prefix `/`.
    pub(super) fn root(&self) -> Range<usize> {
        0..self.root as usize
    }

    /// Candidates that match the path by regular expression.
    pub(super) fn regexes(&self) -> Range<usize> {
        self.root as usize..self.matches.candidates.len()
    }
}

/// The longest wildcard that covers `host`, of those known to `find`, which have at most `deepest`
/// labels; with its position. A wildcard covers names with at least one more label. Only those
/// starting after `after` count.
pub(super) fn longest_wildcard(
    host: &[u8],
    deepest: usize,
    after: usize,
    find: impl Fn(Hash, &[u8]) -> Option<usize>,
) -> Option<(usize, usize)> {
    let mut longest = None;
    for suffix in suffixes(host).take(deepest) {
        // The suffix must be preceded by a label and a dot.
        if suffix.start < 2 || suffix.start <= after {
            break;
        }
        let found = find(suffix.hash, &host[suffix.start..]);
        longest = found.map(|found| (found, suffix.start)).or(longest);
    }
    longest
}

/// The hash of an exact name.
pub(super) fn hash_exact(name: &[u8]) -> Hash {
    Hash::seeded(Kind::Exact as u32).append(name)
}

/// A suffix of a name, at a label boundary.
#[derive(Clone, Copy)]
pub(super) struct Suffix {
    pub(super) start: usize,
    /// Its hash as a wildcard's name.
    pub(super) hash: Hash,
}

/// The suffixes of a name, shortest first.
pub(super) fn suffixes(name: &[u8]) -> impl Iterator<Item = Suffix> {
    let mut suffix = Suffix {
        start: name.len(),
        hash: Hash::seeded(Kind::Under as u32),
    };
    std::iter::from_fn(move || {
        let before = suffix.start.checked_sub(1)?;
        let start = name[..before]
            .iter()
            .rposition(|byte| *byte == b'.')
            .map_or(0, |dot| dot + 1);
        suffix = Suffix {
            start,
            hash: suffix.hash.append(&name[start..suffix.start]),
        };
        Some(suffix)
    })
}
