//! Decodes a body's framing (RFC 9112 sections 6 and 7), in place and resumable at any byte.

use std::ops::Range;

use super::error::BodyError;
use super::fields::ends_in_crlf;
use crate::http::head::{Framing, Span};
use crate::http::hop_by_hop::is_forbidden_trailer;
use crate::limits::{
    CHUNK_EXTENSION_BYTES, CHUNK_SIZE_DIGITS, MAX_TRAILER_BYTES, MAX_TRAILER_FIELDS,
};

/// Decodes one body after another; [`BodyDecoder::reset`] keeps its memory.
#[derive(Debug)]
pub struct BodyDecoder {
    state: State,
    /// The trailer section as received.
    raw: Vec<u8>,
    /// Trailers that may be forwarded.
    trailers: Vec<u8>,
    drops_trailers: bool,
    sizes: ChunkSizes,
}

/// Which chunk sizes are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkSizes {
    /// Digits alone (RFC 9112 section 7.1), as in requests: parsers that disagree about anything else
    /// see different requests.
    Exact,
    /// Spaces and tabs may follow, as some origins send them, and as all clients accept them.
    Padded,
}

/// The result of one call to [`BodyDecoder::decode`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Where the payload is now, contiguous in the buffer.
    pub payload: Range<usize>,
    /// Number of bytes consumed: all of them, unless the body has ended; then the next message
    /// follows. The bytes between the payload and here are undefined.
    pub consumed: usize,
    /// Whether the body has ended.
    pub done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Done,
    /// Remaining bytes (section 6.2).
    Length(u64),
    /// Until the connection closes (section 6.3, item 8).
    UntilClose,
    /// `chunk-size = 1*HEXDIG` (section 7.1).
    Size {
        size: u64,
        digits: u8,
    },
    /// `chunk-ext = *( BWS ";" … )`, dropped (section 7.1.1): white space before the first `;`.
    BadSpace {
        size: u64,
        length: u16,
    },
    Extension {
        size: u64,
        length: u16,
    },
    /// After the CR of a size line.
    SizeLf {
        size: u64,
    },
    /// Remaining bytes of chunk data, never 0.
    Data(u64),
    DataCr,
    /// After the data's CR.
    DataLf,
    /// `trailer-section CRLF` (section 7.1.2).
    Trailers,
}

impl Default for BodyDecoder {
    fn default() -> Self {
        Self::new(Framing::Empty)
    }
}

