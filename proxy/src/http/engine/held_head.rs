//! A head that is known, but not sent yet: it is encoded when it is, since header compression depends on what
//! was sent before.

use super::head_writer::{Scheme, SectionWriter};
use crate::http::known::KnownHeader;

/// A head, of a request or a response.
#[derive(Debug, Default)]
pub struct HeldHead {
    /// Names and values, without anything between them.
    text: Vec<u8>,
    fields: Vec<HeldField>,
}

/// A field: the lengths of its texts.
#[derive(Debug)]
struct HeldField {
    kind: HeldKind,
    name_length: u32,
    value_length: u32,
}

#[derive(Debug, Clone, Copy)]
enum HeldKind {
    Status(u16),
    Method,
    Scheme(Scheme),
    Path,
    Authority,
    Protocol,
    Field(KnownHeader),
}

impl HeldHead {
    /// Removes everything and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let fields = self
            .fields
            .capacity()
            .saturating_mul(size_of::<HeldField>());
        self.text.capacity().saturating_add(fields)
    }

    /// Writes the head.
    pub fn write(&self, writer: &mut impl SectionWriter) {
        let mut rest = &*self.text;
        for field in &self.fields {
            let (name, behind) = split(rest, field.name_length);
            let (value, behind) = split(behind, field.value_length);
            match field.kind {
                HeldKind::Status(status) => writer.status(status),
                HeldKind::Method => writer.method(value),
                HeldKind::Scheme(scheme) => writer.scheme(scheme),
                HeldKind::Path => writer.path(value),
                HeldKind::Authority => writer.authority(value),
                HeldKind::Protocol => writer.protocol(value),
                HeldKind::Field(known) => writer.field(known, name, value),
            }
            rest = behind;
        }
    }

    fn hold(&mut self, kind: HeldKind, name: &[u8], value: &[u8]) {
        let lengths = (u32::try_from(name.len()), u32::try_from(value.len()));
        // Heads are limited to far less.
        if let (Ok(name_length), Ok(value_length)) = lengths {
            self.text.extend_from_slice(name);
            self.text.extend_from_slice(value);
            self.fields.push(HeldField {
                kind,
                name_length,
                value_length,
            });
        }
    }
}

impl SectionWriter for HeldHead {
    fn status(&mut self, status: u16) {
        self.hold(HeldKind::Status(status), b"", b"");
    }

    fn method(&mut self, method: &[u8]) {
        self.hold(HeldKind::Method, b"", method);
    }

    fn scheme(&mut self, scheme: Scheme) {
        self.hold(HeldKind::Scheme(scheme), b"", b"");
    }

    fn path(&mut self, path: &[u8]) {
        self.hold(HeldKind::Path, b"", path);
    }

    fn authority(&mut self, authority: &[u8]) {
        self.hold(HeldKind::Authority, b"", authority);
    }

    fn protocol(&mut self, protocol: &[u8]) {
        self.hold(HeldKind::Protocol, b"", protocol);
    }

    fn field(&mut self, known: KnownHeader, name: &[u8], value: &[u8]) {
        self.hold(HeldKind::Field(known), name, value);
    }
}

fn split(text: &[u8], length: u32) -> (&[u8], &[u8]) {
    let at = usize::try_from(length).unwrap_or(usize::MAX);
    text.split_at_checked(at).unwrap_or((text, b""))
}
