//! Two of our HTTP/2 connections back to back, driven by a script: every byte of a body arrives once, in order,
//! however windows, cuts and resets fall.

use std::collections::HashMap;
use std::time::Duration;

use proxy::http::engine::{
    Connection, Decoded, Event, HeadWriter, Options, Role, Scheme, SectionWriter, Step, StreamKey,
    Then,
};
use proxy::http::h1::{HeadLimits, RequestKind};
use proxy::http::known::KnownHeader;

/// Checks `data`: a byte that picks the windows, and steps of two bytes.
pub(crate) fn check(data: &[u8]) {
    let [window, steps @ ..] = data else {
        return;
    };
    let window = 1 + u32::from(*window) * 300;
    let mut pair = Pair {
        client: Side::new(Role::Client, window),
        server: Side::new(Role::Server, window),
        opened: 0,
    };
    pair.settle();
    for step in steps.as_chunks::<2>().0 {
        pair.step(*step);
    }
    pair.settle();
    pair.finish();
}

/// Streams that a script can name.
const MOST_STREAMS: u32 = 16;

struct Pair {
    client: Side,
    server: Side,
    opened: u32,
}

struct Side {
    connection: Connection,
    decoded: Decoded,
    input: Vec<u8>,
    now: Duration,
    /// Open streams by their number, which the client counts.
    streams: HashMap<u32, Known>,
}

struct Known {
    key: StreamKey,
    sent: u64,
    received: u64,
    held: u32,
    /// Whether the other side has ended its message.
    has_ended: bool,
    is_reset: bool,
}

/// The byte at a position of every body.
fn byte_at(position: u64) -> u8 {
    (position % 251) as u8
}

impl Pair {
    fn step(&mut self, [what, size]: [u8; 2]) {
        let (side, other) = if what & 8 == 0 {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        let number = u32::from(what >> 4);
        match what & 7 {
            0 if what & 8 == 0 => self.open(),
            0..=2 => side.send(number, u64::from(size) * 100, Then::More),
            3 => side.send(number, size.into(), Then::End),
            4 => side.give_back(number),
            5 if size < 32 => side.release(number),
            5 => side.trailers(number),
            _ => {
                let output = side.connection.output();
                let count = output.len().min(usize::from(size) * 50);
                let bytes: Vec<u8> = output.drain(..count).collect();
                side.connection.output_taken();
                other.receive(&bytes);
            }
        }
    }

    fn open(&mut self) {
        let number = self.opened;
        if number == MOST_STREAMS {
            return;
        }
        let opened = self
            .client
            .connection
            .open(RequestKind::Other, Then::More, |writer| {
                writer.method(b"POST");
                writer.scheme(Scheme::Http);
                writer.path(b"/");
                writer.authority(b"a.test");
                let number = number.to_string();
                writer.field(KnownHeader::Other, b"X-Number", number.as_bytes());
            });
        if let Some(key) = opened {
            self.opened += 1;
            self.client.streams.insert(number, Known::new(key));
        }
    }

    /// Moves all bytes.
    fn settle(&mut self) {
        for _ in 0..8 {
            let bytes = std::mem::take(self.client.connection.output());
            self.client.connection.output_taken();
            self.server.receive(&bytes);
            let bytes = std::mem::take(self.server.connection.output());
            self.server.connection.output_taken();
            self.client.receive(&bytes);
        }
    }

    /// Everything that was sent has arrived; then nothing is left.
    fn finish(mut self) {
        for (number, known) in &self.client.streams {
            let Some(other) = self.server.streams.get(number) else {
                continue;
            };
            if !known.is_reset && !other.is_reset {
                let arrived = (other.received, known.received);
                assert_eq!((known.sent, other.sent), arrived, "stream {number}");
            }
        }
        for side in [&mut self.client, &mut self.server] {
            for (_, known) in side.streams.drain() {
                side.connection.release(known.key);
            }
        }
        self.settle();
        // Requests that arrive only now are open.
        for (_, known) in self.server.streams.drain() {
            self.server.connection.release(known.key);
        }
        assert_eq!(self.client.connection.streams(), 0);
        assert_eq!(self.server.connection.streams(), 0);
    }
}

impl Known {
    fn new(key: StreamKey) -> Self {
        Self {
            key,
            sent: 0,
            received: 0,
            held: 0,
            has_ended: false,
            is_reset: false,
        }
    }
}

impl Side {
    fn new(role: Role, window: u32) -> Self {
        let connection = Connection::new(Options {
            role,
            streams: 100,
            stream_window: window,
            connection_window: 65_535 + window,
            heads: HeadLimits {
                line_bytes: 1_000,
                head_bytes: 4_000,
                fields: 20,
            },
        });
        Self {
            connection,
            decoded: Decoded::default(),
            input: Vec::new(),
            now: Duration::ZERO,
            streams: HashMap::new(),
        }
    }

