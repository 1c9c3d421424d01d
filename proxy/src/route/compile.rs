//! Compiles the matches of a listener's rules into a router, and recompiles only what a change
//! affects.
//!
//! Every pair of a match and one of its hosts becomes a candidate: at a path of that host, at the
//! prefix `/`, or among the host's regular expressions. Paths and hosts are distributed over parts
//! by the hash that lookups use: a change recompiles a small part, and all others are shared with
//! the previous router.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use xds::model::{Hostname, HttpMatch, Order, PathMatch};

use super::host::{Coverage, HostName, Level};
use super::part::{NewNode, Part, part_of};
use super::path::{Scope, path_hash};
use super::rank::Source;
use super::select::Router;
use crate::limits::{ROUTER_PARTS, ROUTER_PLACES_PER_PART};

/// One match of one rule.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Hosts of the rule; empty means every host.
    pub hostnames: &'a [Hostname],
    /// Conditions on the request.
    pub matches: &'a HttpMatch,
    /// Precedence among equally specific rules.
    pub order: Order<'a>,
    /// Index of the match in its rule.
    pub match_index: u16,
    /// Index of the rule, chosen by the caller.
    pub route: u32,
}

impl Router {
    /// Compiles the matches of all rules of a listener. Of equal ones the first wins.
    pub fn compile<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Self {
        let mut compiler = RouterCompiler::default();
        for entry in entries {
            compiler.add(&entry);
        }
        compiler.router()
    }
}

/// Compiles successive routers as matches are added and removed.
#[derive(Debug)]
pub(crate) struct RouterCompiler<S> {
    numbers: HashMap<HostName, usize>,
    /// By index, with gaps.
    levels: Vec<Option<Box<NewLevel<S>>>>,
    free: Vec<usize>,
    parts: Vec<NewPart<S>>,
    /// Number of hosts and paths in all parts.
    places: usize,
    dirty: Dirty,
    last: Router,
}

/// The parts that have to be recompiled.
#[derive(Debug, Default)]
struct Dirty {
    levels: BTreeSet<usize>,
    parts: BTreeSet<usize>,
}

/// A level under construction.
#[derive(Debug)]
pub(super) struct NewLevel<S> {
    pub(super) name: HostName,
    pub(super) scope: Scope,
    /// Candidates of the prefix `/`.
    pub(super) root: Vec<S>,
    pub(super) regexes: Vec<S>,
    /// Number of candidates, including those of its paths.
    candidates: usize,
}

/// A part under construction.
#[derive(Debug)]
pub(super) struct NewPart<S> {
    pub(super) hosts: Vec<usize>,
    pub(super) nodes: Vec<NewNode<S>>,
}

impl<S> Default for NewPart<S> {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            nodes: Vec::new(),
        }
    }
}

impl<S> Default for RouterCompiler<S> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            levels: Vec::new(),
            free: Vec::new(),
            parts: vec![NewPart::default()],
            places: 0,
            dirty: Dirty {
                parts: BTreeSet::from([0]),
                ..Dirty::default()
            },
            last: Router::default(),
        }
    }
}

impl<S: Source> RouterCompiler<S> {
    pub(crate) fn add(&mut self, source: &S) {
        for coverage in coverages(source.hostnames()) {
            let number = self.level(coverage);
            self.add_to(number, source);
        }
    }

    fn add_to(&mut self, number: usize, source: &S) {
        let level = self.levels[number].as_mut();
        let level = level.expect("the number of a level is free without it");
        level.candidates += 1;
        self.dirty.levels.insert(number);
        let (path, is_exact) = match &source.matches().path {
            PathMatch::Regex(_) => return push(&mut level.regexes, source),
            PathMatch::Prefix(path) if path.is_empty() => return push(&mut level.root, source),
            PathMatch::Prefix(path) => (path, false),
            PathMatch::Exact(path) => (path, true),
        };
        level.scope.add_path(path, is_exact);
        let part = part_of(path_hash(number, path), self.parts.len());
        self.dirty.parts.insert(part);
        let nodes = &mut self.parts[part].nodes;
        if let Some(node) = nodes.iter_mut().find(|node| node.is(number, path)) {
            node.add(source);
        } else {
            nodes.push(NewNode::new(number, source));
            self.add_place();
        }
    }

    pub(crate) fn remove(&mut self, source: &S) {
        for coverage in coverages(source.hostnames()) {
            let number = self.numbers.get(&HostName::of(coverage));
            if let Some(number) = number.copied() {
                self.remove_from(number, source);
            }
        }
    }

    fn remove_from(&mut self, number: usize, source: &S) {
        let level = self.levels[number].as_mut();
        let level = level.expect("the number of a level is free without it");
        level.candidates -= 1;
        let is_empty = level.candidates == 0;
        self.dirty.levels.insert(number);
        let is_other = |other: &S| other.id() != source.id();
        match &source.matches().path {
            PathMatch::Regex(_) => level.regexes.retain(is_other),
            PathMatch::Prefix(path) if path.is_empty() => level.root.retain(is_other),
            PathMatch::Prefix(path) | PathMatch::Exact(path) => {
                let part = part_of(path_hash(number, path), self.parts.len());
                self.dirty.parts.insert(part);
                let nodes = &mut self.parts[part].nodes;
                let at = nodes.iter().position(|node| node.is(number, path));
                if let Some(at) = at
                    && nodes[at].remove(source)
                {
                    nodes.remove(at);
                    self.places -= 1;
                }
            }
        }
        if is_empty {
            self.remove_level(number);
        }
    }

