//! Takes a body out of its framing (RFC 9112 sections 6 and 7), in place and resumable at any byte.

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
    /// Trailer section as it comes.
    raw: Vec<u8>,
    /// The trailers that are passed on.
    trailers: Vec<u8>,
    drops_trailers: bool,
}

/// What one call to [`BodyDecoder::decode`] made of a buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Where in the buffer the payload now lies, in one piece.
    pub payload: Range<usize>,
    /// How many bytes of the buffer were used up. All of them, unless the body is done: what
    /// follows is the next message, untouched. Between the payload and here is rubbish.
    pub consumed: usize,
    /// Whether that was the body's end.
    pub done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Done,
    /// So many bytes are left (section 6.2).
    Length(u64),
    /// Until the connection ends (section 6.3, item 8).
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
    /// The extensions themselves.
    Extension {
        size: u64,
        length: u16,
    },
    /// After the CR of a size line.
    SizeLf {
        size: u64,
    },
    /// So many bytes of chunk data are left, never 0.
    Data(u64),
    /// After the data.
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
    /// A decoder of a body that is delimited so.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        Self {
            state: State::start(framing),
            raw: Vec::new(),
            trailers: Vec::new(),
            drops_trailers: false,
        }
    }

    /// Starts on another body and forgets the one before.
    pub fn reset(&mut self, framing: Framing) {
        self.state = State::start(framing);
        self.raw.clear();
        self.trailers.clear();
        self.drops_trailers = false;
    }

    /// Passes on no trailers of this body: a reader may put them among header fields that only we
    /// may write.
    pub fn drop_trailers(&mut self) {
        self.drops_trailers = true;
    }

    /// Whether the body has come to its end. A body without bytes is done from the start.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many bytes of payload are left, where the framing tells.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Done => Some(0),
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Takes in that so many bytes of payload have come by another way.
    pub fn skip(&mut self, count: usize) {
        if let State::Length(left) = self.state {
            self.state = State::length(less(left, count));
        }
    }

    /// How many bytes of payload are announced and have not come: of the body, or of its chunk.
    #[must_use]
    pub fn announced(&self) -> u64 {
        match self.state {
            State::Length(left) | State::Data(left) => left,
            State::SizeLf { size } => size,
            _ => 0,
        }
    }

    /// The trailers once the body is done, as lines of `name: value\r\n`, without those whose names
    /// frame, route or authenticate.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        if self.drops_trailers {
            return &[];
        }
        &self.trailers
    }

    /// Takes over trailers that came beside the body's bytes: lines, each ended by CRLF, of which
    /// none is forbidden.
    pub fn take_trailers(&mut self, lines: &[u8]) {
        self.trailers.clear();
        self.trailers.extend_from_slice(lines);
    }

    /// Takes the body's next bytes in `buf` out of their framing, moving chunks together in place.
    ///
    /// # Errors
    /// The framing is broken; nothing after this can be trusted and the connection has to be closed.
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

    /// Takes in that the connection ended.
    ///
    /// # Errors
    /// The body was not at its end.
    pub fn end_of_input(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Done | State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError::Truncated),
        }
    }

    /// One byte of chunk framing.
    fn step(&mut self, byte: u8) -> Result<State, BodyError> {
        match (self.state, byte) {
            (State::Size { size, digits }, _) => step_size(size, digits, byte),
            (State::BadSpace { size, length }, b' ' | b'\t') => Ok(State::BadSpace {
                size,
                length: longer(length)?,
            }),
            (State::BadSpace { size, length }, b';') => Ok(State::Extension { size, length }),
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
        // Nothing but a line feed comes after a carriage return, so nothing else is waited for.
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

    /// Judges the whole section by the rules of header fields and keeps what may pass.
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

/// Adds up to `most` bytes from `at` on to the payload, and tells how many. The first piece stays
/// where it is, so the common buffer with one chunk in it is not moved at all.
fn place(buf: &mut [u8], payload: &mut Range<usize>, at: usize, most: u64) -> usize {
    let there = buf.len().saturating_sub(at);
    let took = usize::try_from(most).map_or(there, |most| most.min(there));
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
