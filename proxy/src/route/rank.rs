//! Gateway API's order of precedence among candidates of one place.

use std::cmp::Reverse;

use xds::model::{Hostname, HttpMatch, Order};

use super::compile::Entry;

/// A match of a rule, as kept by the compiler.
pub(crate) trait Source: Clone {
    /// Hosts of the rule; empty means every host.
    fn hostnames(&self) -> &[Hostname];

    fn matches(&self) -> &HttpMatch;

    /// Precedence among equally specific rules.
    fn order(&self) -> Order<'_>;

    /// Breaks ties between equal orders; if equal too, the first wins.
    fn tie_breaker(&self) -> &str;

    /// Index of the rule, and of the match in it.
    fn id(&self) -> (u32, u16);
}

impl Source for Entry<'_> {
    fn hostnames(&self) -> &[Hostname] {
        self.hostnames
    }

    fn matches(&self) -> &HttpMatch {
        self.matches
    }

    fn order(&self) -> Order<'_> {
        self.order
    }

    fn tie_breaker(&self) -> &'static str {
        ""
    }

    fn id(&self) -> (u32, u16) {
        (self.route, self.match_index)
    }
}

/// The candidates of one place, in order of precedence.
pub(super) fn ranked<S: Source>(sources: &[S]) -> Vec<&S> {
    let mut ranked: Vec<&S> = sources.iter().collect();
    // A rank is read from the key of a rule, so it is computed once for each.
    ranked.sort_by_cached_key(|source| rank(*source));
    ranked
}

/// The smaller one wins: with a method, with more headers, with more parameters, the older rule.
fn rank<S: Source>(source: &S) -> impl Ord + '_ {
    let matches = source.matches();
    let (_, match_index) = source.id();
    (
        matches.method.is_none(),
        Reverse(matches.headers.len()),
        Reverse(matches.query.len()),
        source.order(),
        match_index,
        source.tie_breaker(),
    )
}