    /// Replaces a source by one of the same hosts, matches and rank: nothing is compiled again.
    pub(crate) fn replace(&mut self, source: &S) {
        for coverage in coverages(source.hostnames()) {
            let number = self.numbers.get(&HostName::of(coverage)).copied();
            let level = number.and_then(|number| Some((number, self.levels[number].as_mut()?)));
            let Some((number, level)) = level else {
                continue;
            };
            let list = match &source.matches().path {
                PathMatch::Regex(_) => &mut level.regexes,
                PathMatch::Prefix(path) if path.is_empty() => &mut level.root,
                PathMatch::Prefix(path) | PathMatch::Exact(path) => {
                    let part = part_of(path_hash(number, path), self.parts.len());
                    let mut nodes = self.parts[part].nodes.iter_mut();
                    let Some(node) = nodes.find(|node| node.is(number, path)) else {
                        continue;
                    };
                    node.list(source)
                }
            };
            if let Some(old) = list.iter_mut().find(|it| it.id() == source.id()) {
                *old = source.clone();
            }
        }
    }

    /// The same for many: goes through all sources.
    pub(crate) fn update(&mut self, update: impl Fn(&mut S)) {
        for level in self.levels.iter_mut().flatten() {
            level.root.iter_mut().for_each(&update);
            level.regexes.iter_mut().for_each(&update);
        }
        for node in self.parts.iter_mut().flat_map(|it| &mut it.nodes) {
            node.exact.iter_mut().for_each(&update);
            node.prefix.iter_mut().for_each(&update);
        }
    }

    /// The index of a level, added if missing.
    fn level(&mut self, coverage: Coverage<'_>) -> usize {
        let name = HostName::of(coverage);
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.levels.push(None);
            self.levels.len() - 1
        });
        self.numbers.insert(name.clone(), number);
        self.last.record_level(coverage, number);
        self.levels[number] = Some(Box::new(NewLevel {
            name,
            scope: Scope::empty(number),
            root: Vec::new(),
            regexes: Vec::new(),
            candidates: 0,
        }));
        let part = part_of(coverage.hash(), self.parts.len());
        self.parts[part].hosts.push(number);
        self.dirty.parts.insert(part);
        self.add_place();
        number
    }

    fn remove_level(&mut self, number: usize) {
        let Some(level) = self.levels[number].take() else {
            return;
        };
        self.numbers.remove(&level.name);
        self.free.push(number);
        self.last.forget_level(level.name.coverage());
        let part = part_of(level.name.coverage().hash(), self.parts.len());
        self.parts[part].hosts.retain(|host| *host != number);
        self.dirty.parts.insert(part);
        self.places -= 1;
    }

    /// Counts a host or path. When the parts are full, their number doubles, which costs as much as
    /// all additions before, so that additions are cheap on average.
    fn add_place(&mut self) {
        self.places += 1;
        let count = self.parts.len() * 2;
        if self.places <= self.parts.len() * ROUTER_PLACES_PER_PART || count > ROUTER_PARTS {
            return;
        }
        let before = std::mem::take(&mut self.parts);
        self.parts.resize_with(count, NewPart::default);
        for part in before {
            for host in part.hosts {
                let level = self.levels[host].as_ref();
                let hash = level.map(|level| level.name.coverage().hash());
                if let Some(hash) = hash {
                    self.parts[part_of(hash, count)].hosts.push(host);
                }
            }
            for node in part.nodes {
                let hash = path_hash(node.level, node.path());
                self.parts[part_of(hash, count)].nodes.push(node);
            }
        }
        self.dirty.parts = (0..count).collect();
    }

    /// The router of the current matches.
    pub(crate) fn router(&mut self) -> Router {
        let Dirty { levels, parts } = std::mem::take(&mut self.dirty);
        for number in levels {
            let level = self.levels[number].as_deref();
            let level = level.map(|level| Arc::new(Level::compile(level)));
            self.last.levels.set(number, level);
        }
        for number in parts {
            let part = Part::compile(&self.parts[number], &self.levels);
            let compiled = &mut self.last.parts;
            compiled.resize_with(self.parts.len(), Arc::default);
            compiled[number] = Arc::new(part);
        }
        self.last.clone()
    }
}

/// Adds a candidate to those of a place.
pub(super) fn push<S: Source>(list: &mut Vec<S>, source: &S) {
    if list.is_empty() {
        // Most places have one candidate, and a vector begins with room for four.
        list.reserve_exact(1);
    }
    list.push(source.clone());
}

/// The coverages of host names; empty covers every host. Duplicates count once.
fn coverages(hostnames: &[Hostname]) -> impl Iterator<Item = Coverage<'_>> {
    let any = hostnames.is_empty().then_some(Coverage::Any);
    let named = hostnames.iter().enumerate().filter_map(|(at, hostname)| {
        let is_new = !hostnames[..at].contains(hostname);
        is_new.then(|| Coverage::of(Some(hostname)))
    });
    any.into_iter().chain(named)
}
