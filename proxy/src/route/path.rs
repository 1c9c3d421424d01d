//! Paths of the hosts of a router.
//!
//! Tables hold the exact and prefix paths of every host. A request's path is hashed segment by
//! segment, probing only at depths at which the host has prefixes. If the longest prefix does not
//! match the request, the next shorter one is looked up in the same way.

use std::ops::Range;

use super::hash::Hash;
use super::table::{Table, index_u32};

/// One path of one host, with its candidates. Half a cache line, so that it never spans two.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Node {
    scope: u32,
    key_start: u32,
    key_length: u32,
    /// Candidates: `start..middle` match exactly, `middle..end` as a prefix.
    start: u32,
    middle: u32,
    end: u32,
}

const _: () = assert!(size_of::<Node>() == 32, "a node fits half a cache line");

impl Node {
    /// Index of the host.
    pub(super) fn scope(&self) -> usize {
        self.scope as usize
    }

    /// Candidates that match exactly this path.
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

/// A summary of a host's paths, checked before a table is accessed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// Index of the host; distinguishes its paths from those of others.
    id: u32,
    /// Depths of its prefixes.
    prefixes: Depths,
    /// Depths of its exact paths.
    exacts: Depths,
    /// Length of its longest path.
    longest: u32,
}

impl Scope {
    /// A host without paths.
    pub(super) fn empty(id: usize) -> Self {
        Self {
            id: index_u32(id),
            prefixes: Depths::default(),
            exacts: Depths::default(),
            longest: 0,
        }
    }

    /// Index of the host.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Adds a path of the host.
    pub(super) fn add_path(&mut self, path: &str, is_exact: bool) {
        self.longest = self.longest.max(index_u32(path.len()));
        let depth = steps(self.id, path.as_bytes()).count();
        let depths = if is_exact {
            &mut self.exacts
        } else {
            &mut self.prefixes
        };
        depths.add(depth);
    }

    /// The steps of a request's path at which the host may have a path: those that end before
    /// `limit`, each with whether it is the whole path and the host has exact ones of that depth.
    pub(super) fn steps<'p>(
        &self,
        path: &'p [u8],
        limit: usize,
    ) -> impl Iterator<Item = (PathPrefix, bool)> + use<'p> {
        let Self {
            prefixes, exacts, ..
        } = *self;
        let longest_path = self.longest as usize;
        let longest = longest_path.min(limit.saturating_sub(1));
        let window = &path[..path.len().min(longest_path.saturating_add(1))];
        let reached = Depths(prefixes.0 | exacts.0).greatest();
        let steps = steps(self.id, window).take(reached);
        let steps = steps.take_while(move |step| step.end <= longest);
        steps.filter_map(move |step| {
            let is_exact = step.end == path.len() && exacts.has(step.depth);
            (is_exact || prefixes.has(step.depth)).then_some((step, is_exact))
        })
    }
}

/// A set of numbers of segments. 63 and more are one.
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

/// The paths of a part.
#[derive(Debug, Default)]
pub(super) struct Paths {
    table: Table,
    nodes: Box<[Node]>,
    keys: Box<[u8]>,
}

impl Paths {
    /// The node of this path of a host.
    pub(super) fn find(&self, scope: u32, hash: Hash, path: &[u8]) -> Option<&Node> {
        let number = self.table.find(hash, |number| {
            let node = &self.nodes[number];
            node.scope == scope && self.key(node) == path
        })?;
        Some(&self.nodes[number])
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn key(&self, node: &Node) -> &[u8] {
        &self.keys[node.key_start as usize..][..node.length()]
    }

    /// Builds the table of paths: each with the index of its host and where its exact candidates
    /// begin, its prefix candidates begin, and all end.
    pub(super) fn build<'a>(new: impl Iterator<Item = (usize, &'a str, [u32; 3])>) -> Self {
        let (mut keys, mut nodes, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for (level, path, [start, middle, end]) in new {
            hashes.push(path_hash(level, path));
            nodes.push(Node {
                scope: index_u32(level),
                key_start: index_u32(keys.len()),
                key_length: index_u32(path.len()),
                start,
                middle,
                end,
            });
            keys.extend_from_slice(path.as_bytes());
        }
        Self {
            table: Table::build(&hashes),
            nodes: nodes.into_boxed_slice(),
            keys: keys.into_boxed_slice(),
        }
    }
}

/// A path up to the end of one of its segments.
#[derive(Clone, Copy)]
pub(super) struct PathPrefix {
    /// Bytes up to there.
    pub(super) end: usize,
    /// Segments up to there.
    depth: usize,
    pub(super) hash: Hash,
}

/// The steps of a path of a host.
fn steps(scope: u32, path: &[u8]) -> impl Iterator<Item = PathPrefix> + use<'_> {
    let mut step = PathPrefix {
        end: 0,
        depth: 0,
        hash: Hash::seeded(scope),
    };
    std::iter::from_fn(move || {
        let rest = path.get(step.end + 1..)?;
        let length = rest.iter().position(|byte| *byte == b'/');
        let end = step.end + 1 + length.unwrap_or(rest.len());
        step = PathPrefix {
            end,
            depth: step.depth + 1,
            hash: step.hash.append(&path[step.end..end]),
        };
        Some(step)
    })
}

/// The hash of a path of the host with this index.
pub(super) fn path_hash(level: usize, path: &str) -> Hash {
    let scope = index_u32(level);
    let last = steps(scope, path.as_bytes()).last();
    last.map_or(Hash::seeded(scope), |step| step.hash)
}
