//! An HTTP/2 connection that receives arbitrary bytes, in either role: how they are cut does not matter, an
//! end is the end, and work is bounded.

use std::collections::HashMap;
use std::time::Duration;

use proxy::http::engine::frame::{FrameHead, Kind, PREFACE, write_head};
use proxy::http::engine::{
    Connection, Decoded, Event, HeadWriter, Options, Role, Scheme, SectionWriter, Step, StreamKey,
    Then,
};
use proxy::http::h1::{HeadLimits, RequestKind};

/// Checks `data`: a byte that picks the role, and whether the peer begins as it has to; one that picks the
/// size of pieces; what comes.
pub(crate) fn check(data: &[u8]) {
    let [pick, piece, bytes @ ..] = data else {
        return;
    };
    let role = if pick % 2 == 0 {
        Role::Server
    } else {
        Role::Client
    };
    let mut all = Vec::new();
    if pick & 2 == 0 {
        if role == Role::Server {
            all.extend_from_slice(PREFACE);
        }
        write_head(&mut all, Kind::Settings, 0, 0, 0);
    }
    all.extend_from_slice(bytes);
    let whole = outcome(role, &all, all.len().max(1));
    assert_eq!(whole, outcome(role, &all, usize::from(*piece).max(1)));
}

/// What happens, and what is sent.
fn outcome(role: Role, bytes: &[u8], piece: usize) -> (Vec<String>, Vec<u8>) {
    let mut peer = Driver::new(role);
    for bytes in bytes.chunks(piece) {
        peer.input.extend_from_slice(bytes);
        peer.read();
    }
    (peer.seen, peer.sent)
}

struct Driver {
    connection: Connection,
    decoded: Decoded,
    input: Vec<u8>,
    seen: Vec<String>,
    sent: Vec<u8>,
    /// Streams that are open for us, and whether the peer has ended its side.
    open: HashMap<StreamKey, bool>,
    has_failed: bool,
}

/// Streams of the connection.
const STREAMS: u32 = 4;

impl Driver {
    fn new(role: Role) -> Self {
        let mut connection = Connection::new(Options {
            role,
            streams: STREAMS,
            stream_window: 1_000,
            connection_window: 65_535,
            heads: HeadLimits {
                line_bytes: 200,
                head_bytes: 1_000,
                fields: 10,
            },
        });
        connection.begin_turn(Duration::ZERO);
        let mut open = HashMap::new();
        if role == Role::Client {
            for kind in [RequestKind::Other, RequestKind::Head, RequestKind::Upgrade] {
                let key = connection.open(kind, Then::More, write_request);
                open.insert(key.expect("nothing limits them"), false);
            }
        }
        Self {
            connection,
            decoded: Decoded::default(),
            input: Vec::new(),
            seen: Vec::new(),
            sent: Vec::new(),
            open,
            has_failed: false,
        }
    }

    fn read(&mut self) {
        let mut at = 0;
        loop {
            let before = at;
            let step = self
                .connection
                .receive(&self.input, &mut at, &mut self.decoded);
            assert!(before <= at && at <= self.input.len());
            match step {
                Ok(Step::Event(event)) => self.on_event(&event),
                Ok(Step::NextTurn) => self.connection.begin_turn(Duration::ZERO),
                Ok(Step::OutputFull) => self.connection.output_taken(),
                Ok(Step::NeedMore) => break,
                Err(error) => {
                    assert!(!self.has_failed, "it failed before");
                    self.has_failed = true;
                    self.seen.push(error.to_string());
                }
            }
        }
        // Less than a frame is left.
        assert!(self.input.len() - at < FrameHead::BYTES + 16_384);
        self.input.drain(..at);
        self.sent.append(self.connection.output());
    }

    fn on_event(&mut self, event: &Event) {
        assert!(!self.has_failed);
        self.seen.push(match event {
            // Its range depends on how the bytes are cut.
            Event::Data { key, range, then } => {
                format!("{key:?} {:?} {then:?}", &self.input[range.clone()])
            }
            other => format!("{other:?}"),
        });
        match event {
            Event::Request { key, then, .. } => {
                assert!(self.open.insert(*key, *then == Then::End).is_none());
                assert!(self.connection.streams() <= STREAMS as usize);
                let _ = self.connection.respond(*key, Then::More, |writer| {
                    writer.status(200);
                });
                let _ = self.connection.write_data(*key, b"hello", Then::More);
            }
            Event::Response { key, then } => self.receive(*key, *then),
            Event::Interim { key } => assert_eq!(self.open.get(key), Some(&false)),
            Event::Data { key, range, then } => {
                self.receive(*key, *then);
                let length = u32::try_from(range.len()).expect("short");
                self.connection.give_back(*key, length);
            }
            Event::Trailers { key } => self.receive(*key, Then::End),
            Event::Reset { key, .. } => {
                assert!(self.open.remove(key).is_some(), "it was reset before");
                self.connection.release(*key);
            }
            Event::Writable { key } => {
                assert!(self.open.contains_key(key), "it was reset before");
                let _ = self.connection.write_data(*key, b"more", Then::End);
            }
            Event::Settings | Event::GoAway { .. } | Event::Pong => {}
        }
    }

    /// Something of a message: its stream has not ended before. A server's streams end with it.
    fn receive(&mut self, key: StreamKey, then: Then) {
        let has_ended = self.open.get_mut(&key).expect("a stream that is open");
        assert!(!*has_ended, "an event after the end");
        *has_ended = then == Then::End;
        if *has_ended && key.place().is_multiple_of(2) {
            self.open.remove(&key);
            self.connection.release(key);
        }
    }
}

fn write_request(writer: &mut HeadWriter<'_>) {
    writer.method(b"POST");
    writer.scheme(Scheme::Https);
    writer.path(b"/");
    writer.authority(b"a.test");
}
