//! Changes of header fields by a server (authorization, endpoint picker): lines to set, and names
//! whose other lines are removed.

#[expect(missing_docs, reason = "the protobuf definitions document the fields")]
mod messages;

use super::headers::{HeaderEdits, is_ours};
use crate::http::grammar::{self, is_equivalent};
use crate::http::h1::encode::field;
use crate::http::hop_by_hop::is_reserved_with_underscores;
use crate::http::lines::pairs;
use crate::limits::{MAX_HEAD_BYTES, MUTATION_EDITS};

pub use self::messages::{HeaderMutation, HeaderValue, HeaderValueOption, HttpStatus};

/// Edits of one head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mutation {
    /// Lower-case names of which only the server's own lines remain.
    dropped: Vec<Vec<u8>>,
    /// Lines, each ended by CRLF.
    lines: Vec<u8>,
    /// Number of edits in all messages.
    edits: usize,
}

/// A server makes more than [`MUTATION_EDITS`] edits, or adds more bytes than a head may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it edits too many header fields")]
pub struct TooManyEdits;

impl Mutation {
    /// Adds a mutation; `has` tells whether the head has a name already.
    ///
    /// Framing and hop-by-hop fields cannot be changed, nor can pseudo-header fields. Setting a
    /// field overwrites it unless `append` is set: as Envoy does, although the default of
    /// `append_action` has another name. An invalid value still removes the fields that it would
    /// have overwritten.
    ///
    /// # Errors
    /// There are too many edits; some of them may have been added.
    pub fn take(
        &mut self,
        mutation: &HeaderMutation,
        has: impl Fn(&[u8]) -> bool,
    ) -> Result<(), TooManyEdits> {
        let edits = [mutation.remove_headers.len(), mutation.set_headers.len()];
        self.edits = edits.into_iter().fold(self.edits, usize::saturating_add);
        if self.edits > MUTATION_EDITS {
            return Err(TooManyEdits);
        }
        for name in &mutation.remove_headers {
            self.forget(name.as_bytes());
        }
        for option in &mutation.set_headers {
            let Some(header) = &option.header else {
                continue;
            };
            let name = header.key.as_bytes();
            let is_there = || has(name) || self.value(name).is_some();
            match Action::of(option) {
                Action::Append => {}
                Action::Overwrite => self.forget(name),
                Action::OverwriteIfThere if is_there() => self.forget(name),
                Action::AddIfAbsent if !is_there() => {}
                Action::OverwriteIfThere | Action::AddIfAbsent => continue,
            }
            self.append(name, header.bytes());
        }
        if self.lines.len() > MAX_HEAD_BYTES as usize {
            return Err(TooManyEdits);
        }
        Ok(())
    }

    /// Adds a field next to existing ones, if its name and value are valid and it may be changed.
    pub fn append(&mut self, name: &[u8], value: &[u8]) {
        if let Some(name) = name_of(name).filter(|_| is_value(value)) {
            field(&mut self.lines, &name, value);
        }
    }

    /// Removes a field, including earlier lines of this mutation.
    pub fn forget(&mut self, name: &[u8]) {
        let Some(name) = name_of(name) else {
            return;
        };
        if self.value(&name).is_some() {
            self.lines = without(&self.lines, |it| is_equivalent(it, &name));
        }
        if !self.drops(&name) {
            self.dropped.push(name);
        }
    }

    /// Takes back the edits of fields whose name `is_revoked`.
    pub fn revoke(&mut self, is_revoked: impl Fn(&[u8]) -> bool) {
        self.dropped.retain(|name| !is_revoked(name));
        if pairs(&self.lines).any(|(name, _)| is_revoked(name)) {
            self.lines = without(&self.lines, is_revoked);
        }
    }

    /// Adds the changes of a later server.
    pub fn extend(&mut self, later: &Self) {
        for name in &later.dropped {
            self.forget(name);
        }
        self.lines.extend_from_slice(&later.lines);
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.lines.is_empty()
    }