impl BodyDecoder {
    /// A decoder of a body with this framing.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        Self {
            state: State::start(framing),
            raw: Vec::new(),
            trailers: Vec::new(),
            drops_trailers: false,
            sizes: ChunkSizes::Exact,
        }
    }

    /// A decoder of a response's body with this framing.
    #[must_use]
    pub fn of_response(framing: Framing) -> Self {
        Self {
            sizes: ChunkSizes::Padded,
            ..Self::new(framing)
        }
    }

    /// Prepares for the body of another message.
    pub fn reset(&mut self, framing: Framing) {
        self.state = State::start(framing);
        self.raw.clear();
        self.trailers.clear();
        self.drops_trailers = false;
    }

    /// Drops the trailers of this body: a receiver may merge them into header fields that only the
    /// proxy may set.
    pub fn drop_trailers(&mut self) {
        self.drops_trailers = true;
    }

    /// Whether the body has ended. A body without bytes has ended from the start.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Remaining payload bytes, if the framing specifies them.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Done => Some(0),
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Accounts for payload bytes that were transferred otherwise.
    pub fn skip(&mut self, count: usize) {
        if let State::Length(left) = self.state {
            self.state = State::length(less(left, count));
        }
    }

    /// Payload bytes that are announced and not received yet: of the body, or of its chunk.
    #[must_use]
    pub fn announced(&self) -> u64 {
        match self.state {
            State::Length(left) | State::Data(left) => left,
            State::SizeLf { size } => size,
            _ => 0,
        }
    }

    /// The trailers once the body has ended, as lines of `name: value\r\n`, without those that
    /// affect framing, routing or authentication.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        if self.drops_trailers {
            return &[];
        }
        &self.trailers
    }

    /// Takes trailers received separately: lines, each terminated by CRLF, none of them forbidden.
    pub fn take_trailers(&mut self, lines: &[u8]) {
        self.trailers.clear();
        self.trailers.extend_from_slice(lines);
    }

    /// Decodes the body's next bytes in `buf`, moving chunks together in place.
    ///
    /// # Errors
    ///
    /// The framing is malformed; nothing after it can be trusted, and the connection must be
    /// closed.
    pub fn decode(&mut self, buf: &mut [u8]) -> Result<Decoded, BodyError> {
        let mut payload = 0..0;
        let mut at = 0_usize;
        while let Some(&byte) = buf.get(at) {
            match self.state {
                State::Done => break,
                State::Length(left) => {
                    let took = place(buf, &mut payload, at, left);
                    at = at.saturating_add(took);
                    self.state = State::length(less(left, took));
                }
                State::UntilClose => {
                    at = at.saturating_add(place(buf, &mut payload, at, u64::MAX));
                }
                State::Data(left) => {
                    let took = place(buf, &mut payload, at, left);
                    at = at.saturating_add(took);
                    self.state = match less(left, took) {
                        0 => State::DataCr,
                        left => State::Data(left),
                    };
                }
                _ => {
                    at = at.saturating_add(1);
                    self.state = self.step(byte)?;
                }
            }
        }
        Ok(Decoded {
            payload,
            consumed: at,
            done: self.is_done(),
        })
    }

    /// The connection has ended.
    ///
    /// # Errors
    ///
    /// The body is incomplete.
    pub fn end_of_input(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Done | State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError::Truncated),
        }
    }

    /// Processes one byte of chunk framing.
    fn step(&mut self, byte: u8) -> Result<State, BodyError> {
        match (self.state, byte) {
            (State::Size { size, digits }, _) => step_size(size, digits, byte),
            (State::BadSpace { size, length }, b' ' | b'\t') => Ok(State::BadSpace {
                size,
                length: longer(length)?,
            }),
            (State::BadSpace { size, length }, b';') => Ok(State::Extension { size, length }),
            (State::BadSpace { size, .. }, b'\r') if self.sizes == ChunkSizes::Padded => {
                Ok(State::SizeLf { size })
            }
            (State::Extension { size, .. }, b'\r') => Ok(State::SizeLf { size }),
            (State::Extension { size, length }, b'\t' | b' '..=b'~' | 0x80..) => {
                Ok(State::Extension {
                    size,
                    length: longer(length)?,
                })
            }
            (State::BadSpace { .. } | State::Extension { .. }, _) => Err(BodyError::ChunkExtension),
            (State::SizeLf { size: 0 }, b'\n') => Ok(State::Trailers),
            (State::SizeLf { size }, b'\n') => Ok(State::Data(size)),
            (State::SizeLf { .. }, _) => Err(BodyError::ChunkSize),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::size()),
            (State::DataCr | State::DataLf, _) => Err(BodyError::ChunkEnd),
            (State::Trailers, _) => self.step_trailers(byte),
            (State::Done | State::Length(_) | State::UntilClose | State::Data(_), _) => {
                debug_assert!(false, "these take more than a byte at a time");
                Ok(self.state)
            }
        }
    }

    fn step_trailers(&mut self, byte: u8) -> Result<State, BodyError> {
        if self.raw.len() >= MAX_TRAILER_BYTES {
            return Err(BodyError::TrailersTooLarge);
        }
        // A CR must be followed by LF, so do not wait for anything else.
        if byte != b'\n' && self.raw.last() == Some(&b'\r') {
            return Err(BodyError::Trailers);
        }
        self.raw.push(byte);
        if byte != b'\n' {
            return Ok(State::Trailers);
        }
        if !self.raw.ends_with(b"\r\n") {
            return Err(BodyError::Trailers);
        }
        if self.raw == b"\r\n" {
            return Ok(State::Done);
        }
        if self.raw.ends_with(b"\r\n\r\n") {
            self.keep_trailers()?;
            return Ok(State::Done);
        }
        Ok(State::Trailers)
    }

    /// Checks the whole section by the rules of header fields, and keeps the allowed trailers.
    fn keep_trailers(&mut self) -> Result<(), BodyError> {
        let mut found = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
        let fields = match httparse::parse_headers(&self.raw, &mut found) {
            Ok(httparse::Status::Complete((len, fields))) if len == self.raw.len() => fields,
            Err(httparse::Error::TooManyHeaders) => return Err(BodyError::TrailersTooLarge),
            _ => return Err(BodyError::Trailers),
        };
        for field in fields {
            let value = Span::within(&self.raw, field.value).ok_or(BodyError::Trailers)?;
            if !ends_in_crlf(&self.raw, value) {
                return Err(BodyError::Trailers);
            }
            if !is_forbidden_trailer(field.name.as_bytes()) {
                super::encode::field(&mut self.trailers, field.name.as_bytes(), field.value);
            }
        }
        Ok(())
    }
}