    fn send(&mut self, number: u32, length: u64, then: Then) {
        let Some(known) = self.streams.get_mut(&number) else {
            return;
        };
        let body: Vec<u8> = (known.sent..known.sent + length).map(byte_at).collect();
        let capacity = self.connection.capacity(known.key);
        if let Ok(sent) = self.connection.write_data(known.key, &body, then) {
            assert_eq!(sent, body.len().min(capacity));
            known.sent += sent as u64;
        }
    }

    fn trailers(&mut self, number: u32) {
        if let Some(known) = self.streams.get(&number) {
            let write = |writer: &mut HeadWriter<'_>| {
                writer.field(KnownHeader::Other, b"x-sum", b"1");
            };
            let _ = self.connection.write_trailers(known.key, write);
        }
    }

    fn give_back(&mut self, number: u32) {
        if let Some(known) = self.streams.get_mut(&number) {
            let held = std::mem::take(&mut known.held);
            self.connection.give_back(known.key, held);
        }
    }

    fn release(&mut self, number: u32) {
        if let Some(known) = self.streams.remove(&number) {
            self.connection.release(known.key);
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        // So much time passes that no rate is exceeded.
        self.now += Duration::from_secs(1);
        self.connection.begin_turn(self.now);
        let mut at = 0;
        loop {
            let step = self
                .connection
                .receive(&self.input, &mut at, &mut self.decoded);
            match step.expect("both sides are correct") {
                Step::Event(event) => self.on_event(event),
                Step::NextTurn => self.connection.begin_turn(self.now),
                Step::OutputFull => self.connection.output_taken(),
                Step::NeedMore => break,
            }
        }
        self.input.drain(..at);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Request { key, rejected, .. } => {
                assert_eq!(rejected, None);
                let bytes = &self.decoded.bytes;
                let mut lines = self.decoded.request.fields.iter();
                let line = lines.find(|line| line.name.of(bytes) == b"x-number");
                let number = line.expect("the client sends it").value.of(bytes);
                let number = std::str::from_utf8(number).expect("digits");
                let number = number.parse().expect("a number");
                assert!(self.streams.insert(number, Known::new(key)).is_none());
                let responded = self.connection.respond(key, Then::More, |writer| {
                    writer.status(200);
                    writer.field(KnownHeader::Other, b"x-repeated", b"value");
                });
                assert_eq!(responded, Ok(()));
            }
            Event::Response { key, then } => self.known(key).has_ended = then == Then::End,
            Event::Data { key, range, then } => {
                let body = self.input[range].to_vec();
                let known = self.known(key);
                for byte in &body {
                    assert_eq!(*byte, byte_at(known.received));
                    known.received += 1;
                }
                known.held += u32::try_from(body.len()).expect("short");
                known.has_ended = then == Then::End;
            }
            Event::Trailers { key } => self.known(key).has_ended = true,
            Event::Reset { key, .. } => {
                let known = self.streams.values_mut().find(|known| known.key == key);
                if let Some(known) = known {
                    assert!(!known.is_reset);
                    known.is_reset = true;
                }
            }
            Event::Writable { key } => {
                let mut streams = self.streams.values();
                let known = streams.find(|known| known.key == key);
                assert!(known.is_some_and(|known| !known.is_reset));
            }
            Event::Settings => {}
            Event::Interim { .. } | Event::GoAway { .. } | Event::Pong => {
                panic!("nobody sent it: {event:?}");
            }
        }
    }

    /// The stream of an event: it has not ended.
    fn known(&mut self, key: StreamKey) -> &mut Known {
        let known = self.streams.values_mut().find(|known| known.key == key);
        let known = known.expect("a stream that is not released");
        assert!(
            !known.has_ended && !known.is_reset,
            "an event after the end"
        );
        known
    }
}
