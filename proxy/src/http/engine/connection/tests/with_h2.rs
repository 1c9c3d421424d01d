//! Against the `h2` crate, in memory: its client with our server, and its server with our client. Everything
//! is polled by hand, so that nothing depends on time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;

/// The crate's end of a pipe to one of our connections.
#[derive(Clone, Default)]
struct Pipe(Rc<RefCell<InFlight>>);

#[derive(Default)]
struct InFlight {
    to_crate: Vec<u8>,
    from_crate: Vec<u8>,
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let waiting = &mut self.0.borrow_mut().to_crate;
        if waiting.is_empty() {
            return Poll::Pending;
        }
        // In odd pieces.
        let count = waiting.len().min(buffer.remaining()).min(1_001);
        buffer.put_slice(&waiting[..count]);
        waiting.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().from_crate.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What our side knows of a stream.
#[derive(Default)]
struct Ours {
    received: Vec<u8>,
    trailers: String,
    /// The rest of what it sends, and whether the message ends behind it.
    to_send: Vec<u8>,
    has_ended: bool,
    status: u16,
}

/// Our connection, that echoes each request's body, or collects each response.
struct Echo {
    side: Side,
    streams: HashMap<StreamKey, Ours>,
}

impl Echo {
    fn new(role: Role) -> Self {
        Self {
            side: Side::new(options(role)),
            streams: HashMap::new(),
        }
    }

    /// Moves bytes both ways, and handles what they mean.
    fn turn(&mut self, pipe: &Pipe) {
        self.side.now += Duration::from_millis(10);
        self.side.connection.begin_turn(self.side.now);
        let arrived = std::mem::take(&mut pipe.0.borrow_mut().from_crate);
        self.side.input.extend(arrived);
        let mut at = 0;
        loop {
            let side = &mut self.side;
            let step = side
                .connection
                .receive(&side.input, &mut at, &mut side.decoded);
            match step.expect("the crate is correct") {
                Step::Event(event) => self.on_event(event),
                Step::NextTurn => self.side.connection.begin_turn(self.side.now),
                Step::OutputFull => self.side.connection.output_taken(),
                Step::NeedMore => break,
            }
        }
        self.side.input.drain(..at);
        let keys: Vec<_> = self.streams.keys().copied().collect();
        for key in keys {
            self.send(key);
        }
        let output = std::mem::take(self.side.connection.output());
        self.side.connection.output_taken();
        pipe.0.borrow_mut().to_crate.extend(output);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Request {
                key,
                then,
                rejected,
            } => {
                assert_eq!(rejected, None);
                let fields = &self.side.decoded.request.fields;
                assert!(fields.has_name(b"x-number", &self.side.decoded.bytes));
                let connection = &mut self.side.connection;
                connection
                    .inform(key, |writer| writer.status(103))
                    .expect("open");
                connection
                    .respond(key, Then::More, |writer| {
                        status(writer);
                        writer.field(KnownHeader::Other, b"X-Long", "y".repeat(300).as_bytes());
                    })
                    .expect("open");
                let has_ended = then == Then::End;
                self.streams.insert(
                    key,
                    Ours {
                        has_ended,
                        ..Ours::default()
                    },
                );
            }
            Event::Response { key, then } => {
                let ours = self.streams.get_mut(&key).expect("ours");
                ours.status = self.side.decoded.response.status;
                ours.has_ended = then == Then::End;
            }
            Event::Data { key, range, then } => {
                let bytes = self.side.input.get(range).expect("in the input").to_vec();
                let length = u32::try_from(bytes.len()).expect("short");
                self.side.connection.give_back(key, length);
                let is_server = self.side.connection.options.role == Role::Server;
                let ours = self.streams.get_mut(&key).expect("ours");
                ours.has_ended = then == Then::End;
                ours.received.extend_from_slice(&bytes);
                if is_server {
                    ours.to_send.extend(bytes);
                }
            }
            Event::Trailers { key } => {
                let ours = self.streams.get_mut(&key).expect("ours");
                ours.trailers = self.side.decoded.bytes.escape_ascii().to_string();
                ours.has_ended = true;
            }
            Event::Reset { cause, .. } => panic!("{cause}"),
            Event::Interim { .. } | Event::Writable { .. } | Event::Settings => {}
            Event::GoAway { .. } | Event::Pong => panic!("{event:?}"),
        }
    }

