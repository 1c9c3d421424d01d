//! Compiles the matches of a listener's rules into a router.
//!
//! Every pair of a match and one of its hosts becomes a candidate; candidates of one place (an
//! exact path, a prefix, or the regular expressions of one host) stand together, in the order of
//! Gateway API.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::hash::Hash;

use xds::model::{Hostname, HttpMatch, Order, PathMatch};

use super::condition::ConditionSet;
use super::host::{Coverage, Hosts};
use super::path::{NewNode, Paths, Scope};
use super::select::{Candidate, Router};
use super::table::narrow;

/// One match of one rule.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Hosts of the rule; empty means every host.
    pub hostnames: &'a [Hostname],
    /// The match.
    pub matches: &'a HttpMatch,
    /// Where the rule stands among equally specific ones.
    pub order: &'a Order,
    /// Number of the match in its rule.
    pub match_index: u16,
    /// The rule, by the caller's number.
    pub route: u32,
}

impl Router {
    /// Compiles the matches of all rules of a listener. Of equal ones the first wins.
    pub fn compile<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Self {
        let mut compiler = Compiler::default();
        for entry in entries {
            compiler.add(&entry);
        }
        compiler.build()
    }
}

#[derive(Default)]
struct Compiler<'a> {
    levels: Numbered<Coverage<'a>>,
    /// Regular expressions for paths, by level.
    regexes: Vec<usize>,
    paths: Numbered<(usize, &'a str)>,
    nodes: Vec<NewNode<'a>>,
    conditions: ConditionSet<'a>,
    placed: Vec<Placed<'a>>,
}

impl<'a> Compiler<'a> {
    fn add(&mut self, entry: &Entry<'a>) {
        let conditions_start = narrow(self.conditions.list.len());
        self.conditions.add(entry.matches);
        let candidate = Candidate {
            route: entry.route,
            match_index: entry.match_index,
            conditions_start,
            conditions_end: narrow(self.conditions.list.len()),
        };
        if entry.hostnames.is_empty() {
            self.place(Coverage::Any, entry, candidate);
        }
        for hostname in entry.hostnames {
            self.place(Coverage::of(Some(hostname)), entry, candidate);
        }
    }

    fn place(&mut self, coverage: Coverage<'a>, entry: &Entry<'a>, candidate: Candidate) {
        let level = self.levels.number(coverage);
        self.regexes.resize(self.levels.count(), 0);
        let place = match &entry.matches.path {
            PathMatch::Exact(path) => {
                let node = self.node(level, path);
                self.nodes[node].exact += 1;
                Place::Path(node, Cover::Exact)
            }
            PathMatch::Prefix(path) => {
                let node = self.node(level, path);
                self.nodes[node].prefix += 1;
                Place::Path(node, Cover::Prefix)
            }
            PathMatch::Regex(_) => {
                self.regexes[level] += 1;
                Place::Regex(level)
            }
        };
        self.placed.push(Placed {
            place,
            rank: Rank::of(entry),
            candidate,
        });
    }

    fn node(&mut self, level: usize, path: &'a str) -> usize {
        let number = self.paths.number((level, path));
        if number == self.nodes.len() {
            self.nodes.push(NewNode::new(level, path));
        }
        number
    }

    fn build(mut self) -> Router {
        // Stable: where all else is equal, the caller's order decides, on every replica alike.
        self.placed.sort_by(Placed::compare);
        let mut scopes: Vec<Scope> = (0..self.levels.count()).map(Scope::empty).collect();
        let paths = Paths::build(&self.nodes, &mut scopes);
        let mut start = paths.candidates();
        let mut levels = Vec::with_capacity(scopes.len());
        for ((coverage, scope), count) in self.levels.into_list().zip(scopes).zip(self.regexes) {
            levels.push((coverage, scope, start..start + count));
            start += count;
        }
        Router {
            hosts: Hosts::build(levels),
            paths,
            candidates: self.placed.iter().map(|placed| placed.candidate).collect(),
            conditions: self.conditions.list.into_boxed_slice(),
            names: self.conditions.name_list.into_boxed_slice(),
            patterns: self.conditions.patterns.build(),
        }
    }
}

/// A candidate with its place, and its rank there.
struct Placed<'a> {
    place: Place,
    rank: Rank<'a>,
    candidate: Candidate,
}

impl Placed<'_> {
    fn compare(&self, other: &Self) -> Ordering {
        (self.place, &self.rank).cmp(&(other.place, &other.rank))
    }
}

/// Where a candidate stands, in the order in which the router keeps them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// At a node.
    Path(usize, Cover),
    /// With the regular expressions of a level.
    Regex(usize),
}

/// What a path covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cover {
    /// Itself.
    Exact,
    /// Itself and what is under it.
    Prefix,
}

/// The precedence of Gateway API among candidates of one place; the smaller one wins.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    any_method: bool,
    headers: Reverse<usize>,
    query: Reverse<usize>,
    order: &'a Order,
    match_index: u16,
}

impl<'a> Rank<'a> {
    fn of(entry: &Entry<'a>) -> Self {
        Self {
            any_method: entry.matches.method.is_none(),
            headers: Reverse(entry.matches.headers.len()),
            query: Reverse(entry.matches.query.len()),
            order: entry.order,
            match_index: entry.match_index,
        }
    }
}

/// Distinct values, numbered in the order in which they first came.
struct Numbered<T> {
    numbers: HashMap<T, usize>,
    list: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            list: Vec::new(),
        }
    }
}

impl<T: Copy + Eq + Hash> Numbered<T> {
    fn number(&mut self, value: T) -> usize {
        *self.numbers.entry(value).or_insert_with(|| {
            self.list.push(value);
            self.list.len() - 1
        })
    }

    fn count(&self) -> usize {
        self.list.len()
    }

    fn into_list(self) -> impl Iterator<Item = T> {
        self.list.into_iter()
    }
}
