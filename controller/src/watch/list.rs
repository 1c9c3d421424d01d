//! Parses a list while it is received, so that the API server writes an object while this process
//! admits another.

use kube::core::ListMeta;
use serde::de::{Deserialize, IgnoredAny};
use serde_json::Deserializer;
use thiserror::Error;

use super::raw::Raw;

/// A parser of a list: `{"kind": "ServiceList", "metadata": {}, "items": []}`, fields in any order.
#[derive(Debug, Default)]
pub(super) struct ListParser {
    /// Received bytes. Those that are parsed are dropped when more arrive.
    received: Vec<u8>,
    /// How many of them are parsed.
    parsed: usize,
    place: Place,
    metadata: ListMeta,
    has_items: bool,
}

/// The response is no list.
#[derive(Debug, Error)]
#[error("the API server's response is not a list: {0}")]
pub(super) struct NotAList(String);

impl From<serde_json::Error> for NotAList {
    fn from(error: serde_json::Error) -> Self {
        // Its position is that in what was not parsed yet, which differs from one attempt to the next.
        let text = error.to_string();
        let text = text
            .split_once(" at line ")
            .map_or(&*text, |(text, _)| text);
        Self(text.to_owned())
    }
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    BeforeList,
    FirstField,
    NextField,
    AfterField,
    Value(Field),
    FirstItem,
    NextItem,
    AfterItem,
    AfterList,
}

/// A field of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Metadata,
    Items,
    Other,
}

impl ListParser {
    /// Takes the next bytes of the list.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.received.drain(..self.parsed);
        self.parsed = 0;
        self.received.extend_from_slice(bytes);
    }

    /// Number of received bytes that are not parsed yet.
    pub(super) fn unparsed(&self) -> usize {
        self.received.len() - self.parsed
    }

    /// The next object. `None` if more bytes are needed, or the list has ended.
    pub(super) fn next(&mut self) -> Result<Option<Raw>, NotAList> {
        while let Some(byte) = self.skip_space() {
            match (self.place, byte) {
                (Place::BeforeList, b'{') => self.pass(Place::FirstField),
                (Place::FirstField | Place::AfterField, b'}') => self.pass(Place::AfterList),
                (Place::AfterField, b',') => self.pass(Place::NextField),
                (Place::Value(Field::Items), b'[') => self.pass(Place::FirstItem),
                (Place::FirstItem | Place::AfterItem, b']') => self.pass(Place::AfterField),
                (Place::AfterItem, b',') => self.pass(Place::NextItem),
                (Place::FirstItem | Place::NextItem, _) => {
                    let object = self.value()?;
                    if object.is_some() {
                        self.place = Place::AfterItem;
                    }
                    return Ok(object);
                }
                (Place::FirstField | Place::NextField, _) => {
                    if !self.name()? {
                        return Ok(None);
                    }
                }
                (Place::Value(field), _) => {
                    if !self.field(field)? {
                        return Ok(None);
                    }
                    self.place = Place::AfterField;
                }
                (
                    Place::BeforeList | Place::AfterField | Place::AfterItem | Place::AfterList,
                    _,
                ) => {
                    let byte = char::from(byte);
                    return Err(NotAList(format!("`{byte}` is not expected there")));
                }
            }
        }
        Ok(None)
    }

    /// The metadata of the list, once all of it is received.
    pub(super) fn finish(self) -> Result<ListMeta, NotAList> {
        match (self.place, self.has_items) {
            (Place::AfterList, true) => Ok(self.metadata),
            (Place::AfterList, false) => Err(NotAList("it has no items".to_owned())),
            _ => Err(NotAList("it ends too early".to_owned())),
        }
    }

    /// Skips white space. Returns the byte after it.
    fn skip_space(&mut self) -> Option<u8> {
        loop {
            let byte = *self.received.get(self.parsed)?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.parsed += 1;
        }
    }

    fn pass(&mut self, place: Place) {
        self.parsed += 1;
        self.place = place;
    }

    /// Parses the name of a field and its colon. Returns whether they were there.
    fn name(&mut self) -> Result<bool, NotAList> {
        let start = self.parsed;
        let Some(name) = self.value::<String>()? else {
            return Ok(false);
        };
        match self.skip_space() {
            Some(b':') => {
                self.pass(Place::Value(match &*name {
                    "metadata" => Field::Metadata,
                    "items" => Field::Items,
                    _ => Field::Other,
                }));
                self.has_items |= name == "items";
                Ok(true)
            }
            Some(_) => Err(NotAList(format!("a colon is missing after `{name}`"))),
            None => {
                self.parsed = start;
                Ok(false)
            }
        }
    }

    /// Parses the value of a field, except for items. Returns whether it was there.
    fn field(&mut self, field: Field) -> Result<bool, NotAList> {
        Ok(match field {
            Field::Metadata => {
                let metadata = self.value()?;
                let is_there = metadata.is_some();
                self.metadata = metadata.unwrap_or_default();
                is_there
            }
            // `null`, in a list without any.
            Field::Items => self.value::<()>()?.is_some(),
            Field::Other => self.value::<IgnoredAny>()?.is_some(),
        })
    }

    /// Parses one value. `None` if its end is not received yet.
    fn value<'de, T: Deserialize<'de>>(&'de mut self) -> Result<Option<T>, NotAList> {
        let rest = self.received.get(self.parsed..).unwrap_or_default();
        let last = rest.last().copied().unwrap_or_default();
        let mut values = Deserializer::from_slice(rest).into_iter::<T>();
        let value = values.next();
        let length = values.byte_offset();
        match value {
            // More digits may follow.
            Some(Ok(_)) if length == rest.len() && last.is_ascii_digit() => Ok(None),
            Some(Ok(value)) => {
                self.parsed += length;
                Ok(Some(value))
            }
            // A number that is cut there is an error in a value that is not read.
            Some(Err(error)) if !error.is_eof() && !b"-+.eE".contains(&last) => Err(error.into()),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
