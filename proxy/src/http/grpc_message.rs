//! Framing of gRPC messages: each is preceded by a flag and its length (gRPC over HTTP/2,
//! `Length-Prefixed-Message`).

use prost::Message;
use thiserror::Error;

/// Why bytes are not a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MessageError {
    /// It is compressed, which was not negotiated.
    #[error("compressed although compression was not requested")]
    Compressed,
    /// It announces more bytes than the limit.
    #[error("too large")]
    TooLarge,
    /// It does not decode as its type.
    #[error("malformed")]
    Malformed,
    /// The bytes end within it.
    #[error("cut short")]
    CutShort,
}

/// Appends a message; one too large for its length field, which no request can cause, is left out.
pub fn write(message: &impl Message, out: &mut Vec<u8>) {
    let Ok(length) = u32::try_from(message.encoded_len()) else {
        debug_assert!(false, "a message of 4 GiB");
        return;
    };
    out.push(0);
    out.extend_from_slice(&length.to_be_bytes());
    // Writing to a `Vec` cannot fail.
    let _ = message.encode(out);
}

/// Collects received bytes into complete messages.
#[derive(Debug)]
pub struct Assembler {
    bytes: Vec<u8>,
    /// Bytes at the front that were consumed.
    taken: usize,
    /// Largest message in bytes.
    max: usize,
}

impl Assembler {
    /// For messages up to this size in bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            max,
        }
    }

    /// Adds received bytes; any split of the input gives the same messages.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if complete.
    ///
    /// # Errors
    ///
    /// It is malformed; nothing after it can be read.
    pub fn take<M: Message + Default>(&mut self) -> Result<Option<M>, MessageError> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((&[flag, ref length @ ..], rest)) = rest.split_first_chunk::<PREFIX_BYTES>()
        else {
            return Ok(None);
        };
        if flag != 0 {
            return Err(MessageError::Compressed);
        }
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.max {
            return Err(MessageError::TooLarge);
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let message = M::decode(message).map_err(|_| MessageError::Malformed)?;
        self.taken = self
            .taken
            .saturating_add(PREFIX_BYTES)
            .saturating_add(length);
        Ok(Some(message))
    }

    /// Ends the input.
    ///
    /// # Errors
    ///
    /// It ends within a message.
    pub fn end(&self) -> Result<(), MessageError> {
        if self.taken < self.bytes.len() {
            return Err(MessageError::CutShort);
        }
        Ok(())
    }
}

/// A flag and four bytes of length.
const PREFIX_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::{Assembler, MessageError, write};

    fn messages(texts: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for text in texts {
            write(&(*text).to_owned(), &mut out);
        }
        out
    }

    #[test]
    fn messages_are_reassembled_from_chunks_of_any_size() {
        let texts = ["", "one", "two and more"];
        let bytes = messages(&texts);
        for size in 1..=bytes.len() {
            let mut assembler = Assembler::new(64);
            let mut found: Vec<String> = Vec::new();
            for piece in bytes.chunks(size) {
                assembler.push(piece);
                while let Some(text) = assembler.take().expect("well formed") {
                    found.push(text);
                }
            }
            assert_eq!(found, texts, "in pieces of {size}");
            assert_eq!(assembler.end(), Ok(()));
        }
    }

    #[test]
    fn a_malformed_message_is_rejected() {
        let take = |bytes: &[u8]| {
            let mut assembler = Assembler::new(8);
            assembler.push(bytes);
            assembler.take::<String>()
        };
        assert_eq!(take(&[1, 0, 0, 0, 0]), Err(MessageError::Compressed));
        assert_eq!(take(&[0, 0, 0, 0, 9]), Err(MessageError::TooLarge));
        assert_eq!(take(&[0, 0, 0, 0, 1, 0xff]), Err(MessageError::Malformed));
        assert_eq!(take(&[0, 0, 0, 0]), Ok(None), "a part is missing");
    }

    #[test]
    fn a_truncated_message_is_detected() {
        let mut assembler = Assembler::new(64);
        let bytes = messages(&["one"]);
        assembler.push(&bytes[..bytes.len() - 1]);
        assert_eq!(assembler.take::<String>(), Ok(None));
        assert_eq!(assembler.end(), Err(MessageError::CutShort));
    }
}
