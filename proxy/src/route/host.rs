//! Hosts of a router: from a request's host to the levels it falls through.
//!
//! A level is an exact name, a wildcard, or every host.

use std::ops::Range;
use std::sync::Arc;

use xds::model::Hostname;

use super::compile::NewLevel;
use super::hash::Hash;
use super::part::{Matches, NewMatches};
use super::path::Scope;
use super::pattern::PatternPool;
use super::rank::Source;

/// What a level covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Coverage<'a> {
    Exact(&'a str),
    /// Every name under this one, itself not.
    Under(&'a str),
    Any,
}

impl<'a> Coverage<'a> {
    /// What a host name covers; none covers every host.
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

/// A [`Coverage`] without its name; the value seeds the name's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    Exact,
    Under,
    Any,
}

/// A [`Coverage`] that owns its name.
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

/// One level: a host with what it knows of its paths, and with the candidates that need none to be
/// found.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) scope: Scope,
    /// The candidates of the prefix `/`, and behind them those with regular expressions.
    pub(super) matches: Matches,
    /// How many of them are of the prefix.
    root: usize,
}

impl Level {
    pub(super) fn compile<S: Source>(new: &NewLevel<S>, pool: &mut PatternPool) -> Self {
        let mut matches = NewMatches::new(pool);
        matches.add(&new.root);
        let root = matches.count() as usize;
        matches.add(&new.regexes);
        Self {
            scope: new.scope,
            matches: matches.build(),
            root,
        }
    }

    /// Candidates of the prefix `/`.
    pub(super) fn root(&self) -> Range<usize> {
        0..self.root
    }

    /// Candidates that match the path by regular expression.
    pub(super) fn regexes(&self) -> Range<usize> {
        self.root..self.matches.candidates.len()
    }
}

/// The longest wildcard that covers `host`, of those that `find` knows by name, which have at most
/// `deepest` labels, and where it starts. One covers what is under its name: the host without one
/// label or more. Only those count that start behind `after`.
pub(super) fn longest_wildcard(
    host: &[u8],
    deepest: usize,
    after: usize,
    find: impl Fn(Hash, &[u8]) -> Option<usize>,
) -> Option<(usize, usize)> {
    let mut longest = None;
    for suffix in suffixes(host).take(deepest) {
        // There must be a label before the dot before the suffix.
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

/// A name from the start of one of its labels.
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
