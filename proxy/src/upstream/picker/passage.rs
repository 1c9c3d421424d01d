//! The state of a response on its way through a picker: pure, without I/O.
//!
//! In `FULL_DUPLEX_STREAMED` mode, a picker may return a body in any pieces, and whenever it likes.
//! Some pickers (`lwepp` of the Inference Extension v1.6.0) respond to each message instead, with
//! nothing if the piece is to stay as it is: so the pieces are kept until they have been returned,
//! which also lets the response continue if the picker fails. What is kept is bounded.

mod unanswered;

use std::rc::Rc;

use super::PickError;
use super::messages::{
    BodySendMode, CommonResponse, HeaderSendMode, HttpBody, ImmediateResponse, MutatedBody,
    ProcessingMode, ProcessingResponse, ResponseMessage,
};
use crate::limits::{
    PICKER_BODY_BYTES, PICKER_BODY_MESSAGES, PICKER_WINDOW_BYTES, PICKER_WINDOW_MESSAGES,
};
use crate::memory::{BufferPool, Kept};
use crate::policy::mutation::HeaderMutation;

use self::unanswered::Unanswered;

/// The parts of a response that a picker receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Interest {
    Nothing,
    Head,
    #[default]
    HeadAndBody,
}

impl Interest {
    /// The same, less what an answer to a head declines.
    pub(super) fn narrowed(self, mode: Option<ProcessingMode>) -> Self {
        let Some(mode) = mode else { return self };
        if mode.response_header_mode == HeaderSendMode::Skip as i32 {
            return Self::Nothing;
        }
        let is_streamed = mode.response_body_mode == BodySendMode::FullDuplexStreamed as i32;
        match self {
            // No other mode was offered.
            Self::HeadAndBody if !is_streamed => Self::Head,
            interest => interest,
        }
    }
}

/// What a picker's message does to the response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing: it is about the request.
    Nothing,
    /// The head can be sent, with these edits; the body comes from there.
    Head(Option<HeaderMutation>, BodySource),
    /// The next bytes of the body, and whether they are the last ones.
    Body { bytes: Vec<u8>, is_last: bool },
    /// The body is complete, and the trailers can be sent, with these edits.
    Trailers(Option<HeaderMutation>),
    /// The picker responds itself.
    Immediate(ImmediateResponse),
}

/// Where the body for the client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodySource {
    Picker,
    /// The endpoint: the picker wants none of it.
    Endpoint,
}

/// A response on its way through a picker.
#[derive(Debug)]
pub(crate) struct Passage {
    interest: Interest,
    stage: Stage,
    style: Style,
    /// Whether the picker seems to hold back its answer to the head until it has the body.
    holds_head: bool,
    /// Bytes sent to the picker and not returned; `None` once any of them were dropped.
    kept: Option<Kept>,
    unanswered: Unanswered,
    /// Whether the picker returned other bytes than it was sent.
    is_altered: bool,
    /// The end of the body was sent, with these trailers.
    trailers: Option<Vec<u8>>,
}

/// What the picker has answered so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Nothing,
    Head,
    Everything,
}

/// How a picker returns bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Style {
    #[default]
    Unknown,
    /// With one answer to each message.
    EachMessage,
    Streamed,
}

impl Passage {
    /// Of a response whose bytes are counted by this pool while they are kept.
    pub(super) fn new(interest: Interest, pool: &Rc<BufferPool>) -> Self {
        Self {
            interest,
            stage: Stage::default(),
            style: Style::default(),
            holds_head: false,
            kept: Some(Kept::new(pool)),
            unanswered: Unanswered::new(pool),
            is_altered: false,
            trailers: None,
        }
    }

    /// Takes note of a piece of the body that is sent to the picker.
    pub(crate) fn note_sent(&mut self, piece: &[u8], is_last: bool) {
        if self.style != Style::Streamed {
            self.unanswered.push(piece.len(), is_last);
        } else if self.outstanding() + piece.len() > PICKER_WINDOW_BYTES {
            self.kept = None;
        }
        if let Some(kept) = &mut self.kept {
            kept.append(piece);
        }
    }

    /// Takes note of the end of the body: its trailers, each line terminated by CRLF.
    pub(crate) fn note_end(&mut self, trailers: &[u8]) {
        self.trailers = Some(trailers.to_vec());
    }

    /// Whether the picker should answer before it is sent more.
    pub(crate) fn is_full(&self) -> bool {
        // Before its first answer, it cannot be known whether it will answer each message: so all that
        // it is sent is kept.
        let (bytes, messages) = if self.holds_head && self.awaits_head() {
            (PICKER_BODY_BYTES, PICKER_BODY_MESSAGES)
        } else {
            (PICKER_WINDOW_BYTES, PICKER_WINDOW_MESSAGES)
        };
        let is_full = self.outstanding() >= bytes || self.unanswered.len() >= messages;
        self.style != Style::Streamed && is_full
    }