    /// Sends what the windows allow; a server ends its message with trailers.
    fn send(&mut self, key: StreamKey) {
        let is_server = self.side.connection.options.role == Role::Server;
        let ours = self.streams.get_mut(&key).expect("ours");
        let then = if is_server { Then::More } else { Then::End };
        let connection = &mut self.side.connection;
        if !ours.to_send.is_empty() {
            let sent = connection
                .write_data(key, &ours.to_send, then)
                .expect("open");
            ours.to_send.drain(..sent);
        }
        if is_server && ours.has_ended && ours.to_send.is_empty() {
            let trailers = |writer: &mut HeadWriter<'_>| {
                writer.field(KnownHeader::GrpcStatus, b"grpc-status", b"0");
            };
            connection.write_trailers(key, trailers).expect("open");
            self.streams.remove(&key);
            connection.release(key);
        }
    }
}

fn body(number: usize) -> Vec<u8> {
    (0..number * 9_973)
        .map(|at| u8::try_from(at % 251).expect("below"))
        .collect()
}

/// Takes what has arrived of a body, and returns its bytes to the window.
fn take(body: &mut RecvStream, into: &mut Vec<u8>, context: &mut Context<'_>) -> Option<HeaderMap> {
    loop {
        match body.poll_data(context) {
            Poll::Pending => return None,
            Poll::Ready(None) => break,
            Poll::Ready(Some(bytes)) => {
                let bytes = bytes.expect("well-formed");
                into.extend_from_slice(&bytes);
                body.flow_control()
                    .release_capacity(bytes.len())
                    .expect("received");
            }
        }
    }
    match body.poll_trailers(context) {
        Poll::Ready(trailers) => Some(trailers.expect("well-formed").unwrap_or_default()),
        Poll::Pending => None,
    }
}

const STREAMS: usize = 40;
const TURNS: usize = 20_000;

#[test]
fn the_crates_client_gets_its_bodies_back_from_our_server() {
    let mut context = Context::from_waker(Waker::noop());
    let (pipe, mut echo) = (Pipe::default(), Echo::new(Role::Server));
    let mut handshake = pin!(h2::client::handshake(pipe.clone()));
    let (mut send, mut connection) = loop {
        if let Poll::Ready(made) = handshake.as_mut().poll(&mut context) {
            break made.expect("a handshake");
        }
    };
    let mut calls = Vec::new();
    for number in 0..STREAMS {
        let mut request = Request::post("http://a.test/").body(()).expect("a request");
        let fields = request.headers_mut();
        fields.insert("x-number", HeaderValue::from(number));
        fields.insert(
            "user-agent",
            HeaderValue::from_static("a client with a name"),
        );
        let (response, mut body_out) = send.send_request(request, false).expect("room");
        body_out
            .send_data(Bytes::from(body(number)), false)
            .expect("open");
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("1"));
        body_out.send_trailers(trailers).expect("open");
        calls.push((response, None::<Response<RecvStream>>, Vec::new(), None));
    }
    for _ in 0..TURNS {
        assert!(Pin::new(&mut connection).poll(&mut context).is_pending());
        echo.turn(&pipe);
        for (response, answered, received, trailers) in &mut calls {
            match answered {
                None => {
                    if let Poll::Ready(response) = Pin::new(response).poll(&mut context) {
                        *answered = Some(response.expect("a response"));
                    }
                }
                Some(answered) if trailers.is_none() => {
                    *trailers = take(answered.body_mut(), received, &mut context);
                }
                Some(_) => {}
            }
        }
        if calls.iter().all(|(.., trailers)| trailers.is_some()) {
            break;
        }
    }
    for (number, (_, answered, received, trailers)) in calls.into_iter().enumerate() {
        let head = answered.expect("an answer");
        assert_eq!(
            (head.status().as_u16(), head.headers()["x-long"].len()),
            (200, 300)
        );
        assert_eq!(trailers.expect("the end")["grpc-status"], "0");
        assert!(received == body(number), "{number}");
    }
    assert_eq!(echo.side.connection.streams(), 0);
}