    /// Whether lines of this name are removed.
    #[must_use]
    pub fn drops(&self, name: &[u8]) -> bool {
        self.dropped.iter().any(|it| is_equivalent(it, name))
    }

    /// Removes dropped lines from `lines`, and adds those that are set.
    pub fn edit(&self, lines: &mut Vec<u8>) {
        if pairs(lines).any(|(name, _)| self.drops(name)) {
            *lines = without(lines, |name| self.drops(name));
        }
        lines.extend_from_slice(&self.lines);
    }

    /// As [`Self::edit`], before filters are applied: names that `filters` drop are not
    /// added.
    pub fn edit_before(&self, filters: Option<&HeaderEdits>, lines: &mut Vec<u8>) {
        match filters {
            Some(filters) if pairs(&self.lines).any(|(name, _)| filters.drops(name)) => {
                let kept = Self {
                    lines: without(&self.lines, |name| filters.drops(name)),
                    ..self.clone()
                };
                kept.edit(lines);
            }
            _ => self.edit(lines),
        }
    }

    /// The first value that is set for a name.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.values(name).next()
    }

    /// The values that are set of a field.
    pub fn values<'a>(&'a self, name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
        let set = pairs(&self.lines).filter(move |(it, _)| is_equivalent(it, name));
        set.map(|(_, value)| value)
    }

    /// Lines that are set.
    #[must_use]
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }
}

/// Lines but those of some names.
pub(crate) fn without(lines: &[u8], goes: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut kept = Vec::with_capacity(lines.len());
    for (name, value) in pairs(lines).filter(|(name, _)| !goes(name)) {
        field(&mut kept, name, value);
    }
    kept
}

/// How a field to set treats existing ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Append,
    Overwrite,
    AddIfAbsent,
    OverwriteIfThere,
}

impl Action {
    fn of(option: &HeaderValueOption) -> Self {
        match (option.append, option.append_action) {
            (Some(true), _) => Self::Append,
            (None, 1) => Self::AddIfAbsent,
            (None, 3) => Self::OverwriteIfThere,
            _ => Self::Overwrite,
        }
    }
}

/// A name that may be edited, in lower case. A server may pass on fields that a client made up: none
/// that a backend takes for another reserved field, as when a client sends it.
fn name_of(name: &[u8]) -> Option<Vec<u8>> {
    let is_editable =
        grammar::is_token(name) && !is_ours(name) && !is_reserved_with_underscores(name);
    is_editable.then(|| name.to_ascii_lowercase())
}

