//! Streams of a connection whose client is the engine in its other role, without sockets.

mod bodies;
mod requests;

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http::StatusCode;

use super::ReadMode;
use super::{Memory, Session, Stream, StreamEnd};
use crate::http::engine::error::{Code, ResetCause};
use crate::http::engine::frame::FrameHead;
use crate::http::engine::{
    Connection, Decoded, Event, HeadWriter, Options, Pressure, Role, Scheme, SectionWriter, Step,
    StreamKey, Then,
};
use crate::http::h1::encode::{DownstreamResponse, LocalResponse, Persist};
use crate::http::h1::{HeadLimits, RequestKind};
use crate::http::head::{ResponseHead, Version};
use crate::limits::{H2_FRAME_BYTES, H2_SEND_BYTES};
use crate::memory::{Buffer, BufferPool};

/// A connection with its streams, and its client.
struct Rig {
    session: Rc<Session>,
    memory: Rc<Memory>,
    pool: Rc<BufferPool>,
    streams: Vec<(StreamKey, Stream)>,
    client: Connection,
    decoded: Decoded,
    /// What the client received.
    events: Vec<Event>,
    bodies: usize,
}

fn options(role: Role, window: u32) -> Options {
    Options {
        role,
        streams: 100,
        stream_window: window,
        connection_window: 10_000_000,
        heads: HeadLimits {
            line_bytes: 1024,
            head_bytes: 4096,
            fields: 32,
        },
    }
}

/// A pair whose client's streams have this window.
fn rig(window: u32) -> Rig {
    let pool = Rc::<BufferPool>::default();
    let memory = Rc::<Memory>::default();
    let options_of_server = options(Role::Server, 65_535);
    let mut rig = Rig {
        session: Session::new(options_of_server, Rc::clone(&memory), Rc::clone(&pool)),
        memory,
        pool,
        streams: Vec::new(),
        client: Connection::new(options(Role::Client, window)),
        decoded: Decoded::default(),
        events: Vec::new(),
        bodies: 0,
    };
    rig.exchange();
    rig
}

impl Rig {
    /// Opens streams.
    fn opens(&mut self, count: usize, then: Then) -> Vec<StreamKey> {
        let keys = (0..count).map(|_| {
            let opened = self.client.open(RequestKind::Other, then, request);
            opened.expect("room for a stream")
        });
        let keys = keys.collect();
        self.exchange();
        keys
    }

    /// Passes on everything that either side has written, until there is no more.
    fn exchange(&mut self) {
        loop {
            let sent = std::mem::take(self.client.output());
            self.client.output_taken();
            self.serve(&sent);
            let Some(answered) = self.flush() else {
                if sent.is_empty() {
                    return;
                }
                continue;
            };
            self.receive(&answered);
        }
    }

    /// The first part of a turn of the driver, without its sockets.
    fn serve(&mut self, input: &[u8]) {
        self.session.begin_turn(Duration::ZERO);
        let mut at = 0;
        loop {
            match self
                .session
                .receive(input, &mut at)
                .expect("a correct peer")
            {
                Step::Event(Event::Request { key, then, .. }) => {
                    let stream = self.session.accept(key, then);
                    self.streams.push((key, stream));
                }
                Step::Event(Event::Data { key, range, then }) => {
                    self.session.pass_data(key, &input[range], then);
                }
                Step::Event(Event::Trailers { key }) => self.session.pass_trailers(key),
                Step::Event(Event::Reset { key, cause }) => self.session.pass_reset(key, cause),
                Step::Event(Event::Writable { key }) => self.session.pass_window(key),
                Step::Event(_) => {}
                Step::NextTurn => self.session.begin_turn(Duration::ZERO),
                Step::NeedMore | Step::OutputFull => break,
            }
        }
    }

    /// Ends a turn: what the connection sends in it.
    fn flush(&mut self) -> Option<Vec<u8>> {
        let output = self.session.take_output();
        self.session.end_turn(&context());
        output
    }

    fn receive(&mut self, input: &[u8]) {
        self.client.begin_turn(Duration::ZERO);
        let mut at = 0;
        loop {
            let step = self.client.receive(input, &mut at, &mut self.decoded);
            match step.expect("a correct server") {
                Step::Event(event) => {
                    if let Event::Data { key, range, .. } = &event {
                        self.bodies += range.len();
                        let length = u32::try_from(range.len()).expect("a frame");
                        self.client.give_back(*key, length);
                    }
                    self.events.push(event);
                }
                Step::NextTurn => self.client.begin_turn(Duration::ZERO),
                Step::NeedMore | Step::OutputFull => return,
            }
        }
    }
}

