//! Parser of server-sent events: bytes in, comments and data out. It does no I/O.

/// A parsed part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    /// A comment line, such as `ready` or `keepalive`.
    Comment(String),
    /// The data of an event.
    Data(String),
}

/// A line or event exceeds the limit of 4 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

#[derive(Debug, Default)]
pub(crate) struct Reader {
    line: Vec<u8>,
    data: String,
    line_end: LineEnd,
}

/// Whether the last byte was a carriage return; a line feed after it belongs to the same line end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LineEnd {
    #[default]
    Other,
    Return,
}

impl Reader {
    /// Parses more bytes, and appends the items they complete.
    ///
    /// # Errors
    /// A line or event exceeds the limit.
    pub(crate) fn feed(&mut self, bytes: &[u8], items: &mut Vec<Item>) -> Result<(), TooLong> {
        for &byte in bytes {
            let last = std::mem::take(&mut self.line_end);
            match byte {
                b'\n' if last == LineEnd::Return => {}
                b'\n' => self.end_line(items),
                b'\r' => {
                    self.line_end = LineEnd::Return;
                    self.end_line(items);
                }
                other => self.line.push(other),
            }
            if self.line.len() + self.data.len() > MAX_EVENT_BYTES {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    fn end_line(&mut self, items: &mut Vec<Item>) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            if !self.data.is_empty() {
                items.push(Item::Data(std::mem::take(&mut self.data)));
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => items.push(Item::Comment(value.to_owned())),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Other fields are not used in traces.
            _ => {}
        }
    }
}

/// Limit of an event: 4 MiB.
const MAX_EVENT_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Item, MAX_EVENT_BYTES, Reader, TooLong};

    fn read(pieces: &[&[u8]]) -> Vec<Item> {
        let (mut reader, mut items) = (Reader::default(), Vec::new());
        for piece in pieces {
            reader.feed(piece, &mut items).expect("short");
        }
        items
    }

    #[test]
    fn comments_and_data_are_parsed() {
        let text = b": ready\r\n\r\ndata: {\"a\":\ndata: 1}\n\nevent: x\ndata:y\r\r: keepalive\n\ndata: cut";
        let expected = [
            Item::Comment("ready".to_owned()),
            Item::Data("{\"a\":\n1}".to_owned()),
            Item::Data("y".to_owned()),
            Item::Comment("keepalive".to_owned()),
        ];
        assert_eq!(read(&[text]), expected);
    }

    #[test]
    fn a_line_above_the_limit_is_rejected() {
        let (mut reader, mut items) = (Reader::default(), Vec::new());
        let endless = vec![b'x'; MAX_EVENT_BYTES + 1];
        assert_eq!(reader.feed(&endless, &mut items), Err(TooLong));
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_chunk_boundaries(
            text in "(:|data: ?|x|é|\r|\n){0,60}",
            at in any::<prop::sample::Index>(),
        ) {
            let bytes = text.as_bytes();
            let (left, right) = bytes.split_at(at.index(bytes.len() + 1));
            prop_assert_eq!(read(&[bytes]), read(&[left, right]));
        }
    }
}
