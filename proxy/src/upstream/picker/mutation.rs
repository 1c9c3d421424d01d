//! What a picker changes in a head: lines that it sets, and names whose other lines go.

use crate::http::grammar;
use crate::http::h1::encode::field;
use crate::http::h2::trailers::pairs;
use crate::http::hop_by_hop::REGENERATED;
use crate::http::known::Known;

use super::messages::{HeaderMutation, HeaderValueOption};

/// Edits of one head.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mutation {
    /// Names, in lower case, of which nothing is left but what the picker sets.
    dropped: Vec<Vec<u8>>,
    /// Lines, each ended by CRLF.
    lines: Vec<u8>,
}

impl Mutation {
    /// Takes in a mutation; `has` tells whether the head has a name already.
    ///
    /// Fields of a connection and of framing stay ours, and pseudo-header fields are none. What is no
    /// field is left out. Setting a field overwrites it, unless `append` says otherwise: so does
    /// `ext_proc`, although the default of `append_action` has another name.
    pub(super) fn take(&mut self, mutation: &HeaderMutation, has: impl Fn(&[u8]) -> bool) {
        for name in &mutation.remove_headers {
            if let Some(name) = name_of(name) {
                self.forget(&name);
            }
        }
        for option in &mutation.set_headers {
            let Some(header) = &option.header else {
                continue;
            };
            let (name, value) = (name_of(&header.key), header.bytes());
            let Some(name) = name.filter(|_| is_value(value)) else {
                continue;
            };
            let is_there = has(&name) || self.sets(&name);
            match Action::of(option) {
                Action::Append => {}
                Action::Overwrite => self.forget(&name),
                Action::OverwriteIfThere if is_there => self.forget(&name),
                Action::AddIfAbsent if !is_there => {}
                Action::OverwriteIfThere | Action::AddIfAbsent => continue,
            }
            field(&mut self.lines, &name, value);
        }
    }

    /// Whether lines of this name go.
    pub(crate) fn drops(&self, name: &[u8]) -> bool {
        let mut dropped = self.dropped.iter();
        dropped.any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Takes lines that go out of `lines`, and adds those that are set.
    pub(super) fn edit(&self, lines: &mut Vec<u8>) {
        if pairs(lines).any(|(name, _)| self.drops(name)) {
            let mut kept = Vec::with_capacity(lines.len());
            for (name, value) in pairs(lines).filter(|(name, _)| !self.drops(name)) {
                field(&mut kept, name, value);
            }
            *lines = kept;
        }
        lines.extend_from_slice(&self.lines);
    }

    /// The value that is set of a field.
    pub(super) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let mut set = pairs(&self.lines);
        set.find(|(it, _)| it.eq_ignore_ascii_case(name))
            .map(|it| it.1)
    }

    /// Lines that are set.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }

    fn sets(&self, name: &[u8]) -> bool {
        self.value(name).is_some()
    }

    /// Drops a field, also where it was set before.
    fn forget(&mut self, name: &[u8]) {
        if self.sets(name) {
            let mut kept = Vec::with_capacity(self.lines.len());
            for (it, value) in pairs(&self.lines).filter(|(it, _)| !it.eq_ignore_ascii_case(name)) {
                field(&mut kept, it, value);
            }
            self.lines = kept;
        }
        if !self.drops(name) {
            self.dropped.push(name.to_vec());
        }
    }
}

/// What setting a field does to one that is there.
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

/// A name that may be edited, in lower case.
fn name_of(name: &str) -> Option<Vec<u8>> {
    let name = name.to_ascii_lowercase().into_bytes();
    let is_name = grammar::is_token(&name);
    (is_name && !REGENERATED.has(Known::of(&name))).then_some(name)
}

fn is_value(value: &[u8]) -> bool {
    http::HeaderValue::from_bytes(value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::messages::{HeaderMutation, HeaderValue, HeaderValueOption};
    use super::Mutation;

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

    fn taken(set_headers: Vec<HeaderValueOption>, remove: &[&str]) -> Mutation {
        let mut mutation = Mutation::default();
        let remove_headers = remove.iter().map(|it| (*it).to_owned()).collect();
        let message = HeaderMutation {
            set_headers,
            remove_headers,
        };
        mutation.take(&message, |name| name == b"there");
        mutation
    }

    #[test]
    fn a_field_that_is_set_takes_the_place_of_the_one_that_is_there() {
        let mutation = taken(vec![set("There", "new", None, 0)], &["Gone"]);
        let mut lines = b"there: old\r\nother: 1\r\ngone: x\r\n".to_vec();
        mutation.edit(&mut lines);
        assert_eq!(lines, b"other: 1\r\nthere: new\r\n");
        assert!(mutation.drops(b"THERE") && mutation.drops(b"gone"));
        assert!(!mutation.drops(b"other"));
    }

    #[test]
    fn a_field_is_appended_or_left_alone_where_the_picker_says_so() {
        let appended = taken(vec![set("there", "b", Some(true), 0)], &[]);
        assert!(!appended.drops(b"there"));
        assert_eq!(appended.lines(), b"there: b\r\n");
        let absent = taken(
            vec![set("there", "b", None, 1), set("new", "c", None, 1)],
            &[],
        );
        assert_eq!(absent.lines(), b"new: c\r\n");
        let present = taken(
            vec![set("there", "b", None, 3), set("new", "c", None, 3)],
            &[],
        );
        assert_eq!(present.lines(), b"there: b\r\n");
    }

    #[test]
    fn framing_pseudo_header_fields_and_rubbish_are_left_out() {
        let fields = [
            (":status", "200"),
            (":path", "/other"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("host", "other.test"),
            ("", "x"),
            ("a b", "x"),
            ("split", "a\r\nb: c"),
        ];
        let fields = fields.iter().map(|(key, value)| set(key, value, None, 0));
        let mutation = taken(fields.collect(), &[":method", "content-length"]);
        assert_eq!(mutation, Mutation::default());
    }
}