impl State {
    fn start(framing: Framing) -> Self {
        match framing {
            Framing::Empty => Self::Done,
            Framing::Length(length) => Self::length(length),
            Framing::Chunked => Self::size(),
            Framing::UntilClose => Self::UntilClose,
        }
    }

    fn length(left: u64) -> Self {
        match left {
            0 => Self::Done,
            left => Self::Length(left),
        }
    }

    fn size() -> Self {
        Self::Size { size: 0, digits: 0 }
    }
}

fn step_size(size: u64, digits: u8, byte: u8) -> Result<State, BodyError> {
    let value = match byte {
        b'0'..=b'9' => byte.wrapping_sub(b'0'),
        b'a'..=b'f' => byte.wrapping_sub(b'a').wrapping_add(10),
        b'A'..=b'F' => byte.wrapping_sub(b'A').wrapping_add(10),
        b'\r' if digits > 0 => return Ok(State::SizeLf { size }),
        b';' if digits > 0 => return Ok(State::Extension { size, length: 0 }),
        b' ' | b'\t' if digits > 0 => return Ok(State::BadSpace { size, length: 1 }),
        _ => return Err(BodyError::ChunkSize),
    };
    // Sixteen digits are 64 bits, so the shift loses nothing.
    if digits >= CHUNK_SIZE_DIGITS {
        return Err(BodyError::ChunkSize);
    }
    Ok(State::Size {
        size: (size << 4) | u64::from(value),
        digits: digits.saturating_add(1),
    })
}

fn longer(length: u16) -> Result<u16, BodyError> {
    if length >= CHUNK_EXTENSION_BYTES {
        return Err(BodyError::ChunkExtension);
    }
    Ok(length.saturating_add(1))
}

/// Adds up to `max` bytes from `at` to the payload; returns how many. The first chunk stays where
/// it is, so that the usual buffer with one chunk is not moved.
fn place(buf: &mut [u8], payload: &mut Range<usize>, at: usize, max: u64) -> usize {
    let there = buf.len().saturating_sub(at);
    let took = usize::try_from(max).map_or(there, |max| max.min(there));
    let end = at.saturating_add(took);
    if payload.start == payload.end {
        *payload = at..end;
    } else {
        // `end` is within `buf`, and the payload ends before `at`.
        buf.copy_within(at..end, payload.end);
        payload.end = payload.end.saturating_add(took);
    }
    took
}

fn less(left: u64, took: usize) -> u64 {
    left.saturating_sub(u64::try_from(took).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
