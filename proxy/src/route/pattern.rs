//! The regular expressions of a router, and the memory that a shard matches them with.
//!
//! A router is shared by all shards, so what a search writes to lives in the shard's own
//! [`RegexCache`]: no lock, and no allocation once a pattern was used.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::{Anchored, Input, meta};
use regex_syntax::hir::HirKind;
use xds::model::Pattern;

/// What a shard matches the regular expressions of one router with.
///
/// Keep one for each router that the shard holds. It fills as patterns are used; used with another
/// router, it starts afresh.
#[derive(Debug, Default)]
pub struct RegexCache {
    searches: Searches,
    /// A text that has to be put together before it can be matched.
    text: Vec<u8>,
}

impl RegexCache {
    /// An empty cache, good for any router.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The working memory of each pattern that was used.
#[derive(Debug, Default)]
struct Searches {
    /// The patterns that this is the memory of; 0 for none yet.
    patterns: u64,
    list: Vec<Option<Box<meta::Cache>>>,
}

/// Number of a pattern in its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternId(usize);

/// The regular expressions of a router, each distinct one once.
#[derive(Debug)]
pub(super) struct Patterns {
    /// Never 0, and never that of another set.
    id: u64,
    list: Box<[Compiled]>,
}

/// A pattern, ready to match.
#[derive(Debug)]
struct Compiled {
    /// What every text that matches starts with. Most rules of a host differ in it, and comparing
    /// it costs a tenth of a search.
    prefix: Box<[u8]>,
    regex: meta::Regex,
}

impl Patterns {
    /// Whether the pattern matches the whole text.
    pub(super) fn is_match(&self, id: PatternId, text: &[u8], cache: &mut RegexCache) -> bool {
        self.search(id, text, &mut cache.searches)
    }

    /// Whether the pattern matches the whole text that the bytes make.
    pub(super) fn is_match_of(
        &self,
        id: PatternId,
        text: impl Iterator<Item = u8>,
        cache: &mut RegexCache,
    ) -> bool {
        cache.text.clear();
        cache.text.extend(text);
        self.search(id, &cache.text, &mut cache.searches)
    }

    fn search(&self, id: PatternId, text: &[u8], searches: &mut Searches) -> bool {
        let Compiled { prefix, regex } = &self.list[id.0];
        if !text.starts_with(prefix) {
            return false;
        }
        if searches.patterns != self.id {
            searches.list.clear();
            searches.list.resize_with(self.list.len(), || None);
            searches.patterns = self.id;
        }
        let cache = searches.list[id.0].get_or_insert_with(|| Box::new(regex.create_cache()));
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        regex.search_half_with(cache, &input).is_some()
    }
}

/// Collects the patterns of a router that is being compiled.
#[derive(Debug, Default)]
pub(super) struct PatternSet<'a> {
    ids: HashMap<&'a str, PatternId>,
    list: Vec<Compiled>,
}

impl<'a> PatternSet<'a> {
    /// The number of a pattern; compiles it when it is new.
    pub(super) fn add(&mut self, pattern: &'a Pattern) -> PatternId {
        *self.ids.entry(pattern.as_str()).or_insert_with(|| {
            let regex = pattern.compile();
            self.list.push(Compiled {
                prefix: literal_prefix(pattern.as_str()).into_boxed_slice(),
                regex: regex.expect("a pattern was compiled once when it was parsed"),
            });
            PatternId(self.list.len() - 1)
        })
    }

    /// The finished set.
    pub(super) fn build(self) -> Patterns {
        Patterns {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            list: self.list.into_boxed_slice(),
        }
    }
}

/// The bytes that everything a pattern matches starts with; none where there is a choice.
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

/// Tells sets of patterns apart: a cache used with another set's regex would panic.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[cfg(test)]
mod tests {
    use super::literal_prefix;

    #[test]
    fn a_prefix_ends_where_the_first_choice_begins() {
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
