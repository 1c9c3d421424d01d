//! Header edits: those of a rule, then those of its backend, composed into one pass.
//!
//! The encoder drops the names that [`HeaderEdits::drops`] selects and appends
//! [`HeaderEdits::appended`] unchanged. Requests and responses use the same type.

use http::{HeaderName, HeaderValue};
use xds::model::HeaderEdit;

use super::mutation::without;
use crate::http::grammar::is_equivalent;
use crate::http::grpc::is_grpc;
use crate::http::h1::encode::field;
use crate::http::hop_by_hop::{REGENERATED, known_with_underscores};
use crate::http::known::KnownHeader;
use crate::http::lines::pairs;

/// Composed edits: names to drop, lines to append.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    dropped: Box<[HeaderName]>,
    /// Bit `n` is set if a dropped name has `n` bytes (63 or more share a bit).
    lengths: u64,
    appended: Box<[u8]>,
}

impl HeaderEdits {
    /// Composes edits, in the order of application; each as set, add, remove.
    ///
    /// Names of framing, connection and routing (`Host`) are skipped: they are generated, and a
    /// second line would let two parsers see two messages.
    #[must_use]
    pub fn compose(edits: &[Option<&HeaderEdit>]) -> Self {
        Self::compose_without(edits, |_| false)
    }

    /// Composes edits, and also skips names that another filter owns.
    #[must_use]
    pub fn compose_without(edits: &[Option<&HeaderEdit>], owned: fn(&[u8]) -> bool) -> Self {
        let mut draft = Draft {
            owned,
            dropped: Vec::new(),
            appended: Vec::new(),
        };
        for edit in edits.iter().flatten() {
            for (name, value) in &edit.set {
                draft.remove(name);
                draft.append(name, value);
            }
            for (name, value) in &edit.add {
                draft.append(name, value);
            }
            for name in &edit.remove {
                draft.remove(name);
            }
        }
        draft.finish()
    }

    /// Whether there are no edits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths == 0 && self.appended.is_empty()
    }

    /// Whether a name, or one that backends may take for it, is dropped. Without edits this is one
    /// branch.
    #[must_use]
    pub fn drops(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name) != 0
            && self
                .dropped
                .iter()
                .any(|dropped| is_equivalent(dropped.as_str().as_bytes(), name))
    }

    /// Edits the lines of a response of the gateway itself. The lines that give it its meaning stay, and
    /// are not repeated.
    pub fn edit_local(&self, lines: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        let of_grpc = pairs(lines)
            .any(|(name, value)| name.eq_ignore_ascii_case(CONTENT_TYPE) && is_grpc(value));
        let is_meaning =
            |name: &[u8]| is_meaning(name) || of_grpc && name.eq_ignore_ascii_case(CONTENT_TYPE);
        let is_there = |name: &[u8]| {
            pairs(lines).any(|(line, _)| line.eq_ignore_ascii_case(name) && is_meaning(name))
        };
        let appended = pairs(&self.appended).filter(|(name, _)| !is_there(name));
        let mut edited = without(lines, |name| self.drops(name) && !is_meaning(name));
        for (name, value) in appended.filter(|(name, _)| !name.eq_ignore_ascii_case(DATE)) {
            field(&mut edited, name, value);
        }
        *lines = edited;
    }

    /// Lines to append, `name: value\r\n` each.
    #[must_use]
    pub fn appended(&self) -> &[u8] {
        &self.appended
    }
}

struct Draft<'a> {
    owned: fn(&[u8]) -> bool,
    dropped: Vec<&'a HeaderName>,
    appended: Vec<(&'a HeaderName, &'a HeaderValue)>,
}

impl<'a> Draft<'a> {
    fn remove(&mut self, name: &'a HeaderName) {
        if !self.may_edit(name) {
            return;
        }
        self.appended.retain(|(appended, _)| *appended != name);
        if !self.dropped.contains(&name) {
            self.dropped.push(name);
        }
    }

    fn append(&mut self, name: &'a HeaderName, value: &'a HeaderValue) {
        if self.may_edit(name) {
            self.appended.push((name, value));
        }
    }

    fn may_edit(&self, name: &HeaderName) -> bool {
        let name = name.as_str().as_bytes();
        !is_ours(name) && !(self.owned)(name)
    }

    fn finish(self) -> HeaderEdits {
        let mut appended = Vec::new();
        for (name, value) in self.appended {
            appended.extend_from_slice(name.as_str().as_bytes());
            appended.extend_from_slice(b": ");
            appended.extend_from_slice(value.as_bytes());
            appended.extend_from_slice(b"\r\n");
        }
        let with = |bits, name: &&HeaderName| bits | length_bit(name.as_str().as_bytes());
        HeaderEdits {
            lengths: self.dropped.iter().fold(0, with),
            dropped: self.dropped.into_iter().cloned().collect(),
            appended: appended.into(),
        }
    }
}

/// Whether a response of the gateway means something else without this line: where to go, how to
/// authenticate, when to come back, how a gRPC call ended.
fn is_meaning(name: &[u8]) -> bool {
    let names: [&[u8]; 5] = [
        b"location",
        b"www-authenticate",
        b"retry-after",
        b"grpc-status",
        b"grpc-message",
    ];
    names.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Says that the status of a gRPC call is in its trailers, or in the head without a body. A client takes any
/// other value for a failure of HTTP.
const CONTENT_TYPE: &[u8] = b"content-type";

/// The gateway writes its own into every response that it generates.
const DATE: &[u8] = b"date";

fn length_bit(name: &[u8]) -> u64 {
    1 << name.len().min(63)
}

/// Names that no filter may change: those the encoder generates, and `Expect`, also with underscores,
/// which backends may read as dashes.
pub(super) fn is_ours(name: &[u8]) -> bool {
    let known = known_with_underscores(name);
    REGENERATED.has(known) || known == KnownHeader::Expect
}

#[cfg(test)]
mod tests;
