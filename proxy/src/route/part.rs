//! Parts of a router: each has the hosts and paths that hash to it, with their candidates.

use std::sync::Arc;

use http::HeaderName;
use xds::model::PathMatch;

use super::compile::{NewLevel, NewPart, push};
use super::condition::{Condition, ConditionSet};
use super::hash::Hash;
use super::host::{HostName, Kind};
use super::path::Paths;
use super::pattern::Patterns;
use super::rank::{Source, ranked};
use super::select::Candidate;
use super::table::{Table, index_u32};

#[derive(Debug, Default)]
pub(super) struct Part {
    table: Table,
    hosts: Box<[Host]>,
    pub(super) paths: Paths,
    pub(super) matches: Matches,
}

/// A host, and the index of its level.
#[derive(Debug)]
struct Host {
    name: HostName,
    level: u32,
}

/// The part for a hash, out of `parts`.
pub(super) fn part_of(hash: Hash, parts: usize) -> usize {
    // Within a part, the other half of the hash selects the slot.
    usize::try_from(hash.tag()).unwrap_or_default() & (parts - 1)
}

impl Part {
    /// The index of a level by its name.
    pub(super) fn level(&self, hash: Hash, kind: Kind, name: &[u8]) -> Option<usize> {
        let is_meant = |number: usize| self.hosts[number].name.is(kind, name);
        let number = self.table.find(hash, is_meant)?;
        Some(self.hosts[number].level as usize)
    }

    pub(super) fn compile<S: Source>(
        new: &NewPart<S>,
        levels: &[Option<Box<NewLevel<S>>>],
    ) -> Self {
        let hosts = new.hosts.iter().filter_map(|number| {
            let name = levels.get(*number)?.as_ref()?.name.clone();
            let level = index_u32(*number);
            Some(Host { name, level })
        });
        let hosts: Box<[Host]> = hosts.collect();
        let hashes: Vec<Hash> = hosts.iter().map(|it| it.name.coverage().hash()).collect();
        let mut matches = NewMatches::default();
        let nodes = new.nodes.iter().map(|node| {
            let start = matches.count();
            matches.add(&node.exact);
            let middle = matches.count();
            matches.add(&node.prefix);
            (node.level, node.path(), [start, middle, matches.count()])
        });
        let paths = Paths::build(nodes);
        Self {
            table: Table::build(&hashes),
            hosts,
            paths,
            matches: matches.build(),
        }
    }
}

/// Candidates with their conditions.
#[derive(Debug, Default)]
pub(super) struct Matches {
    pub(super) candidates: Box<[Candidate]>,
    pub(super) conditions: Box<[Condition]>,
    /// Names of the headers in conditions.
    pub(super) names: Box<[HeaderName]>,
    pub(super) patterns: Patterns,
}

#[derive(Default)]
pub(super) struct NewMatches<'a> {
    candidates: Vec<Candidate>,
    conditions: ConditionSet<'a>,
}

impl<'a> NewMatches<'a> {
    pub(super) fn count(&self) -> u32 {
        index_u32(self.candidates.len())
    }

    /// Adds the candidates of one place, in Gateway API's order of precedence.
    pub(super) fn add<S: Source>(&mut self, sources: &'a [S]) {
        for source in ranked(sources) {
            let conditions_start = index_u32(self.conditions.list.len());
            self.conditions.add(source.matches());
            let (route, match_index) = source.id();
            self.candidates.push(Candidate {
                route,
                match_index,
                conditions_start,
                conditions_end: index_u32(self.conditions.list.len()),
            });
        }
    }

    pub(super) fn build(self) -> Matches {
        Matches {
            candidates: self.candidates.into_boxed_slice(),
            conditions: self.conditions.list.into_boxed_slice(),
            names: self.conditions.name_list.into_boxed_slice(),
            patterns: self.conditions.patterns.build(),
        }
    }
}

/// A path of a host under construction. It has at least one candidate.
#[derive(Debug)]
pub(super) struct NewNode<S> {
    /// Index of the host.
    pub(super) level: usize,
    /// Candidates that match exactly this path.
    pub(super) exact: Vec<S>,
    /// Candidates that match it and everything under it.
    pub(super) prefix: Vec<S>,
}

impl<S: Source> NewNode<S> {
    pub(super) fn new(level: usize, source: &S) -> Self {
        let mut node = Self {
            level,
            exact: Vec::new(),
            prefix: Vec::new(),
        };
        node.add(source);
        node
    }

    pub(super) fn path(&self) -> &str {
        let source = self.exact.first().or(self.prefix.first());
        match source.map(|source| &source.matches().path) {
            Some(PathMatch::Exact(path) | PathMatch::Prefix(path)) => path,
            Some(PathMatch::Regex(_)) | None => "",
        }
    }

    /// Whether it is this path of this host.
    pub(super) fn is(&self, level: usize, path: &str) -> bool {
        self.level == level && self.path() == path
    }

    pub(super) fn add(&mut self, source: &S) {
        push(self.list(source), source);
    }

    /// Removes a candidate. Returns whether none is left.
    pub(super) fn remove(&mut self, source: &S) -> bool {
        self.list(source).retain(|other| other.id() != source.id());
        self.exact.is_empty() && self.prefix.is_empty()
    }

    pub(super) fn list(&mut self, source: &S) -> &mut Vec<S> {
        match &source.matches().path {
            PathMatch::Exact(_) => &mut self.exact,
            PathMatch::Prefix(_) | PathMatch::Regex(_) => &mut self.prefix,
        }
    }
}

pub(super) type SharedPart = Arc<Part>;