fn request(writer: &mut HeadWriter<'_>) {
    writer.method(b"POST");
    writer.scheme(Scheme::Http);
    writer.path(b"/");
    writer.authority(b"a.test");
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn puts_head(stream: &Stream, status: u16) {
    let response = LocalResponse {
        status: StatusCode::from_u16(status).expect("a status"),
        request_kind: RequestKind::Other,
        client: Version::Http2,
        persist: Persist::Keep,
        append: b"",
        length: 0,
    };
    stream.put_local_response(&response);
}

/// The frames of some output: type, flags and length.
fn frames(mut bytes: &[u8]) -> Vec<(String, u8, u32)> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = FrameHead::read(*head);
        found.push((format!("{:?}", head.kind), head.flags, head.length));
        bytes = &rest[head.length as usize..];
    }
    found
}

#[test]
fn a_response_without_a_body_is_one_frame() {
    let mut rig = rig(65_535);
    rig.opens(1, Then::End);
    let stream = &rig.streams[0].1;
    puts_head(stream, 500);
    assert_eq!(rig.session.take_output(), None, "the head waits");
    puts_head(stream, 204);
    let sent = pin!(stream.send(b"", Some(b""))).poll(&mut context());
    assert!(matches!(sent, Poll::Ready(Ok(()))));
    let output = rig.session.take_output().expect("the response");
    let found = frames(&output);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&*found[0].0, found[0].1 & 0x5), ("Headers", 0x5));
    rig.receive(&output);
    assert_eq!(rig.decoded.response.status, 204, "the head was replaced");
    rig.streams.clear();
    assert_eq!(
        rig.session.take_output(),
        None,
        "no reset of a complete stream"
    );
}

#[test]
fn a_body_waits_for_windows_and_arrives_once() {
    let mut rig = rig(1_000);
    rig.opens(1, Then::End);
    let stream = rig.streams.remove(0).1;
    puts_head(&stream, 200);
    let body = vec![b'x'; 100_000];
    let mut sending = pin!(stream.send(&body, Some(b"a: b\r\n")));
    let mut turns = 0;
    while sending.as_mut().poll(&mut context()).is_pending() {
        rig.exchange();
        turns += 1;
    }
    rig.exchange();
    assert!(turns > 50, "{turns}");
    assert_eq!(rig.bodies, body.len());
    assert!(matches!(rig.events.last(), Some(Event::Trailers { .. })));
    assert_eq!(rig.decoded.bytes, b"a: b\r\n");
}

