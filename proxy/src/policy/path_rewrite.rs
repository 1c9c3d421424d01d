//! Rewrites of paths by a regular expression (`pathRewrite` of a policy).
//!
//! All matches in the normalised path are replaced, after routing, and the result is normalised again: a backend
//! never gets a path that the gateway would have refused from a client.

// Peers cannot cause a panic: no indexing, no overflowing arithmetic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use thiserror::Error;
use xds::model::{
    self, Finder, FinderMemory, Found, MatchWork, PathOptions, PathRewriteRule, Substitution,
    SubstitutionPart, WorkExceeded,
};

use super::normalise::{PathError, Target, normalise_target};
use crate::failure::{Failure, FailureKind};
use crate::limits::{PATH_REWRITE_CACHE_BYTES, REGEX_STEPS_PER_REQUEST};
use crate::names::causes;

/// What happens to paths of requests to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathRewrite {
    /// They are rewritten.
    Rule(PathRewriteRule),
    /// The rewrite is invalid.
    Invalid,
    /// A filter of the rule rewrites them too, and nothing says which of both is meant.
    Ambiguous,
}

impl PathRewrite {
    /// Compiles the rewrite of a policy.
    #[must_use]
    pub fn compile(rewrite: &model::PathRewrite) -> Self {
        match rewrite {
            model::PathRewrite::Rule(rule) => {
                // Now, and not on a shard.
                let _: &Finder = rule.finder();
                Self::Rule(rule.clone())
            }
            model::PathRewrite::Invalid => Self::Invalid,
        }
    }
}

/// Why a path cannot be rewritten: the configuration does not suit the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadRewrite {
    /// No version of the policy's rewrite is valid.
    #[error("the rewrite is invalid")]
    Invalid,
    /// Both a filter and a policy of the rule rewrite paths.
    #[error("a filter of the rule rewrites the path too")]
    Ambiguous,
    /// The new path is none.
    #[error("the new path does not begin with a slash")]
    NoSlash,
    /// `.` or `..`, also escaped, is a segment of the new path.
    #[error("the new path has a dot segment")]
    DotSegment,
    /// The new path has an escape without two hexadecimal digits, or `%00`.
    #[error("the new path has an invalid escape")]
    Escape,
    /// The new path has `%2F`, which `pathOptions` of the Gateway refuse.
    #[error("the new path has an escaped slash")]
    EscapedSlash,
    /// Path and query are longer than a request line may be.
    #[error("the new path is too long")]
    TooLong,
    /// The expression takes too much work.
    #[error("the expression takes too much work")]
    TooCostly,
}

impl BadRewrite {
    /// A stable name for logs and traces.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_policy",
            Self::Ambiguous => "two_rewrites",
            Self::NoSlash => "no_slash",
            Self::DotSegment => "dot_segment",
            Self::Escape => "path_escape",
            Self::EscapedSlash => "path_escaped_slash",
            Self::TooLong => "too_long",
            Self::TooCostly => "too_costly",
        }
    }
}

impl From<BadRewrite> for Failure {
    fn from(error: BadRewrite) -> Self {
        Self::because(FailureKind::BadRewrite, error.reason())
    }
}

impl From<WorkExceeded> for BadRewrite {
    fn from(_: WorkExceeded) -> Self {
        Self::TooCostly
    }
}

impl From<PathError> for BadRewrite {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Form => Self::NoSlash,
            PathError::EscapedSlash => Self::EscapedSlash,
            // All other bytes are those of a normal path, or were encoded.
            PathError::Escape | PathError::Byte => Self::Escape,
        }
    }
}

/// What new paths have to comply with.
#[derive(Debug, Clone, Copy)]
pub struct ResultLimits {
    /// How paths are normalised.
    pub options: PathOptions,
    /// Most bytes of path and query.
    pub bytes: usize,
}

/// The result of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewritten {
    /// Nothing matched.
    Unchanged,
    /// The new path, with so many bytes of its own query.
    Changed,
}

