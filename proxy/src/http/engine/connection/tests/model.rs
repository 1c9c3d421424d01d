//! A model test: two of our connections back to back, with arbitrary steps, cuts and windows. Every byte of
//! a body arrives once and in order, nothing follows an end, and what the receiver holds is bounded by its
//! windows.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};

use super::*;

#[derive(Debug, Clone, Copy)]
enum Action {
    /// The client opens a stream.
    Open { ends: bool },
    /// A side sends more of its body on one of its streams.
    Send {
        by_client: bool,
        nth: u8,
        bytes: u16,
        ends: bool,
    },
    /// A side ends its message with trailers.
    Trailers { by_client: bool, nth: u8 },
    /// A side gives back what it holds of a stream.
    GiveBack { by_client: bool, nth: u8 },
    /// A side resets a stream.
    Reset { by_client: bool, nth: u8 },
    /// Up to so many bytes of a side's output arrive at the other.
    Deliver { by_client: bool, bytes: u16 },
}

fn action() -> impl Strategy<Value = Action> {
    let which = (any::<bool>(), any::<u8>());
    prop_oneof![
        2 => any::<bool>().prop_map(|ends| Action::Open { ends }),
        6 => (which, 0..30_000_u16, any::<bool>()).prop_map(|((by_client, nth), bytes, ends)| {
            Action::Send { by_client, nth, bytes, ends: ends && bytes % 4 == 0 }
        }),
        1 => which.prop_map(|(by_client, nth)| Action::Trailers { by_client, nth }),
        4 => which.prop_map(|(by_client, nth)| Action::GiveBack { by_client, nth }),
        1 => which.prop_map(|(by_client, nth)| Action::Reset { by_client, nth }),
        8 => (any::<bool>(), any::<u16>()).prop_map(|(by_client, bytes)| Action::Deliver { by_client, bytes }),
    ]
}

/// One side of the pair, and what it knows of each stream by its number.
struct End {
    side: Side,
    /// Bytes of the other side that have not arrived.
    coming: Vec<u8>,
    streams: HashMap<u32, Known>,
}

#[derive(Debug)]
struct Known {
    key: StreamKey,
    sent: u64,
    received: u64,
    held: u32,
    has_ended: bool,
    is_reset: bool,
    has_responded: bool,
}

impl Known {
    fn new(key: StreamKey, has_responded: bool) -> Self {
        Self {
            key,
            sent: 0,
            received: 0,
            held: 0,
            has_ended: false,
            is_reset: false,
            has_responded,
        }
    }
}

/// The byte at a position of every body.
fn byte_at(position: u64) -> u8 {
    u8::try_from(position * 7 % 251).expect("below 251")
}

impl End {
    fn new(role: Role, window: u32) -> Self {
        let options = Options {
            stream_window: window,
            connection_window: 65_535 + window,
            ..options(role)
        };
        Self {
            side: Side::new(options),
            coming: Vec::new(),
            streams: HashMap::new(),
        }
    }

    fn nth(&mut self, nth: u8) -> Option<&mut Known> {
        let mut ids: Vec<_> = self.streams.keys().copied().collect();
        ids.sort_unstable();
        let id = *ids.get(usize::from(nth).checked_rem(ids.len())?)?;
        self.streams.get_mut(&id)
    }

    fn send(&mut self, nth: u8, bytes: u16, then: Then) {
        let Some(known) = self.nth(nth) else { return };
        let end = known.sent + u64::from(bytes);
        let body: Vec<_> = (known.sent..end).map(byte_at).collect();
        let (key, start, has_responded) = (known.key, known.sent, known.has_responded);
        known.has_responded = true;
        let connection = &mut self.side.connection;
        if !has_responded {
            let _ = connection.respond(key, Then::More, status);
        }
        let capacity = connection.capacity(key);
        let sent = connection.write_data(key, &body, then).unwrap_or(0);
        assert!(sent <= capacity && (sent == body.len() || sent == capacity || sent == 0));
        if let Some(known) = self.nth(nth) {
            known.sent = start + sent as u64;
        }
    }

    fn trailers(&mut self, nth: u8) {
        let Some(known) = self.nth(nth) else { return };
        let key = known.key;
        let _ = self.side.connection.write_trailers(key, |writer| {
            writer.field(KnownHeader::Other, b"x-sum", b"1");
        });
    }

    fn give_back(&mut self, nth: u8) {
        let Some(known) = self.nth(nth) else { return };
        let (key, held) = (known.key, std::mem::take(&mut known.held));
        self.side.connection.give_back(key, held);
    }

    fn reset(&mut self, nth: u8) {
        let Some(known) = self.nth(nth) else { return };
        let key = known.key;
        self.streams.retain(|_, known| known.key != key);
        self.side.connection.release(key);
    }

