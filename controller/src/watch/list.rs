//! Parses a list while it is received, so that the API server writes an object while this process
//! admits another, and no list is in memory as a whole.

use kube::core::ListMeta;
use serde::de::{Deserialize, IgnoredAny};
use serde_json::{Deserializer, Error};

use super::raw::Raw;

/// A parser of a list: `{"kind": "ServiceList", "metadata": {}, "items": []}`, fields in any order.
#[derive(Debug, Default)]
pub(super) struct ListParser {
    /// Bytes that are not parsed yet.
    received: Vec<u8>,
    /// How many of them are parsed meanwhile.
    parsed: usize,
    place: Place,
    metadata: ListMeta,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    BeforeList,
    /// Between two fields.
    Fields,
    /// After a name and its colon.
    Metadata,
    ItemList,
    OtherField,
    /// Between two items.
    Items,
    AfterList,
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
    pub(super) fn next(&mut self) -> Result<Option<Raw>, Error> {
        while let Some(byte) = self.skip_space() {
            match (self.place, byte) {
                (Place::BeforeList, b'{') => self.pass(Place::Fields),
                (Place::Fields | Place::Items, b',') => self.parsed += 1,
                (Place::Fields, b'}') => self.pass(Place::AfterList),
                (Place::Items, b']') => self.pass(Place::Fields),
                (Place::ItemList, b'[') => self.pass(Place::Items),
                (Place::Fields, _) => {
                    if !self.name()? {
                        return Ok(None);
                    }
                }
                (Place::Metadata, _) => match self.value()? {
                    Some(metadata) => {
                        self.metadata = metadata;
                        self.place = Place::Fields;
                    }
                    None => return Ok(None),
                },
                (Place::ItemList | Place::OtherField, _) => {
                    // A list without items can have `null`.
                    if self.value::<IgnoredAny>()?.is_none() {
                        return Ok(None);
                    }
                    self.place = Place::Fields;
                }
                (Place::Items, _) => return self.value(),
                (Place::BeforeList | Place::AfterList, _) => {
                    return Err(serde::de::Error::custom("a list is expected"));
                }
            }
        }
        Ok(None)
    }

    /// The metadata of the list, once all of it is received.
    pub(super) fn finish(self) -> Result<ListMeta, Error> {
        if self.place == Place::AfterList {
            Ok(self.metadata)
        } else {
            Err(serde::de::Error::custom("the list ends too early"))
        }
    }

    /// Skips white space. Returns the byte after it.
    fn skip_space(&mut self) -> Option<u8> {
        loop {
            let byte = *self.received.get(self.parsed)?;
            if !byte.is_ascii_whitespace() {
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
    fn name(&mut self) -> Result<bool, Error> {
        let start = self.parsed;
        let Some(name) = self.value::<String>()? else {
            return Ok(false);
        };
        match self.skip_space() {
            Some(b':') => {
                self.parsed += 1;
                self.place = match &*name {
                    "metadata" => Place::Metadata,
                    "items" => Place::ItemList,
                    _ => Place::OtherField,
                };
                Ok(true)
            }
            Some(_) => Err(serde::de::Error::custom("a colon is expected")),
            None => {
                self.parsed = start;
                Ok(false)
            }
        }
    }

    /// Parses one value. `None` if its end is not received yet.
    fn value<'de, T: Deserialize<'de>>(&'de mut self) -> Result<Option<T>, Error> {
        let rest = self.received.get(self.parsed..).unwrap_or_default();
        let mut values = Deserializer::from_slice(rest).into_iter::<T>();
        match values.next() {
            Some(Ok(value)) => {
                self.parsed += values.byte_offset();
                Ok(Some(value))
            }
            Some(Err(error)) if !error.is_eof() => Err(error),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