causes! {
    /// What became of the path of a request that a rewrite is for.
    RewriteResult;
    /// The backend gets another one.
    Rewritten "rewritten";
    /// Nothing of it matches.
    Unchanged "unchanged";
    /// The request is refused, since the new one is none.
    Refused "refused";
}

impl From<Result<Rewritten, BadRewrite>> for RewriteResult {
    fn from(result: Result<Rewritten, BadRewrite>) -> Self {
        match result {
            Ok(Rewritten::Changed) => Self::Rewritten,
            Ok(Rewritten::Unchanged) => Self::Unchanged,
            Err(_) => Self::Refused,
        }
    }
}

/// A shard's memory for rewrites: nothing is allocated once an expression has seen the usual paths.
#[derive(Debug, Default)]
pub struct RewriteScratch {
    searches: HashMap<u64, Search>,
    bytes: usize,
    /// The new path and query, before they are normalised.
    raw: Vec<u8>,
    query: Vec<u8>,
    normal: Vec<u8>,
}

#[derive(Debug)]
struct Search {
    memory: FinderMemory,
    /// Its size after the last search.
    bytes: usize,
}

impl RewriteScratch {
    /// The working memory of searches, in bytes.
    #[must_use]
    pub fn search_bytes(&self) -> usize {
        self.bytes
    }

    /// Notes what the memory of a finder takes now. Beyond the limit all of it is dropped: most belongs to
    /// expressions that are gone, or to a client that tries them all.
    fn settle(&mut self, id: u64) {
        if let Some(search) = self.searches.get_mut(&id) {
            let bytes = search.memory.bytes();
            self.bytes = self
                .bytes
                .saturating_sub(search.bytes)
                .saturating_add(bytes);
            search.bytes = bytes;
        }
        if self.bytes > PATH_REWRITE_CACHE_BYTES {
            self.searches.clear();
            self.bytes = 0;
        }
    }
}

/// Writes the target for the backend to `out`.
///
/// # Errors
/// The new path is none that a backend may get; the rest of `out` is undefined.
pub fn rewrite(
    rewrite: &PathRewrite,
    target: Target<'_>,
    limits: ResultLimits,
    scratch: &mut RewriteScratch,
    out: &mut Vec<u8>,
) -> Result<Rewritten, BadRewrite> {
    let rule = match rewrite {
        PathRewrite::Rule(rule) => rule,
        PathRewrite::Invalid => return Err(BadRewrite::Invalid),
        PathRewrite::Ambiguous => return Err(BadRewrite::Ambiguous),
    };
    let path = target.path().as_bytes();
    // The target of OPTIONS may be `*`, which is no path.
    let is_path = path.first() == Some(&b'/');
    if !is_path || !expand(rule, path, limits.bytes, scratch)? {
        out.extend_from_slice(target.text.as_bytes());
        return Ok(Rewritten::Unchanged);
    }
    let RewriteScratch {
        raw, query, normal, ..
    } = scratch;
    if raw.first() != Some(&b'/') {
        return Err(BadRewrite::NoSlash);
    }
    if has_dot_segment(raw) {
        return Err(BadRewrite::DotSegment);
    }
    merge_leading_slashes(raw);
    append_query(rule.substitution(), query, target.query(), raw);
    if raw.len() > limits.bytes {
        return Err(BadRewrite::TooLong);
    }
    let normal = normalise_target(raw, limits.options, normal)?;
    out.extend_from_slice(normal.text.as_bytes());
    Ok(Rewritten::Changed)
}

/// Leaves one of the slashes that a path begins with: a backend could read `//host` as an authority, to redirect to.
fn merge_leading_slashes(path: &mut Vec<u8>) {
    if path.starts_with(b"//") {
        let leading = path.iter().take_while(|byte| **byte == b'/').count();
        path.drain(..leading.saturating_sub(1));
    }
}

