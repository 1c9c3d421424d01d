//! The regular expressions of a router, and the memory for matching them.
//!
//! Shards share the compiled expressions, so the working memory of searches is in the shard's own
//! [`RegexCache`]: no lock, and no allocation once an expression has seen the usual texts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use xds::model::{MatchMemory, MatchWork, Matcher, Pattern, WorkExceeded};

use crate::limits::{REGEX_CACHE_BYTES, REGEX_STEPS_PER_REQUEST};

/// A shard's working memory for the regular expressions of all its routers and their successors.
///
/// It grows as expressions are used, up to a limit in bytes.
#[derive(Debug)]
pub struct RegexCache {
    searches: Searches,
    /// A text that has to be assembled before matching.
    text: Vec<u8>,
    /// What the searches of the current request may still cost.
    work: MatchWork,
}

impl Default for RegexCache {
    fn default() -> Self {
        Self {
            searches: Searches::default(),
            text: Vec::new(),
            work: MatchWork::of(REGEX_STEPS_PER_REQUEST),
        }
    }
}

impl RegexCache {
    /// An empty cache, for any router.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The working memory of searches, in bytes.
    #[must_use]
    pub fn search_bytes(&self) -> usize {
        self.searches.bytes
    }

    /// Steps that searches have taken since a selection began.
    #[must_use]
    pub fn steps(&self) -> u64 {
        REGEX_STEPS_PER_REQUEST - self.work.left()
    }

    /// Begins a selection, whose searches share the work of a request.
    pub(super) fn begin(&mut self) {
        self.work = MatchWork::of(REGEX_STEPS_PER_REQUEST);
    }
}

/// The working memory of each expression used, by the id of its matcher.
#[derive(Debug, Default)]
struct Searches {
    by_id: HashMap<u64, Search, BuildHasherDefault<IdHasher>>,
    bytes: usize,
}

#[derive(Debug)]
struct Search {
    memory: MatchMemory,
    /// Its size after the last search.
    bytes: usize,
}

impl Searches {
    fn is_match(
        &mut self,
        matcher: &Matcher,
        text: &[u8],
        work: &mut MatchWork,
    ) -> Result<bool, WorkExceeded> {
        if !text.starts_with(matcher.prefix()) {
            return Ok(false);
        }
        let search = match self.by_id.entry(matcher.id()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let memory = matcher.memory(work)?;
                entry.insert(Search { memory, bytes: 0 })
            }
        };
        let is_match = matcher.is_match(text, &mut search.memory, work);
        let bytes = search.memory.bytes();
        self.bytes = self.bytes - search.bytes + bytes;
        search.bytes = bytes;
        if self.bytes > REGEX_CACHE_BYTES {
            // Most entries belong to removed expressions, or to a client that tries them all.
            self.by_id.clear();
            self.bytes = 0;
        }
        is_match
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

/// The distinct regular expressions of some candidates. They are compiled.
#[derive(Debug, Default)]
pub(super) struct Patterns(Box<[Pattern]>);

impl Patterns {
    /// Whether the pattern matches the whole text.
    pub(super) fn is_match(
        &self,
        id: PatternId,
        text: &[u8],
        cache: &mut RegexCache,
    ) -> Result<bool, WorkExceeded> {
        let matcher = self.0[id.0].matcher();
        cache.searches.is_match(matcher, text, &mut cache.work)
    }

    /// Whether the pattern matches the whole text of the bytes.
    pub(super) fn is_match_of(
        &self,
        id: PatternId,
        text: impl Iterator<Item = u8>,
        cache: &mut RegexCache,
    ) -> Result<bool, WorkExceeded> {
        let RegexCache {
            searches,
            text: whole,
            work,
        } = cache;
        whole.clear();
        whole.extend(text);
        work.take(whole.len())?;
        searches.is_match(self.0[id.0].matcher(), whole, work)
    }
}

/// Collects the patterns of candidates under construction.
#[derive(Debug, Default)]
pub(super) struct PatternSet<'a> {
    ids: HashMap<&'a Pattern, PatternId>,
    list: Vec<Pattern>,
}

impl<'a> PatternSet<'a> {
    /// The index of a pattern. It is compiled here if it is in no other router, and was not received
    /// from a controller: never on a shard.
    pub(super) fn add(&mut self, pattern: &'a Pattern) -> PatternId {
        *self.ids.entry(pattern).or_insert_with(|| {
            let _: &Matcher = pattern.matcher();
            self.list.push(pattern.clone());
            PatternId(self.list.len() - 1)
        })
    }

    pub(super) fn build(self) -> Patterns {
        Patterns(self.list.into_boxed_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[Pattern]) -> (Patterns, Vec<PatternId>) {
        let mut set = PatternSet::default();
        let ids = texts.iter().map(|pattern| set.add(pattern)).collect();
        (set.build(), ids)
    }

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).expect("a pattern")
    }

    #[test]
    fn the_working_memory_of_a_shard_is_bounded_in_bytes() {
        // Each byte of the text leads to another state, so each takes what one may take.
        let texts: Vec<Pattern> = (0..400)
            .map(|number| pattern(&format!("(a|b)*a(a|b){{60}}{number}")))
            .collect();
        let (patterns, ids) = patterns(&texts);
        let text: Vec<u8> = (0..4_000_u32)
            .map(|at| b"ab"[usize::from(at.wrapping_mul(2_654_435_761) >> 13 & 1 == 0)])
            .collect();
        let mut cache = RegexCache::new();
        let mut largest = 0;
        for id in &ids {
            cache.begin();
            let _ = patterns.is_match(*id, &text, &mut cache);
            largest = largest.max(cache.search_bytes());
            assert!(cache.search_bytes() <= REGEX_CACHE_BYTES);
            let held = cache.searches.by_id.values();
            let held: usize = held.map(|search| search.memory.bytes()).sum();
            assert_eq!(held, cache.search_bytes());
        }
        assert!(largest > REGEX_CACHE_BYTES / 2, "{largest}: it was used");
        assert!(cache.searches.by_id.len() < ids.len(), "some were dropped");
    }

    #[test]
    fn ordinary_expressions_take_little_working_memory() {
        let texts = [
            pattern("/v[0-9]+/.*"),
            pattern("[a-z]{2}(-[A-Z]{2})?"),
            pattern(".*(Android|iPhone).*"),
        ];
        let (patterns, ids) = patterns(&texts);
        let mut cache = RegexCache::new();
        for id in ids {
            for text in ["/v12/items", "en-GB", "Mozilla/5.0 (iPhone; like Mac OS X)"] {
                let _ = patterns.is_match(id, text.as_bytes(), &mut cache);
            }
        }
        let bytes = cache.search_bytes();
        assert!(bytes < 12 << 10, "{bytes}");
    }
}
