//! What an endpoint picker does with a response: it returns it, changed or unchanged, in one of the
//! ways that pickers do, or fails.

use std::time::Duration;

use super::Gate;
use super::calls::{mutation, set};
use super::picker::messages::{
    BodyMutation, BodySendMode, CommonResponse, HeaderSendMode, HttpBody, ImmediateResponse,
    MutatedBody, PhaseResponse, ProcessingMode, ProcessingResponse, RequestMessage,
    ResponseMessage, TrailersResponse,
};
use mutation::{HeaderMutation, HttpStatus};

/// What a picker does with responses.
#[derive(Debug, Clone)]
pub(crate) enum ResponseBehavior {
    /// Returns each piece as it is.
    Returns,
    /// Responds to each piece with an empty message, and not to trailers, as `lwepp` v1.6.0 does.
    Acknowledges,
    /// The same, after a pause before its first answer.
    AcknowledgesLate(Duration),
    /// The same, but says nothing until it has this many bytes of the body.
    AcknowledgesFrom(usize),
    /// Responds to this many messages as `Acknowledges` does, then goes on reading and says nothing.
    FallsSilent(usize),
    /// Returns each piece in capitals.
    Shouts,
    /// Returns the body after its end, like pickers that read usage data in it.
    Holds,
    /// The same, and the head too.
    HoldsAll,
    /// Returns one piece instead of the body, before that has ended.
    Shortens(&'static str),
    /// Requests only the head, in its response to the head.
    Declines,
    /// Requests nothing, in its response to the request.
    DeclinesAll,
    /// Reads pieces only once the test allows it.
    Waits(Gate),
    /// Says nothing.
    Ignores,
    /// Responds to the head, holds the body back, and resets the call at the message of this number.
    HoldsThenResets(usize),
    /// Says nothing, and resets the call once it has this many bytes of the body.
    IgnoresThenResets(usize),
    /// Responds to this many messages, with pieces in capitals or not, then ends like this.
    Stops {
        after: usize,
        shouting: bool,
        end: CallEnd,
    },
    /// Responds itself, instead of responding to the message of this number: the head is 0.
    Responds(usize, u32, &'static str),
}

/// How a picker ends a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallEnd {
    Status(&'static str),
    Reset,
    /// Sends bytes that are not a message.
    Garbage,
    /// Sends an unexpected message.
    Spurious,
}

impl ResponseBehavior {
    /// Whether it responds to each piece with an empty message.
    fn acknowledges(&self) -> bool {
        matches!(
            self,
            Self::Acknowledges
                | Self::AcknowledgesLate(_)
                | Self::AcknowledgesFrom(_)
                | Self::FallsSilent(_)
        )
    }

    /// The mode override for the response, in its response to the request.
    pub(super) fn mode(&self) -> Option<ProcessingMode> {
        matches!(self, Self::DeclinesAll).then(|| ProcessingMode {
            response_header_mode: HeaderSendMode::Skip.into(),
            response_body_mode: BodySendMode::None.into(),
        })
    }
}

/// The state of a response at a picker.
pub(super) struct Reviewer {
    behavior: ResponseBehavior,
    /// Messages of the response so far.
    messages: usize,
    /// Bytes of its body so far.
    bytes: usize,
    held: Vec<ProcessingResponse>,
}

/// The reaction to a message.
pub(super) type Reaction = (Vec<ProcessingResponse>, Option<CallEnd>);

impl Reviewer {
    pub(super) fn new(behavior: ResponseBehavior) -> Self {
        Self {
            behavior,
            messages: 0,
            bytes: 0,
            held: Vec::new(),
        }
    }

    /// What it waits for before it reacts to the next part of the response.
    pub(super) fn gate(&self) -> Option<Gate> {
        match &self.behavior {
            ResponseBehavior::Waits(gate) if self.messages > 0 => Some(gate.clone()),
            _ => None,
        }
    }

    /// Reacts to a part of the response, served by this endpoint.
    pub(super) fn react(&mut self, message: RequestMessage, served: &str) -> Reaction {
        let number = self.messages;
        self.messages += 1;
        if let RequestMessage::ResponseBody(piece) = &message {
            self.bytes += piece.body.len();
        }
        match &self.behavior {
            ResponseBehavior::IgnoresThenResets(after) => {
                return (Vec::new(), (self.bytes >= *after).then_some(CallEnd::Reset));
            }
            ResponseBehavior::Ignores => return (Vec::new(), None),
            ResponseBehavior::HoldsThenResets(at) if number > 0 => {
                return (Vec::new(), (number == *at).then_some(CallEnd::Reset));
            }
            ResponseBehavior::FallsSilent(after) if number >= *after => {
                return (Vec::new(), None);
            }
            ResponseBehavior::AcknowledgesLate(pause) if number == 0 => {
                std::thread::sleep(*pause);
            }
            ResponseBehavior::Responds(at, code, body) if number == *at => {
                return (vec![immediate(*code, body)], None);
            }
            ResponseBehavior::Stops { after, end, .. } if number >= *after => {
                return (Vec::new(), Some(*end));
            }
            _ => {}
        }
        let (answers, is_end) = self.answers(message, served);
        self.held.extend(answers);
        if self.holds(number, is_end) {
            return (Vec::new(), None);
        }
        (std::mem::take(&mut self.held), None)
    }

    /// Whether it holds its responses back at the message of this number.
    fn holds(&self, number: usize, is_end: bool) -> bool {
        match self.behavior {
            ResponseBehavior::Holds => number > 0 && !is_end,
            ResponseBehavior::HoldsAll => !is_end,
            ResponseBehavior::AcknowledgesFrom(bytes) => self.bytes < bytes,
            _ => false,
        }
    }

    /// The responses to a message, and whether it was the last one.
    fn answers(&self, message: RequestMessage, served: &str) -> (Vec<ProcessingResponse>, bool) {
        match message {
            RequestMessage::ResponseHeaders(head) => (vec![self.head(served)], head.end_of_stream),
            RequestMessage::ResponseBody(piece) => {
                let is_last = piece.end_of_stream;
                let answers = match &self.behavior {
                    behavior if behavior.acknowledges() => vec![body(None)],
                    ResponseBehavior::Shortens(text) => vec![streamed(text.as_bytes(), true)],
                    ResponseBehavior::Shouts | ResponseBehavior::Stops { shouting: true, .. } => {
                        vec![streamed(&piece.body.to_ascii_uppercase(), is_last)]
                    }
                    _ => vec![streamed(&piece.body, is_last)],
                };
                (answers, is_last)
            }
            RequestMessage::ResponseTrailers(_) if self.behavior.acknowledges() => {
                (Vec::new(), true)
            }
            RequestMessage::ResponseTrailers(_) => {
                let edits = HeaderMutation {
                    set_headers: vec![set("x-reviewed", "yes"), set("content-length", "1")],
                    remove_headers: vec!["x-secret".to_owned()],
                };
                let trailers = TrailersResponse {
                    header_mutation: Some(edits),
                };
                let answer = response(ResponseMessage::ResponseTrailers(trailers));
                (vec![answer], true)
            }
            RequestMessage::RequestHeaders(_) | RequestMessage::RequestBody(_) => {
                panic!("not about a response")
            }
        }
    }

    /// As the pickers of the conformance suite respond: everything is set again.
    fn head(&self, served: &str) -> ProcessingResponse {
        let fields = vec![
            set("x-served-by", served),
            set(":status", "200"),
            set("content-type", "text/picked"),
            set("content-length", "1"),
        ];
        let common = CommonResponse {
            header_mutation: Some(HeaderMutation {
                set_headers: fields,
                remove_headers: Vec::new(),
            }),
            ..CommonResponse::default()
        };
        let head = response(ResponseMessage::ResponseHeaders(PhaseResponse {
            response: Some(common),
        }));
        let declined = ProcessingMode {
            response_header_mode: HeaderSendMode::Default.into(),
            response_body_mode: BodySendMode::None.into(),
        };
        ProcessingResponse {
            mode_override: matches!(self.behavior, ResponseBehavior::Declines).then_some(declined),
            ..head
        }
    }
}

/// A message about a body that was never sent.
pub(super) fn spurious() -> ProcessingResponse {
    response(ResponseMessage::ResponseTrailers(
        TrailersResponse::default(),
    ))
}

pub(super) fn immediate(code: u32, body: &str) -> ProcessingResponse {
    let code = i32::try_from(code).expect("a status");
    response(ResponseMessage::ImmediateResponse(ImmediateResponse {
        status: Some(HttpStatus { code }),
        headers: Some(HeaderMutation {
            set_headers: vec![
                set("content-type", "application/json"),
                set("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ],
            remove_headers: Vec::new(),
        }),
        body: body.as_bytes().to_vec(),
    }))
}

pub(super) fn response(message: ResponseMessage) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(message),
        ..ProcessingResponse::default()
    }
}

fn streamed(bytes: &[u8], end_of_stream: bool) -> ProcessingResponse {
    body(Some(MutatedBody::Streamed(HttpBody {
        body: bytes.to_vec(),
        end_of_stream,
    })))
}

fn body(mutation: Option<MutatedBody>) -> ProcessingResponse {
    response(ResponseMessage::ResponseBody(PhaseResponse {
        response: Some(CommonResponse {
            body_mutation: mutation.map(|it| BodyMutation { mutation: Some(it) }),
            ..CommonResponse::default()
        }),
    }))
}