    /// Reads what has arrived, up to so many bytes.
    fn deliver(&mut self, bytes: usize) {
        let count = bytes.min(self.coming.len());
        self.side.input.extend(self.coming.drain(..count));
        let mut at = 0;
        loop {
            let side = &mut self.side;
            let step = side
                .connection
                .receive(&side.input, &mut at, &mut side.decoded)
                .expect("both sides are correct");
            match step {
                Step::Event(event) => self.on_event(&event),
                Step::NextTurn => {
                    // Time passes, so that no rate is exceeded.
                    self.side.now += Duration::from_secs(1);
                    self.side.connection.begin_turn(self.side.now);
                }
                Step::OutputFull => self.side.connection.output_taken(),
                Step::NeedMore => break,
            }
        }
        self.side.input.drain(..at);
        self.side.now += Duration::from_millis(100);
        self.side.connection.begin_turn(self.side.now);
    }

    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Request {
                key,
                then,
                rejected,
            } => {
                assert_eq!(*rejected, None);
                let id = self.side.connection.streams.get(*key).expect("a stream").id;
                let mut known = Known::new(*key, false);
                known.has_ended = *then == Then::End;
                assert!(self.streams.insert(id, known).is_none());
            }
            Event::Response { key, then } => self.known(*key).has_ended = *then == Then::End,
            Event::Data { key, range, then } => {
                let body = self
                    .side
                    .input
                    .get(range.clone())
                    .expect("in the input")
                    .to_vec();
                let known = self.known(*key);
                for byte in &body {
                    assert_eq!(*byte, byte_at(known.received));
                    known.received += 1;
                }
                known.held += u32::try_from(body.len()).expect("short");
                known.has_ended = *then == Then::End;
                let held: u32 = self.streams.values().map(|known| known.held).sum();
                assert!(held <= self.side.connection.options.connection_window);
            }
            Event::Trailers { key } => self.known(*key).has_ended = true,
            Event::Reset { key, .. } => {
                let known = self.streams.values_mut().find(|known| known.key == *key);
                let known = known.expect("a stream that is not released");
                assert!(!known.is_reset);
                known.is_reset = true;
            }
            Event::Writable { key } => {
                let known = self.streams.values().find(|known| known.key == *key);
                let known = known.expect("a stream that is not released");
                assert!(!known.is_reset, "an event after the reset");
            }
            Event::Settings => {}
            Event::Interim { .. } | Event::GoAway { .. } | Event::Pong => {
                panic!("not sent: {event:?}");
            }
        }
    }

    /// The stream of an event of receiving: it has not ended.
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

fn play(window: u32, actions: &[Action]) {
    let mut client = End::new(Role::Client, window);
    let mut server = End::new(Role::Server, window);
    // The client waits for the settings.
    exchange(&mut client, &mut server);
    for action in actions {
        let end = |by_client: bool| usize::from(!by_client);
        let ends = [&mut client, &mut server];
        match *action {
            Action::Open { ends: is_whole } => {
                let then = if is_whole { Then::End } else { Then::More };
                if ends[0].side.connection.has_room() && ends[0].streams.len() < 20 {
                    let key = ends[0].side.open("POST", then);
                    let id = ends[0].side.connection.highest;
                    ends[0].streams.insert(id, Known::new(key, true));
                }
            }
            Action::Send {
                by_client,
                nth,
                bytes,
                ends: is_last,
            } => {
                let then = if is_last { Then::End } else { Then::More };
                ends[end(by_client)].send(nth, bytes, then);
            }
            Action::Trailers { by_client, nth } => ends[end(by_client)].trailers(nth),
            Action::GiveBack { by_client, nth } => ends[end(by_client)].give_back(nth),
            Action::Reset { by_client, nth } => ends[end(by_client)].reset(nth),
            Action::Deliver { by_client, bytes } => {
                let output = std::mem::take(ends[end(!by_client)].side.connection.output());
                ends[end(!by_client)].side.connection.output_taken();
                ends[end(by_client)].coming.extend(output);
                ends[end(by_client)].deliver(bytes.into());
            }
        }
    }
    // In the end everything arrives, and everything that was sent has been received.
    exchange(&mut client, &mut server);
    for (id, known) in &client.streams {
        let Some(other) = server.streams.get(id) else {
            continue;
        };
        if !known.is_reset && !other.is_reset {
            assert_eq!((known.sent, known.received), (other.received, other.sent));
        }
    }
    release_all(&mut client);
    release_all(&mut server);
    exchange(&mut client, &mut server);
    assert_eq!(client.side.connection.streams(), 0);
    assert!(client.side.connection.waiting.is_empty() && client.side.connection.ready.is_empty());
    assert!(server.side.connection.waiting.is_empty() && server.side.connection.ready.is_empty());
}

fn release_all(end: &mut End) {
    for (_, known) in end.streams.drain() {
        end.side.connection.release(known.key);
    }
}

/// Moves all bytes, until both have nothing more to say.
fn exchange(client: &mut End, server: &mut End) {
    for _ in 0..6 {
        server
            .coming
            .extend(std::mem::take(client.side.connection.output()));
        server.deliver(usize::MAX);
        client
            .coming
            .extend(std::mem::take(server.side.connection.output()));
        client.deliver(usize::MAX);
    }
}

proptest! {
    #[test]
    fn every_byte_arrives_once(
        window in prop_oneof![1..2_000_u32, 16_000..70_000_u32],
        actions in vec(action(), 0..200),
    ) {
        play(window, &actions);
    }
}
