//! Hosts of a router: from a request's host to the levels it falls through.
//!
//! A level is an exact name, a wildcard, or every host. Which level follows which is known when
//! the router is compiled, so a request looks up its most specific level and follows links.

use std::ops::Range;

use xds::model::Hostname;

use super::hash::Hash;
use super::path::Scope;
use super::table::{Link, Table, narrow};

/// What a level covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Coverage<'a> {
    /// This name.
    Exact(&'a str),
    /// Every name under this one, itself not.
    Under(&'a str),
    /// Every host.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Exact,
    Under,
    Any,
}

/// One level: its paths and regular expressions. A cache line, so that a lookup waits for one.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Level {
    /// Its paths.
    pub(super) scope: Scope,
    name: Box<[u8]>,
    regexes_start: u32,
    regexes_end: u32,
    /// The next less specific level of the same hosts.
    wider: Link,
    kind: Kind,
}

const _: () = assert!(size_of::<Level>() == 64, "a level fits a cache line");

impl Level {
    /// Candidates that match the path by regular expression.
    pub(super) fn regexes(&self) -> Range<usize> {
        self.regexes_start as usize..self.regexes_end as usize
    }
}

/// The levels of a router.
#[derive(Debug)]
pub(super) struct Hosts {
    levels: Box<[Level]>,
    table: Table,
    /// Labels of the wildcard that has the most.
    deepest: usize,
    any: Link,
}

impl Hosts {
    /// Builds the levels. Each comes with its paths and with the candidates of its regular
    /// expressions; no two have the same coverage.
    pub(super) fn build(new: Vec<(Coverage<'_>, Scope, Range<usize>)>) -> Self {
        let hashes: Vec<Hash> = new.iter().map(|(coverage, ..)| coverage.hash()).collect();
        let any = new
            .iter()
            .position(|(coverage, ..)| *coverage == Coverage::Any);
        let labels = |coverage: &Coverage<'_>| match coverage {
            Coverage::Under(name) => suffixes(name.as_bytes()).count(),
            _ => 0,
        };
        let deepest = new.iter().map(|(coverage, ..)| labels(coverage)).max();
        let level = |(coverage, scope, regexes): (Coverage<'_>, Scope, Range<usize>)| Level {
            scope,
            name: coverage.name().into(),
            regexes_start: narrow(regexes.start),
            regexes_end: narrow(regexes.end),
            wider: Link::NONE,
            kind: coverage.kind(),
        };
        let mut hosts = Self {
            levels: new.into_iter().map(level).collect(),
            table: Table::build(&hashes),
            deepest: deepest.unwrap_or_default(),
            any: any.map_or(Link::NONE, Link::to),
        };
        hosts.link();
        hosts
    }

    /// The levels that cover `host`, most specific first, each with its number.
    pub(super) fn covering(&self, host: &[u8]) -> impl Iterator<Item = (usize, &Level)> {
        let first = self
            .find(hash_exact(host), Kind::Exact, host)
            .or_else(|| self.longest_wildcard(host))
            .or(self.any.target());
        std::iter::successors(first, |number| self.levels[*number].wider.target())
            .map(|number| (number, &self.levels[number]))
    }

    /// Every level; the place of each is its number.
    pub(super) fn levels(&self) -> &[Level] {
        &self.levels
    }

    fn longest_wildcard(&self, host: &[u8]) -> Option<usize> {
        longest_wildcard(host, self.deepest, |hash, name| {
            self.find(hash, Kind::Under, name)
        })
    }

    fn find(&self, hash: Hash, kind: Kind, name: &[u8]) -> Option<usize> {
        self.table.find(hash, |number| {
            let level = &self.levels[number];
            level.kind == kind && *level.name == *name
        })
    }

    /// What an exact name or a wildcard covers is also covered by the longest wildcard above it.
    fn link(&mut self) {
        for number in 0..self.levels.len() {
            let level = &self.levels[number];
            let wider = match level.kind {
                Kind::Exact | Kind::Under => self.longest_wildcard(&level.name),
                Kind::Any => continue,
            };
            self.levels[number].wider = wider.map_or(self.any, Link::to);
        }
    }
}

/// The longest wildcard that covers `host`, of those that `find` knows by name, which have at most
/// `deepest` labels. One covers what is under its name: the host without one label or more.
pub(super) fn longest_wildcard(
    host: &[u8],
    deepest: usize,
    find: impl Fn(Hash, &[u8]) -> Option<usize>,
) -> Option<usize> {
    let mut longest = None;
    for suffix in suffixes(host).take(deepest) {
        // There must be a label before the dot before the suffix.
        if suffix.start < 2 {
            break;
        }
        longest = find(suffix.hash, &host[suffix.start..]).or(longest);
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
    /// Where it starts.
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