    /// Whether it is unknown how the picker returns bodies.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.style == Style::Unknown
    }

    /// The picker does not answer: it seems to hold back what it was sent until it has more.
    pub(crate) fn assume_held_back(&mut self) {
        if self.awaits_head() {
            self.holds_head = true;
        } else {
            self.expect_stream();
        }
    }

    /// The picker streams: its answers are independent of the messages it is sent.
    fn expect_stream(&mut self) {
        self.style = Style::Streamed;
        self.unanswered.clear();
    }

    /// Whether the picker's answer to the head is due.
    pub(crate) fn awaits_head(&self) -> bool {
        self.stage == Stage::Nothing
    }

    /// Whether the picker has everything, and its answer is due.
    pub(crate) fn awaits_end(&self) -> bool {
        self.stage == Stage::Head && self.trailers.is_some()
    }

    /// Whether the picker has returned all of the body as it was, and only its answer to the trailers
    /// is due, which some pickers (`lwepp`) never send.
    pub(crate) fn awaits_trailers_alone(&self) -> bool {
        let is_returned =
            self.unanswered.is_empty() && self.rest().is_some_and(|rest| rest.is_empty());
        is_returned && self.awaits_end() && !self.trailers().is_empty()
    }

    /// The bytes to send instead of the picker's, if nothing was altered or lost so far.
    fn rest(&self) -> Option<&Kept> {
        self.kept.as_ref().filter(|_| !self.is_altered)
    }

    /// Takes the bytes to send instead of the picker's, if nothing was altered or lost so far. The
    /// picker's part ends with that.
    pub(crate) fn take_rest(&mut self) -> Option<Kept> {
        self.kept.take().filter(|_| !self.is_altered)
    }

    /// The trailers, once the end of the body was sent.
    pub(crate) fn trailers(&self) -> &[u8] {
        self.trailers.as_deref().unwrap_or_default()
    }

    /// Processes a message of the picker.
    ///
    /// # Errors
    ///
    /// It does not fit what was sent.
    pub(crate) fn take(&mut self, message: ProcessingResponse) -> Result<Step, PickError> {
        match (message.response, self.stage) {
            (Some(ResponseMessage::ResponseHeaders(phase)), Stage::Nothing) => {
                self.stage = Stage::Head;
                let interest = self.interest.narrowed(message.mode_override);
                let source = match interest {
                    Interest::HeadAndBody => BodySource::Picker,
                    Interest::Nothing | Interest::Head => BodySource::Endpoint,
                };
                let common = phase.response.unwrap_or_default();
                if common.status != CONTINUE {
                    return Err(PickError::Unordered);
                }
                Ok(Step::Head(common.header_mutation, source))
            }
            (Some(ResponseMessage::ResponseBody(phase)), Stage::Head) => {
                self.take_body(phase.response.unwrap_or_default())
            }
            (Some(ResponseMessage::ResponseTrailers(phase)), Stage::Head)
                if !self.trailers().is_empty() =>
            {
                self.stage = Stage::Everything;
                Ok(Step::Trailers(phase.header_mutation))
            }
            (Some(ResponseMessage::ImmediateResponse(response)), _) => {
                Ok(Step::Immediate(response))
            }
            (
                None | Some(ResponseMessage::RequestHeaders(_) | ResponseMessage::RequestBody(_)),
                _,
            ) => Ok(Step::Nothing),
            _ => Err(PickError::Unordered),
        }
    }

    fn take_body(&mut self, common: CommonResponse) -> Result<Step, PickError> {
        let (bytes, is_last) = match common.body_mutation.and_then(|it| it.mutation) {
            Some(MutatedBody::Streamed(piece)) => self.take_streamed(piece),
            Some(MutatedBody::Whole(bytes)) => {
                let (_, is_last) = self.pop()?;
                self.is_altered = true;
                (bytes, is_last)
            }
            Some(MutatedBody::Clear(true)) => {
                let (_, is_last) = self.pop()?;
                self.is_altered = true;
                (Vec::new(), is_last)
            }
            Some(MutatedBody::Clear(false)) | None => self.pop()?,
        };
        if is_last {
            self.stage = Stage::Everything;
        }
        Ok(Step::Body { bytes, is_last })
    }

    fn take_streamed(&mut self, piece: HttpBody) -> (Vec<u8>, bool) {
        self.expect_stream();
        let is_same = self
            .rest()
            .is_some_and(|rest| rest.starts_with(&piece.body));
        match &mut self.kept {
            Some(kept) if is_same => kept.consume(piece.body.len()),
            kept => {
                self.is_altered = true;
                *kept = None;
            }
        }
        (piece.body, piece.end_of_stream)
    }

    /// The piece that the picker was sent first of those not answered.
    fn pop(&mut self) -> Result<(Vec<u8>, bool), PickError> {
        if self.style == Style::Unknown {
            self.style = Style::EachMessage;
        }
        let (length, is_last) = self.unanswered.pop().ok_or(PickError::Unordered)?;
        let kept = self.kept.as_mut().ok_or(PickError::Unordered)?;
        let piece = kept.get(..length).ok_or(PickError::Unordered)?.to_vec();
        kept.consume(length);
        Ok((piece, is_last))
    }

    fn outstanding(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.len())
    }
}

/// `CommonResponse.ResponseStatus`: the message goes on, with edits. The other one replaces the
/// whole message, which no endpoint picker needs.
const CONTINUE: i32 = 0;

#[cfg(test)]
mod tests;
