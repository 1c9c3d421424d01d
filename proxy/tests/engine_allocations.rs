//! The HTTP/2 engine allocates nothing in the steady state, in either role.

#[path = "support/allocations.rs"]
mod allocations;

use std::time::Duration;

use proxy::http::engine::{
    Connection, Decoded, Event, HeadWriter, Options, Role, Scheme, SectionWriter, Step, Then,
};
use proxy::http::h1::{HeadLimits, RequestKind};
use proxy::http::known::KnownHeader;

use allocations::ALLOCATIONS;

fn connection(role: Role) -> Connection {
    Connection::new(Options {
        role,
        streams: 100,
        stream_window: 65_536,
        connection_window: 1 << 20,
        heads: HeadLimits {
            line_bytes: 8 * 1024,
            head_bytes: 32 * 1024,
            fields: 100,
        },
    })
}

#[test]
fn grpc_calls_allocate_nothing_once_the_tables_are_filled() {
    let (mut client, mut server) = (connection(Role::Client), connection(Role::Server));
    let mut decoded = Decoded::default();
    let mut buffer = Vec::new();
    for number in 0..200 {
        call(&mut client, &mut server, &mut decoded, &mut buffer, number);
    }
    let before = ALLOCATIONS.get();
    for number in 200..2_000 {
        call(&mut client, &mut server, &mut decoded, &mut buffer, number);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert_eq!((client.streams(), server.streams()), (0, 0));
}

/// One call: a request with a message, and a response with a message and trailers.
fn call(
    client: &mut Connection,
    server: &mut Connection,
    decoded: &mut Decoded,
    buffer: &mut Vec<u8>,
    number: u32,
) {
    let opened = client.open(RequestKind::Other, Then::More, |writer| {
        write_request(writer, number);
    });
    let key = opened.expect("there is room");
    let sent = client.write_data(key, &[7; 133], Then::End);
    assert_eq!(sent, Ok(133));
    deliver(
        client,
        server,
        decoded,
        buffer,
        &mut |server, event, input| {
            if let Event::Data { key, range, .. } = event {
                let body = &input[range];
                server.give_back(key, 133);
                server
                    .respond(key, Then::More, write_response)
                    .expect("open");
                assert_eq!(server.write_data(key, body, Then::More), Ok(133));
                server.write_trailers(key, write_trailers).expect("open");
                server.release(key);
            }
        },
    );
    let mut has_ended = false;
    deliver(
        server,
        client,
        decoded,
        buffer,
        &mut |client, event, _| match event {
            Event::Data { key, .. } => client.give_back(key, 133),
            Event::Trailers { key } => {
                client.release(key);
                has_ended = true;
            }
            _ => {}
        },
    );
    assert!(has_ended);
}

/// Moves the output of one to the other.
fn deliver(
    from: &mut Connection,
    to: &mut Connection,
    decoded: &mut Decoded,
    buffer: &mut Vec<u8>,
    on_event: &mut dyn FnMut(&mut Connection, Event, &[u8]),
) {
    std::mem::swap(from.output(), buffer);
    from.output_taken();
    to.begin_turn(Duration::from_secs(1));
    let mut at = 0;
    loop {
        match to.receive(buffer, &mut at, decoded).expect("correct") {
            Step::Event(event) => on_event(to, event, buffer),
            Step::NextTurn => to.begin_turn(Duration::from_secs(1)),
            Step::OutputFull => to.output_taken(),
            Step::NeedMore => break,
        }
    }
    assert_eq!(at, buffer.len());
    buffer.clear();
}

fn write_request(writer: &mut HeadWriter<'_>, number: u32) {
    writer.method(b"POST");
    writer.scheme(Scheme::Http);
    writer.path(b"/bench.Echo/Unary");
    writer.authority(b"127.0.0.1:8080");
    writer.field(
        KnownHeader::ContentType,
        b"Content-Type",
        b"application/grpc",
    );
    writer.field(KnownHeader::Te, b"TE", b"trailers");
    // Different in each call, and repeated by every second one.
    let digits = [b'0' + u8::try_from(number / 2 % 10).expect("a digit"); 40];
    writer.field(KnownHeader::Other, b"x-number", &digits);
}

fn write_response(writer: &mut HeadWriter<'_>) {
    writer.status(200);
    writer.field(
        KnownHeader::ContentType,
        b"content-type",
        b"application/grpc",
    );
}

fn write_trailers(writer: &mut HeadWriter<'_>) {
    writer.field(KnownHeader::GrpcStatus, b"grpc-status", b"0");
}
