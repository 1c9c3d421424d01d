//! Tests of whole connections, by bytes. Events are written as text, so that a test reads like a table.

mod closing;
mod floods;
mod messages;
mod model;
mod rows;
mod splits;
mod windows;
mod with_h2;

use std::time::Duration;

use super::{Connection, Options, Role};
use crate::http::engine::error::{Code, ConnectionError};
use crate::http::engine::frame::{FrameHead, Kind, PREFACE};
use crate::http::engine::{
    Decoded, Event, HeadWriter, Scheme, SectionWriter, Step, StreamKey, Then,
};
use crate::http::h1::{HeadLimits, RequestKind};
use crate::http::known::KnownHeader;

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 8 * 1024,
    head_bytes: 32 * 1024,
    fields: 100,
};

fn options(role: Role) -> Options {
    Options {
        role,
        streams: 100,
        stream_window: 65_536,
        connection_window: 1 << 20,
        heads: LIMITS,
    }
}

/// One connection, with what it has received and not read.
struct Side {
    connection: Connection,
    decoded: Decoded,
    input: Vec<u8>,
    now: Duration,
}

impl Side {
    fn new(options: Options) -> Self {
        let now = Duration::from_secs(7);
        let mut connection = Connection::new(options);
        connection.begin_turn(now);
        Self {
            connection,
            decoded: Decoded::default(),
            input: Vec::new(),
            now,
        }
    }

    /// A server after the preface and settings of a client.
    fn server() -> Self {
        let mut side = Self::new(options(Role::Server));
        let settings = frame(Kind::Settings, 0, 0, b"");
        let events = side.feed(&[PREFACE, &settings].concat());
        assert_eq!(events, Ok(vec!["settings".into()]));
        side.sent();
        side
    }

    /// A client after the settings of a server.
    fn client() -> Self {
        let mut side = Self::new(options(Role::Client));
        let events = side.feed(&frame(Kind::Settings, 0, 0, b""));
        assert_eq!(events, Ok(vec!["settings".into()]));
        side.sent();
        side
    }

    /// Receives bytes, in as many turns as it takes; the output is sent in between.
    fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, ConnectionError> {
        self.input.extend_from_slice(bytes);
        let mut seen = Vec::new();
        let mut at = 0;
        loop {
            let step = self
                .connection
                .receive(&self.input, &mut at, &mut self.decoded)?;
            match step {
                Step::Event(event) => seen.push(self.describe(&event)),
                Step::NextTurn => self.connection.begin_turn(self.now),
                Step::OutputFull => self.connection.output_taken(),
                Step::NeedMore => break,
            }
        }
        self.input.drain(..at);
        Ok(seen)
    }

    fn describe(&self, event: &Event) -> String {
        let id = |key: StreamKey| self.connection.streams.get(key).expect("a stream").id;
        let text =
            |span: crate::http::head::Span| span.of(&self.decoded.bytes).escape_ascii().to_string();
        match event {
            Event::Request {
                key,
                then,
                rejected,
            } => {
                let head = &self.decoded.request;
                let line = format!("{} {}", text(head.method), text(head.target));
                match rejected {
                    Some(error) => format!("request {} rejected: {error}", id(*key)),
                    None => format!("request {} {line} {then:?}", id(*key)),
                }
            }
            Event::Interim { key } => {
                format!("interim {} {}", id(*key), self.decoded.response.status)
            }
            Event::Response { key, then } => {
                let status = self.decoded.response.status;
                format!("response {} {status} {then:?}", id(*key))
            }
            Event::Data { key, range, then } => {
                let bytes = self.input.get(range.clone()).expect("within the input");
                format!("data {} {} {then:?}", id(*key), bytes.escape_ascii())
            }
            Event::Trailers { key } => {
                format!(
                    "trailers {} {}",
                    id(*key),
                    self.decoded.bytes.escape_ascii()
                )
            }
            Event::Reset { key, cause } => format!("reset {}: {cause}", id(*key)),
            Event::Writable { key } => format!("writable {}", id(*key)),
            Event::Settings => "settings".into(),
            Event::GoAway { last, code } => format!("goaway {last} {code:?}"),
            Event::Pong => "pong".into(),
        }
    }

    /// The frames in the output, as text; it is empty then.
    fn sent(&mut self) -> Vec<String> {
        let output = std::mem::take(self.connection.output());
        self.connection.output_taken();
        let output = output.strip_prefix(PREFACE).unwrap_or(&output);
        frames(output)
    }

    fn key(&mut self, id: u32) -> StreamKey {
        self.connection.streams.find(id).expect("a stream").0
    }

    /// Opens a stream with a request of this method.
    fn open(&mut self, method: &str, then: Then) -> StreamKey {
        let kind = if method == "HEAD" {
            RequestKind::Head
        } else {
            RequestKind::Other
        };
        let opened = self
            .connection
            .open(kind, then, |writer| write_request(writer, method));
        opened.expect("there is room")
    }
}

fn write_request(writer: &mut HeadWriter<'_>, method: &str) {
    writer.method(method.as_bytes());
    writer.scheme(Scheme::Http);
    writer.path(b"/");
    writer.authority(b"a.test");
}

/// Frames as text: kind, stream, and what matters of the payload.
fn frames(mut bytes: &[u8]) -> Vec<String> {
    let mut list = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = FrameHead::read(*head);
        let (payload, rest) = rest.split_at(head.length as usize);
        bytes = rest;
        let number = |at: usize| {
            let bytes = payload[at..].first_chunk().copied();
            u32::from_be_bytes(bytes.expect("four bytes"))
        };
        let end = if head.has(FrameHead::END_STREAM) {
            " end"
        } else {
            ""
        };
        list.push(match head.kind {
            Kind::Reset => format!("reset {} {:?}", head.stream, Code(number(0))),
            Kind::GoAway => format!("goaway {} {:?}", number(0), Code(number(4))),
            Kind::WindowUpdate => format!("window {} {}", head.stream, number(0)),
            Kind::Data => format!("data {} {}{end}", head.stream, payload.len()),
            Kind::Headers => format!("headers {}{end}", head.stream),
            Kind::Ping if head.has(FrameHead::ACK) => "pong".into(),
            Kind::Ping => "ping".into(),
            Kind::Settings if head.has(FrameHead::ACK) => "ack".into(),
            other => format!("{other:?}"),
        });
    }
    list
}

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let length = u32::try_from(payload.len()).expect("short");
    super::frame::write_head(&mut out, kind, flags, stream, length);
    out.extend_from_slice(payload);
    out
}

/// A field block of literals, none of which is added to the table.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            super::super::hpack::integer::encode(&mut out, 0, 7, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

const END: u8 = FrameHead::END_STREAM;
const HEAD: u8 = FrameHead::END_HEADERS;

/// HEADERS with all of a section.
fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(Kind::Headers, HEAD | flags, stream, &block(fields))
}

const GET: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "a.test"),
];

const POST: &[(&str, &str)] = &[
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "a.test"),
];

fn get(stream: u32) -> Vec<u8> {
    headers(stream, END, GET)
}

fn post(stream: u32) -> Vec<u8> {
    headers(stream, 0, POST)
}

fn data(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    frame(Kind::Data, flags, stream, bytes)
}

fn window(stream: u32, increment: u32) -> Vec<u8> {
    frame(Kind::WindowUpdate, 0, stream, &increment.to_be_bytes())
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(Kind::Settings, 0, 0, &payload)
}

fn status(writer: &mut HeadWriter<'_>) {
    writer.status(200);
    writer.field(KnownHeader::Other, b"x-a", b"b");
}
