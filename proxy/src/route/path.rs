//! Paths of all hosts of a router: from a request's path to the nodes it falls through.
//!
//! One table holds the exact and prefix paths of every host. A request's path is hashed segment by
//! segment, probing only at depths that the host has prefixes of. Each node knows the next shorter
//! prefix of its host, so that falling through is following links.

use std::ops::Range;

use super::hash::Hash;
use super::table::{Link, Table, narrow};

/// One path of one host, with the candidates that match it exactly and as a prefix. Half a cache
/// line, so that it never lies in two.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Node {
    scope: u32,
    key_start: u32,
    key_length: u32,
    /// The next shorter prefix of the host.
    shorter: Link,
    /// Candidates: `start..middle` match exactly, `middle..end` as a prefix.
    start: u32,
    middle: u32,
    end: u32,
}

const _: () = assert!(size_of::<Node>() == 32, "a node fits half a cache line");

impl Node {
    /// Number of the host.
    pub(super) fn scope(&self) -> usize {
        self.scope as usize
    }

    /// Candidates that match this path alone.
    pub(super) fn exact(&self) -> Range<usize> {
        self.start as usize..self.middle as usize
    }

    /// Candidates that match this path and everything under it.
    pub(super) fn prefix(&self) -> Range<usize> {
        self.middle as usize..self.end as usize
    }

    /// Length of the path in bytes.
    pub(super) fn length(&self) -> usize {
        self.key_length as usize
    }
}

/// What one host knows of its paths before a table is touched.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// Number of the host; tells its paths from those of others.
    id: u32,
    /// The node of the prefix `/`.
    root: Link,
    /// Depths of its prefixes.
    prefixes: Depths,
    /// Depths of its exact paths.
    exacts: Depths,
    /// Bytes of its longest path.
    longest: usize,
}

impl Scope {
    /// A host without paths.
    pub(super) fn empty(id: usize) -> Self {
        Self {
            id: narrow(id),
            root: Link::NONE,
            prefixes: Depths::default(),
            exacts: Depths::default(),
            longest: 0,
        }
    }
}

/// Numbers of segments, as a set. 63 and more are one.
#[derive(Debug, Clone, Copy, Default)]
struct Depths(u64);

impl Depths {
    fn add(&mut self, depth: usize) {
        self.0 |= 1 << depth.min(63);
    }

    fn has(self, depth: usize) -> bool {
        self.0 & 1 << depth.min(63) != 0
    }

    /// The greatest depth that may be in it.
    fn greatest(self) -> usize {
        match self.0.checked_ilog2() {
            Some(63) => usize::MAX,
            greatest => greatest.unwrap_or_default() as usize,
        }
    }
}

/// Where a request's path leads in one host, as numbers of nodes.
#[derive(Debug, Default)]
pub(super) struct Located {
    /// The node of the very path.
    pub(super) exact: Option<usize>,
    /// The node of the longest prefix.
    pub(super) prefix: Option<usize>,
}

/// The paths of all hosts.
#[derive(Debug)]
pub(super) struct Paths {
    table: Table,
    nodes: Box<[Node]>,
    keys: Box<[u8]>,
}

impl Paths {
    /// Where `path` leads in the host of `scope`.
    pub(super) fn locate(&self, scope: &Scope, path: &[u8]) -> Located {
        let mut located = Located::default();
        // The target `*` of OPTIONS lies under no prefix.
        if path.first().is_none_or(|byte| *byte == b'/') {
            located.prefix = scope.root.target();
        }
        let reached = Depths(scope.prefixes.0 | scope.exacts.0);
        for step in segments(path, scope).take(reached.greatest()) {
            if step.end > scope.longest {
                break;
            }
            let whole = step.end == path.len();
            let is_exact = whole && scope.exacts.has(step.depth);
            if !is_exact && !scope.prefixes.has(step.depth) {
                continue;
            }
            let found = self.find(scope, step.hash, &path[..step.end]);
            if found.is_some_and(|number| !self.nodes[number].prefix().is_empty()) {
                located.prefix = found;
            }
            if whole {
                located.exact = found;
            }
        }
        located
    }

    /// The node of a number.
    pub(super) fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// The node and every shorter prefix of its host, longest first.
    pub(super) fn prefixes(&self, longest: Option<usize>) -> impl Iterator<Item = &Node> {
        let node = longest.map(|number| self.node(number));
        std::iter::successors(node, |node| node.shorter.target().map(|n| self.node(n)))
    }

