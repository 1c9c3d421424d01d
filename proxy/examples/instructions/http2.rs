//! Requests over HTTP/2: a client's connection and a server's, back to back.

use std::hint::black_box;
use std::time::Duration;

use proxy::http::engine::encode::{self, Switch};
use proxy::http::engine::{
    Connection, Decoded, Event, Options, Role, Scheme, SectionWriter, Step, StreamKey, Then,
};
use proxy::http::h1::RequestKind;
use proxy::http::known::KnownHeader;
use proxy::policy::forwarded::HeaderTrust;

use crate::subjects::{browsers_head, head_limits, outgoing};

/// A browser's request without a body and its response, each sent and received: both roles together.
pub(crate) fn make_http_2_requests(times: u64) {
    let head = browsers_head();
    let mut pair = Pair::new();
    for _ in 0..times {
        let request = outgoing(black_box(&head));
        let (open, kind) = (&mut pair.client, RequestKind::Other);
        let key = open.open(kind, Then::End, |writer| {
            encode::request(
                &request,
                Scheme::Https,
                Switch::Ignored,
                |known, name| HeaderTrust::Untrusted.drops(known, name),
                writer,
            );
        });
        pair.exchange(key.expect("room for a stream"));
    }
}

/// A call of gRPC: a message of 128 bytes each way, and a status.
pub(crate) fn make_grpc_calls(times: u64) {
    let mut pair = Pair::new();
    for _ in 0..times {
        let key = pair.client.open(RequestKind::Other, Then::More, |writer| {
            writer.method(b"POST");
            writer.scheme(Scheme::Http);
            writer.path(b"/bench.Echo/Unary");
            writer.authority(b"shop.example.com");
            let content_type = KnownHeader::ContentType;
            writer.field(content_type, b"content-type", b"application/grpc");
            writer.field(KnownHeader::Te, b"te", b"trailers");
        });
        let key = key.expect("room for a stream");
        let written = pair.client.write_data(key, black_box(&MESSAGE), Then::End);
        written.expect("an open stream");
        pair.exchange(key);
    }
}

/// Two connections back to back.
struct Pair {
    client: Connection,
    server: Connection,
    decoded: Decoded,
    buffer: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        let options = |role| Options {
            role,
            streams: 100,
            stream_window: 65_535,
            connection_window: 1 << 20,
            heads: head_limits(),
        };
        let mut pair = Self {
            client: Connection::new(options(Role::Client)),
            server: Connection::new(options(Role::Server)),
            decoded: Decoded::default(),
            buffer: Vec::new(),
        };
        pair.reach_server();
        pair.reach_client();
        pair.reach_server();
        pair
    }

    /// Passes a request to the server, and its response to the client, which then releases the stream.
    fn exchange(&mut self, key: StreamKey) {
        self.reach_server();
        self.reach_client();
        self.client.release(key);
    }

    fn reach_server(&mut self) {
        let server = &mut self.server;
        pass(
            &mut self.client,
            server,
            &mut self.decoded,
            &mut self.buffer,
            answer,
        );
    }

    fn reach_client(&mut self) {
        let client = &mut self.client;
        let give_back = |client: &mut Connection, event: Event| {
            if let Event::Data { key, range, .. } = event {
                let bytes = u32::try_from(range.len()).expect("a frame");
                client.give_back(key, bytes);
            }
        };
        pass(
            &mut self.server,
            client,
            &mut self.decoded,
            &mut self.buffer,
            give_back,
        );
    }
}

/// Responds to the end of a request.
fn answer(server: &mut Connection, event: Event) {
    let (key, has_body) = match event {
        Event::Request {
            key,
            then: Then::End,
            ..
        } => (key, false),
        Event::Data {
            key,
            range,
            then: Then::End,
        } => {
            let bytes = u32::try_from(range.len()).expect("a frame");
            server.give_back(key, bytes);
            (key, true)
        }
        _ => return,
    };
    let then = if has_body { Then::More } else { Then::End };
    let responded = server.respond(key, then, |writer| {
        writer.status(200);
        let content_type = KnownHeader::ContentType;
        writer.field(content_type, b"content-type", b"application/grpc");
    });
    responded.expect("an open stream");
    if has_body {
        let written = server.write_data(key, &MESSAGE, Then::More);
        written.expect("an open stream");
        let ended = server.write_trailers(key, |writer| {
            writer.field(KnownHeader::GrpcStatus, b"grpc-status", b"0");
        });
        ended.expect("an open stream");
    }
    server.release(key);
}

/// Passes what one side has written to the other.
fn pass(
    from: &mut Connection,
    to: &mut Connection,
    decoded: &mut Decoded,
    buffer: &mut Vec<u8>,
    on_event: impl Fn(&mut Connection, Event),
) {
    std::mem::swap(from.output(), buffer);
    from.output_taken();
    to.begin_turn(Duration::from_secs(1));
    let mut at = 0;
    loop {
        match to.receive(black_box(buffer), &mut at, decoded) {
            Ok(Step::Event(event)) => on_event(to, event),
            Ok(Step::NeedMore) => break,
            other => panic!("{other:?}"),
        }
    }
    buffer.clear();
}

const MESSAGE: [u8; 133] = [b'm'; 133];
