//! A response head that is known, but not sent yet: it is encoded when it is, since header compression
//! depends on what was sent before.

use super::head_writer::{HeadWriter, ResponseWriter};
use crate::http::known::KnownHeader;

/// A response head.
#[derive(Debug, Default)]
pub struct HeldHead {
    status: u16,
    /// Names and values, without anything between them.
    text: Vec<u8>,
    fields: Vec<HeldField>,
}

#[derive(Debug)]
struct HeldField {
    known: KnownHeader,
    name_length: u32,
    value_length: u32,
}

impl HeldHead {
    /// Removes everything and keeps the memory.
    pub fn clear(&mut self) {
        self.status = 0;
        self.text.clear();
        self.fields.clear();
    }

    /// Writes the head.
    pub fn write(&self, writer: &mut HeadWriter<'_>) {
        writer.status(self.status);
        let mut rest = &*self.text;
        for field in &self.fields {
            let (name, behind) = split(rest, field.name_length);
            let (value, behind) = split(behind, field.value_length);
            writer.field(field.known, name, value);
            rest = behind;
        }
    }
}

impl ResponseWriter for HeldHead {
    fn status(&mut self, status: u16) {
        self.status = status;
    }

    fn field(&mut self, known: KnownHeader, name: &[u8], value: &[u8]) {
        let lengths = (u32::try_from(name.len()), u32::try_from(value.len()));
        // Heads are limited to far less.
        if let (Ok(name_length), Ok(value_length)) = lengths {
            self.text.extend_from_slice(name);
            self.text.extend_from_slice(value);
            self.fields.push(HeldField {
                known,
                name_length,
                value_length,
            });
        }
    }
}

fn split(text: &[u8], length: u32) -> (&[u8], &[u8]) {
    let at = usize::try_from(length).unwrap_or(usize::MAX);
    text.split_at_checked(at).unwrap_or((text, b""))
}