fn is_value(value: &[u8]) -> bool {
    http::HeaderValue::from_bytes(value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{
        HeaderMutation, HeaderValue, HeaderValueOption, MAX_HEAD_BYTES, Mutation, TooManyEdits,
    };

    fn set(key: &str, value: &str, append: Option<bool>, append_action: i32) -> HeaderValueOption {
        HeaderValueOption {
            header: Some(HeaderValue {
                key: key.to_owned(),
                value: String::new(),
                raw_value: value.as_bytes().to_vec(),
            }),
            append,
            append_action,
        }
    }

    fn mutation_of(set_headers: Vec<HeaderValueOption>, remove: &[&str]) -> Mutation {
        let mut mutation = Mutation::default();
        let remove_headers = remove.iter().map(|it| (*it).to_owned()).collect();
        let message = HeaderMutation {
            set_headers,
            remove_headers,
        };
        let taken = mutation.take(&message, |name| name == b"there");
        assert_eq!(taken, Ok(()));
        mutation
    }

    #[test]
    fn a_set_field_replaces_an_existing_one() {
        let mutation = mutation_of(vec![set("There", "new", None, 0)], &["Gone"]);
        let mut lines = b"there: old\r\nother: 1\r\ngone: x\r\n".to_vec();
        mutation.edit(&mut lines);
        assert_eq!(lines, b"other: 1\r\nthere: new\r\n");
        assert!(mutation.drops(b"THERE") && mutation.drops(b"gone"));
        assert!(!mutation.drops(b"other"));
    }

    #[test]
    fn the_append_action_of_a_field_is_honoured() {
        let appended = mutation_of(vec![set("there", "b", Some(true), 0)], &[]);
        assert!(!appended.drops(b"there"));
        assert_eq!(appended.lines(), b"there: b\r\n");
        let absent = mutation_of(
            vec![set("there", "b", None, 1), set("new", "c", None, 1)],
            &[],
        );
        assert_eq!(absent.lines(), b"new: c\r\n");
        let present = mutation_of(
            vec![set("there", "b", None, 3), set("new", "c", None, 3)],
            &[],
        );
        assert_eq!(present.lines(), b"there: b\r\n");
    }

    #[test]
    fn framing_pseudo_header_and_invalid_fields_are_ignored() {
        let fields = [
            (":status", "200"),
            (":path", "/other"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("host", "other.test"),
            ("content_length", "3"),
            ("Transfer_Encoding", "chunked"),
            ("X_Forwarded_For", "10.0.0.1"),
            ("x_forwarded-proto", "https"),
            ("x_real_ip", "10.0.0.1"),
            ("", "x"),
            ("a b", "x"),
        ];
        let fields = fields.iter().map(|(key, value)| set(key, value, None, 0));
        let mutation = mutation_of(fields.collect(), &[":method", "content-length"]);
        assert!(mutation.is_empty());
    }

    #[test]
    fn an_invalid_value_removes_the_field() {
        let mutation = mutation_of(vec![set("user", "a\r\nrole: admin", None, 0)], &[]);
        assert!(mutation.drops(b"User") && mutation.lines().is_empty());
    }

    #[test]
    fn the_total_number_and_size_of_edits_is_limited() {
        let mut mutation = Mutation::default();
        let message = |fields, value: &str| HeaderMutation {
            set_headers: vec![set("more", value, Some(true), 0); fields],
            remove_headers: vec!["gone".to_owned()],
        };
        assert_eq!(mutation.take(&message(60, "x"), |_| false), Ok(()));
        let more = mutation.take(&message(60, "x"), |_| false);
        assert_eq!(more, Err(TooManyEdits));
        let long = "x".repeat(MAX_HEAD_BYTES as usize);
        let mut mutation = Mutation::default();
        let long = mutation.take(&message(1, &long), |_| false);
        assert_eq!(long, Err(TooManyEdits));
    }

    #[test]
    fn edits_of_a_later_server_override_those_of_an_earlier_one() {
        let mut first = mutation_of(
            vec![set("step", "1", None, 0), set("first", "a", None, 0)],
            &[],
        );
        let later = mutation_of(
            vec![set("step", "2", None, 0), set("more", "b", Some(true), 0)],
            &[],
        );
        first.extend(&later);
        assert_eq!(first.lines(), b"first: a\r\nstep: 2\r\nmore: b\r\n");
        assert!(first.drops(b"Step") && first.drops(b"first") && !first.drops(b"more"));
        assert_eq!(first.values(b"STEP").collect::<Vec<_>>(), [b"2"]);
    }

    #[test]
    fn revoked_edits_have_no_effect() {
        let mut mutation = mutation_of(
            vec![
                set("x_user", "root", None, 0),
                set("role", "a", Some(true), 0),
            ],
            &["gone"],
        );
        mutation.revoke(|name| name == b"role" || name == b"gone");
        assert!(mutation.drops(b"x_user") && !mutation.drops(b"gone"));
        assert_eq!(mutation.lines(), b"x_user: root\r\n");
        mutation.revoke(|name| name == b"x_user");
        assert!(mutation.is_empty());
    }

    #[test]
    fn lookalike_names_are_treated_as_one() {
        let mutation = mutation_of(vec![set("x-user", "me", None, 0)], &[]);
        assert!(mutation.drops(b"X_User"));
    }
}