/// Opens a stream with a request that has a number and a body.
fn open(echo: &mut Echo, number: usize) -> StreamKey {
    let opened = echo
        .side
        .connection
        .open(RequestKind::Other, Then::More, |writer| {
            write_request(writer, "POST");
            let number = number.to_string();
            writer.field(KnownHeader::Other, b"X-Number", number.as_bytes());
        });
    let key = opened.expect("room");
    let to_send = if number == 0 { vec![1] } else { body(number) };
    let ours = Ours {
        to_send,
        ..Ours::default()
    };
    echo.streams.insert(key, ours);
    key
}

/// A request that the crate's server has received.
struct Call {
    body_in: RecvStream,
    body_out: h2::SendStream<Bytes>,
    received: Vec<u8>,
    is_done: bool,
}

/// Sends a request's body back once it is complete.
fn answer(call: &mut Call, context: &mut Context<'_>) {
    if call.is_done || take(&mut call.body_in, &mut call.received, context).is_none() {
        return;
    }
    call.is_done = true;
    let body = Bytes::from(call.received.clone());
    call.body_out.send_data(body, false).expect("open");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    call.body_out.send_trailers(trailers).expect("open");
}

#[test]
fn our_client_gets_its_bodies_back_from_the_crates_server() {
    let mut context = Context::from_waker(Waker::noop());
    let (pipe, mut echo) = (Pipe::default(), Echo::new(Role::Client));
    echo.turn(&pipe);
    let mut handshake = pin!(h2::server::handshake(pipe.clone()));
    let mut connection = loop {
        if let Poll::Ready(made) = handshake.as_mut().poll(&mut context) {
            break made.expect("a handshake");
        }
        echo.turn(&pipe);
    };
    let mut calls = Vec::new();
    let mut keys = Vec::new();
    for _ in 0..TURNS {
        while keys.len() < STREAMS && echo.side.connection.has_settings() {
            keys.push(open(&mut echo, keys.len()));
        }
        while let Poll::Ready(Some(accepted)) = connection.poll_accept(&mut context) {
            let (request, mut respond) = accepted.expect("a request");
            assert!(request.headers().contains_key("x-number"));
            assert_eq!(request.uri(), "http://a.test/");
            let mut response = Response::new(());
            let long = HeaderValue::from_static("a value that both will add to the table");
            response.headers_mut().insert("x-repeated", long);
            let body_out = respond.send_response(response, false).expect("open");
            calls.push(Call {
                body_in: request.into_body(),
                body_out,
                received: Vec::new(),
                is_done: false,
            });
        }
        for call in &mut calls {
            answer(call, &mut context);
        }
        echo.turn(&pipe);
        if keys.len() == STREAMS && keys.iter().all(|key| echo.streams[key].has_ended) {
            break;
        }
    }
    for (number, key) in keys.into_iter().enumerate() {
        let ours = &echo.streams[&key];
        assert_eq!((ours.status, &*ours.trailers), (200, r"grpc-status: 0\r\n"));
        let expected = if number == 0 { vec![1] } else { body(number) };
        assert!(
            ours.received == expected,
            "{number}: {} bytes",
            ours.received.len()
        );
        echo.side.connection.release(key);
    }
    assert_eq!(echo.side.connection.streams(), 0);
}