#[test]
fn streams_take_turns_when_the_output_is_full() {
    let mut rig = rig(10_000_000);
    rig.opens(8, Then::End);
    let streams: Vec<Stream> = rig.streams.drain(..).map(|(_, stream)| stream).collect();
    let body = vec![b'x'; 100_000];
    for stream in &streams {
        puts_head(stream, 200);
    }
    let mut sending: Vec<_> = streams
        .iter()
        .map(|stream| Box::pin(stream.send(&body, Some(b""))))
        .collect();
    let frame = H2_FRAME_BYTES as usize;
    let mut turns = Vec::new();
    loop {
        sending.retain_mut(|sending| sending.as_mut().poll(&mut context()).is_pending());
        let Some(output) = rig.flush() else {
            break;
        };
        assert!(output.len() <= H2_SEND_BYTES + frame, "{}", output.len());
        let data = frames(&output).into_iter().filter(|it| it.0 == "Data");
        turns.push(data.count());
        rig.receive(&output);
        let sent = std::mem::take(rig.client.output());
        rig.client.output_taken();
        rig.serve(&sent);
    }
    assert!(sending.is_empty());
    assert_eq!(rig.bodies, 8 * body.len());
    // After the first turn, all have their frames before one has its second.
    let order = rig.events.iter().filter_map(|event| match event {
        Event::Data { key, .. } => Some(key.place()),
        _ => None,
    });
    let order: Vec<_> = order.skip(turns[0]).take(8).collect();
    let mut places = order.clone();
    places.sort_unstable();
    places.dedup();
    assert!(places.len() >= 7, "{order:?}");
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn windows_open_when_the_pressure_on_memory_relaxes() {
    let mut rig = rig(65_535);
    let key = rig.opens(1, Then::More)[0];
    rig.memory.set_pressure(Pressure::Soft);
    rig.client
        .write_data(key, &vec![0; 60_000], Then::More)
        .expect("open");
    rig.exchange();
    let mut buffer = rig.pool.without_memory();
    let stream = &rig.streams[0].1;
    let read = |buffer: &mut Buffer| {
        let read = pin!(stream.read(buffer, ReadMode::Uncancelable)).poll(&mut context());
        assert!(matches!(read, Poll::Ready(Ok(1..))) || read.is_pending());
        buffer.clear();
        read.is_ready()
    };
    while read(&mut buffer) {}
    let (wakes, before) = (Arc::<Wakes>::default(), rig.client.capacity(key));
    let waker = Waker::from(Arc::clone(&wakes));
    rig.exchange();
    let pressed = rig.client.capacity(key);
    assert!(pressed > before && pressed <= 16_384, "{before}, {pressed}");
    rig.session.end_turn(&Context::from_waker(&waker));
    rig.memory.set_pressure(Pressure::Hard);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    rig.memory.set_pressure(Pressure::None);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    rig.exchange();
    assert!(rig.client.capacity(key) > 49_152);
}

#[test]
fn a_stream_that_ends_while_it_waits_leaves_its_place() {
    let mut rig = rig(10_000_000);
    rig.opens(2, Then::End);
    let other = rig.streams.pop().expect("two streams").1;
    let stream = rig.streams.pop().expect("two streams").1;
    let body = vec![b'x'; 2 * H2_SEND_BYTES];
    for stream in [&stream, &other] {
        puts_head(stream, 200);
        let sent = pin!(stream.send(&body, None)).poll(&mut context());
        assert!(sent.is_pending());
    }
    drop(stream);
    // The first one is reset, and the other gets the room.
    let mut sending = pin!(other.send(b"y", Some(b"")));
    let mut turns = 0;
    while sending.as_mut().poll(&mut context()).is_pending() {
        let output = rig.flush().expect("it waits for what is in the output");
        rig.receive(&output);
        turns += 1;
    }
    assert!((1..4).contains(&turns), "{turns}");
}

#[test]
fn a_dropped_stream_is_reset_and_its_memory_returned() {
    let mut rig = rig(65_535);
    let key = rig.opens(1, Then::More)[0];
    assert_eq!(
        rig.client.write_data(key, &vec![0; 30_000], Then::More),
        Ok(30_000)
    );
    rig.exchange();
    assert!(rig.pool.lent() > 0);
    rig.streams.clear();
    assert_eq!((rig.session.users(), rig.pool.lent()), (0, 0));
    rig.exchange();
    let cause = ResetCause::Peer(Code::CANCEL);
    assert!(
        rig.events.contains(&Event::Reset { key, cause }),
        "{:?}",
        rig.events
    );
}

#[test]
fn all_streams_end_with_their_connection() {
    let mut rig = rig(65_535);
    rig.opens(3, Then::More);
    rig.session.end_streams(StreamEnd::Closed);
    for (_, stream) in &rig.streams {
        assert!(stream.is_gone());
        assert_eq!(stream.reset_by_peer(), None);
    }
}

#[test]
fn interim_responses_are_not_held_for_a_client_that_does_not_read() {
    let mut rig = rig(10_000_000);
    rig.opens(2, Then::End);
    let other = &rig.streams[1].1;
    let stream = &rig.streams[0].1;
    puts_head(stream, 200);
    let body = vec![b'x'; 2 * H2_SEND_BYTES];
    let mut sending = pin!(stream.send(&body, None));
    assert!(sending.as_mut().poll(&mut context()).is_pending());
    let head = ResponseHead {
        status: 103,
        ..ResponseHead::default()
    };
    let hints = DownstreamResponse {
        head: &head,
        bytes: b"",
        client: Version::Http2,
        persist: Persist::Keep,
        append: b"",
    };
    let informs = || other.send_interim(&hints, |_, _| false).expect("open");
    let heads = |output: Option<Vec<u8>>| {
        let found = frames(&output.expect("some output"));
        found.iter().filter(|frame| frame.0 == "Headers").count()
    };
    (0..100).for_each(|_| informs());
    let output = rig.session.take_output();
    assert_eq!(heads(output), 1, "that of the first stream");
    informs();
    let output = rig.session.take_output();
    assert_eq!(heads(output), 1, "there is room again");
}