/// Replaces all matches in the path, and writes the own query of the first. Returns whether there was one.
fn expand(
    rule: &PathRewriteRule,
    path: &[u8],
    most: usize,
    scratch: &mut RewriteScratch,
) -> Result<bool, BadRewrite> {
    let finder = rule.finder();
    let work = &mut MatchWork::of(REGEX_STEPS_PER_REQUEST);
    let search = match scratch.searches.entry(finder.id()) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let memory = finder.memory(work)?;
            entry.insert(Search { memory, bytes: 0 })
        }
    };
    scratch.raw.clear();
    scratch.query.clear();
    let mut replacing = Replacing {
        substitution: rule.substitution(),
        path,
        most,
        raw: &mut scratch.raw,
        query: &mut scratch.query,
    };
    let replaced = replacing.replace_all(finder, &mut search.memory, work);
    scratch.settle(finder.id());
    replaced
}

struct Replacing<'a> {
    substitution: &'a Substitution,
    path: &'a [u8],
    most: usize,
    raw: &'a mut Vec<u8>,
    query: &'a mut Vec<u8>,
}

impl Replacing<'_> {
    fn replace_all(
        &mut self,
        finder: &Finder,
        memory: &mut FinderMemory,
        work: &mut MatchWork,
    ) -> Result<bool, BadRewrite> {
        let (mut from, mut copied, mut last) = (0, 0, None);
        while let Some(found) = finder.find(self.path, from, memory, work)? {
            let Found { start, end } = found;
            // An empty match directly after a match is none, as in RE2.
            if start == end && last == Some(end) {
                from = end.saturating_add(1);
                continue;
            }
            self.copy(copied, start);
            if last.is_none() {
                let query = self.substitution.query().unwrap_or_default();
                append(query, self.path, memory, Place::Query, self.query);
            }
            append(
                self.substitution.path(),
                self.path,
                memory,
                Place::Path,
                self.raw,
            );
            if self.raw.len().saturating_add(self.query.len()) > self.most {
                return Err(BadRewrite::TooLong);
            }
            (from, copied, last) = (end, end, Some(end));
        }
        if last.is_some() {
            self.copy(copied, self.path.len());
        }
        Ok(last.is_some())
    }

    fn copy(&mut self, from: usize, to: usize) {
        let part = self.path.get(from..to).unwrap_or_default();
        self.raw.extend_from_slice(part);
    }
}

/// Where a part of a substitution is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Query,
}

fn append(
    parts: &[SubstitutionPart],
    path: &[u8],
    memory: &FinderMemory,
    place: Place,
    out: &mut Vec<u8>,
) {
    for part in parts {
        match part {
            SubstitutionPart::Literal(literal) => out.extend_from_slice(literal),
            SubstitutionPart::Group(number) => {
                let group = memory.group(usize::from(*number));
                let text = group.and_then(|it| path.get(it.start..it.end));
                let text = text.unwrap_or_default();
                match place {
                    Place::Path => out.extend_from_slice(text),
                    Place::Query => append_value(text, out),
                }
            }
        }
    }
}

/// Appends text of a path to a query, where these characters would end the value or mean a space.
fn append_value(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"%26"),
            b';' => out.extend_from_slice(b"%3B"),
            b'+' => out.extend_from_slice(b"%2B"),
            b'=' => out.extend_from_slice(b"%3D"),
            byte => out.push(*byte),
        }
    }
}

/// Appends the query of the substitution, and then the client's.
fn append_query(substitution: &Substitution, own: &[u8], client: Option<&str>, raw: &mut Vec<u8>) {
    if substitution.query().is_none() {
        if let Some(client) = client {
            raw.push(b'?');
            raw.extend_from_slice(client.as_bytes());
        }
        return;
    }
    let client = client.unwrap_or_default().as_bytes();
    let mut separator = b'?';
    for part in [own, client] {
        if !part.is_empty() {
            raw.push(separator);
            raw.extend_from_slice(part);
            separator = b'&';
        }
    }
}

/// Whether `.` or `..` is a segment of a path, also with escaped dots.
fn has_dot_segment(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(is_dot_segment)
}

fn is_dot_segment(mut segment: &[u8]) -> bool {
    for dots in 0_u8.. {
        segment = match segment {
            [] => return dots > 0,
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] if dots < 2 => rest,
            _ => return false,
        };
    }
    false
}

#[cfg(test)]
mod tests;