    /// How many candidates all nodes have.
    pub(super) fn candidates(&self) -> usize {
        self.nodes.last().map_or(0, |node| node.prefix().end)
    }

    /// Every node.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn find(&self, scope: &Scope, hash: Hash, path: &[u8]) -> Option<usize> {
        self.table.find(hash, |number| {
            let node = &self.nodes[number];
            node.scope == scope.id && self.key(node) == path
        })
    }

    fn key(&self, node: &Node) -> &[u8] {
        &self.keys[node.key_start as usize..][..node.length()]
    }
}

/// A path up to the end of one of its segments.
#[derive(Clone, Copy)]
struct Step {
    /// Bytes up to there.
    end: usize,
    /// Segments up to there.
    depth: usize,
    hash: Hash,
}

/// The steps of a path. A path longer than every path of the scope is read no further than that.
fn segments<'p>(path: &'p [u8], scope: &Scope) -> impl Iterator<Item = Step> + use<'p> {
    let window = &path[..path.len().min(scope.longest.saturating_add(1))];
    let mut step = Step {
        end: 0,
        depth: 0,
        hash: Hash::seeded(scope.id),
    };
    std::iter::from_fn(move || {
        let rest = window.get(step.end + 1..)?;
        let length = rest.iter().position(|byte| *byte == b'/');
        let end = step.end + 1 + length.unwrap_or(rest.len());
        step = Step {
            end,
            depth: step.depth + 1,
            hash: step.hash.append(&window[step.end..end]),
        };
        Some(step)
    })
}

/// One path of one host on its way into the table.
#[derive(Debug)]
pub(super) struct NewNode<'a> {
    scope: usize,
    key: &'a str,
    /// How many candidates match it exactly.
    pub(super) exact: usize,
    /// How many candidates match it as a prefix.
    pub(super) prefix: usize,
}

impl<'a> NewNode<'a> {
    /// A path of the host with this number, without candidates.
    pub(super) fn new(scope: usize, key: &'a str) -> Self {
        Self {
            scope,
            key,
            exact: 0,
            prefix: 0,
        }
    }
}

impl Paths {
    /// Builds the table and notes in each scope what it holds. No two nodes have scope and key
    /// in common. Candidates stand in the order of the nodes, exact ones before prefixes.
    pub(super) fn build(new: &[NewNode<'_>], scopes: &mut [Scope]) -> Self {
        let mut keys = Vec::with_capacity(new.iter().map(|node| node.key.len()).sum());
        let mut nodes = Vec::with_capacity(new.len());
        let mut hashes = Vec::with_capacity(new.len());
        let mut start = 0;
        for node in new {
            let scope = &mut scopes[node.scope];
            let (middle, end) = (start + node.exact, start + node.exact + node.prefix);
            hashes.push(note(node, Link::to(nodes.len()), scope));
            nodes.push(Node {
                scope: scope.id,
                key_start: narrow(keys.len()),
                key_length: narrow(node.key.len()),
                shorter: Link::NONE,
                start: narrow(start),
                middle: narrow(middle),
                end: narrow(end),
            });
            start = end;
            keys.extend_from_slice(node.key.as_bytes());
        }
        let mut paths = Self {
            table: Table::build(&hashes),
            nodes: nodes.into_boxed_slice(),
            keys: keys.into_boxed_slice(),
        };
        paths.link(new, scopes);
        paths
    }

    /// Links every node to the next shorter prefix: the longest that its parent path lies under.
    fn link(&mut self, new: &[NewNode<'_>], scopes: &[Scope]) {
        for (number, node) in new.iter().enumerate() {
            let Some(parent) = node.key.rfind('/').and_then(|end| node.key.get(..end)) else {
                continue;
            };
            let located = self.locate(&scopes[node.scope], parent.as_bytes());
            self.nodes[number].shorter = located.prefix.map_or(Link::NONE, Link::to);
        }
    }
}

/// Notes a path in its scope and returns its hash.
fn note(node: &NewNode<'_>, link: Link, scope: &mut Scope) -> Hash {
    scope.longest = scope.longest.max(node.key.len());
    let last = segments(node.key.as_bytes(), scope).last();
    let Some(Step { depth, hash, .. }) = last else {
        // The prefix `/`, kept without its slash: reached without the table.
        scope.root = link;
        return Hash::seeded(scope.id);
    };
    if node.exact > 0 {
        scope.exacts.add(depth);
    }
    if node.prefix > 0 {
        scope.prefixes.add(depth);
    }
    hash
}
