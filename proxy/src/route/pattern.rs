//! The regular expressions of a router, and the memory for matching them.
//!
//! Shards share a router, so the working memory of a search is in the shard's own [`RegexCache`]:
//! no lock, and no allocation after the first use of a pattern.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::{Anchored, Input, meta};
use regex_syntax::hir::HirKind;
use xds::model::Pattern;

use crate::limits::REGEX_CACHES;

/// A shard's working memory for the regular expressions of a router and its successors.
///
/// Keep one for each listener of a shard. It grows as patterns are used.
#[derive(Debug, Default)]
pub struct RegexCache {
    /// The working memory of each pattern used, by its id.
    searches: HashMap<u64, Box<meta::Cache>, BuildHasherDefault<IdHasher>>,
    /// A text that has to be assembled before matching.
    text: Vec<u8>,
}

impl RegexCache {
    /// An empty cache, for any router.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Ids are consecutive, so they are their own hashes.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("an id is a u64")
    }

    fn write_u64(&mut self, id: u64) {
        // The table uses the upper bits too.
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Index of a pattern among those of its candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternId(usize);

/// The distinct regular expressions of some candidates.
#[derive(Debug, Default)]
pub(super) struct Patterns(Box<[Arc<Compiled>]>);

#[derive(Debug)]
struct Compiled {
    /// Unique forever: a cache used with another regex would panic.
    id: u64,
    /// The literal prefix of every match. Most rules of a host differ in it, and comparing it costs
    /// a tenth of a search.
    prefix: Box<[u8]>,
    regex: meta::Regex,
}

impl Patterns {
    /// Whether the pattern matches the whole text.
    pub(super) fn is_match(&self, id: PatternId, text: &[u8], cache: &mut RegexCache) -> bool {
        let RegexCache { searches, .. } = cache;
        self.0[id.0].is_match(text, searches)
    }

    /// Whether the pattern matches the whole text of the bytes.
    pub(super) fn is_match_of(
        &self,
        id: PatternId,
        text: impl Iterator<Item = u8>,
        cache: &mut RegexCache,
    ) -> bool {
        let RegexCache {
            searches,
            text: whole,
        } = cache;
        whole.clear();
        whole.extend(text);
        self.0[id.0].is_match(whole, searches)
    }
}

impl Compiled {
    fn is_match(
        &self,
        text: &[u8],
        searches: &mut HashMap<u64, Box<meta::Cache>, BuildHasherDefault<IdHasher>>,
    ) -> bool {
        if !text.starts_with(&self.prefix) {
            return false;
        }
        if searches.len() >= REGEX_CACHES && !searches.contains_key(&self.id) {
            // Most entries belong to removed patterns.
            searches.clear();
        }
        let cache = searches.entry(self.id);
        let cache = cache.or_insert_with(|| Box::new(self.regex.create_cache()));
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        self.regex.search_half_with(cache, &input).is_some()
    }
}

/// The patterns of successive routers, each compiled once.
#[derive(Debug, Default)]
pub(super) struct PatternPool {
    compiled: HashMap<Box<str>, Arc<Compiled>>,
    /// Number of patterns after the last trim.
    left: usize,
}

impl PatternPool {
    fn get(&mut self, pattern: &Pattern) -> Arc<Compiled> {
        if let Some(compiled) = self.compiled.get(pattern.as_str()) {
            return Arc::clone(compiled);
        }
        let regex = pattern.compile();
        let compiled = Arc::new(Compiled {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            prefix: literal_prefix(pattern.as_str()).into_boxed_slice(),
            regex: regex.expect("a pattern was compiled once when it was parsed"),
        });
        let kept = Arc::clone(&compiled);
        self.compiled.insert(pattern.as_str().into(), kept);
        compiled
    }

    /// Removes the patterns that no router uses any more, once their number has doubled.
    pub(super) fn trim(&mut self) {
        if self.compiled.len() > 2 * self.left {
            self.compiled
                .retain(|_, compiled| Arc::strong_count(compiled) > 1);
            self.left = self.compiled.len();
        }
    }
}

/// Collects the patterns of candidates under construction.
#[derive(Debug)]
pub(super) struct PatternSet<'a, 'p> {
    pool: &'p mut PatternPool,
    ids: HashMap<&'a str, PatternId>,
    list: Vec<Arc<Compiled>>,
}

impl<'a, 'p> PatternSet<'a, 'p> {
    pub(super) fn new(pool: &'p mut PatternPool) -> Self {
        Self {
            pool,
            ids: HashMap::new(),
            list: Vec::new(),
        }
    }

    /// The index of a pattern, compiled if it is new.
    pub(super) fn add(&mut self, pattern: &'a Pattern) -> PatternId {
        *self.ids.entry(pattern.as_str()).or_insert_with(|| {
            self.list.push(self.pool.get(pattern));
            PatternId(self.list.len() - 1)
        })
    }

    pub(super) fn build(self) -> Patterns {
        Patterns(self.list.into_boxed_slice())
    }
}

/// The literal prefix of everything a pattern matches; empty if it begins with an alternative.
fn literal_prefix(pattern: &str) -> Vec<u8> {
    let Ok(parsed) = regex_syntax::parse(pattern) else {
        return Vec::new();
    };
    let parts = match parsed.kind() {
        HirKind::Concat(parts) => parts,
        _ => std::slice::from_ref(&parsed),
    };
    let literals = parts.iter().map_while(|part| match part.kind() {
        HirKind::Literal(literal) => Some(&*literal.0),
        _ => None,
    });
    literals.flatten().copied().collect()
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[cfg(test)]
mod tests {
    use super::literal_prefix;

    #[test]
    fn the_literal_prefix_ends_at_the_first_alternative() {
        for (pattern, prefix) in [
            ("/items/[0-9]+", "/items/"),
            ("/items", "/items"),
            ("/items/(a|b)", "/items/"),
            ("/items?", "/item"),
            ("/it(ems)*", "/it"),
            ("/v1/a|/v2/b", ""),
            ("/a\\.b.*", "/a.b"),
            ("(?i)/items", "/"),
            (".*/items", ""),
            ("^/items", ""),
            ("", ""),
        ] {
            assert_eq!(literal_prefix(pattern), prefix.as_bytes(), "{pattern}");
        }
    }
}
