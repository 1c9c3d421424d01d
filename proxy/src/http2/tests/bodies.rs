//! Bodies of requests: what is read, given back to the client, and dropped.

use std::pin::pin;
use std::task::Poll;

use super::{context, puts_head, rig};
use crate::http::engine::error::Code;
use crate::http::engine::{HeadWriter, SectionWriter as _, Then};
use crate::http2::{ReadMode, Stream};
use crate::memory::Buffer;

#[test]
fn received_bytes_are_read_and_then_given_back() {
    let mut rig = rig(65_535);
    let key = rig.opens(1, Then::More)[0];
    let stream = rig.streams.remove(0).1;
    let mut buffer = rig.pool.without_memory();
    let waits = pin!(stream.read(&mut buffer, ReadMode::Uncancelable)).poll(&mut context());
    assert!(waits.is_pending());
    let body = vec![b'x'; 65_535];
    let written = rig.client.write_data(key, &body, Then::More);
    assert_eq!(written, Ok(65_535), "a whole window");
    rig.exchange();
    assert_eq!(rig.client.capacity(key), 0);
    let mut read = 0;
    while read < body.len() {
        let more = pin!(stream.read(&mut buffer, ReadMode::Uncancelable)).poll(&mut context());
        let Poll::Ready(Ok(count @ 1..)) = more else {
            panic!("{more:?} after {read}");
        };
        assert_eq!(buffer.len(), count);
        read += count;
        buffer.clear();
    }
    assert!(!stream.is_read());
    let written = rig.client.write_data(key, b"", Then::End);
    assert_eq!(written, Ok(0));
    let waits = pin!(stream.read(&mut buffer, ReadMode::Uncancelable)).poll(&mut context());
    assert!(waits.is_pending(), "what was read is given back");
    assert_eq!(buffer.room(), 0, "it waits without memory");
    rig.exchange();
    let end = pin!(stream.read(&mut buffer, ReadMode::Uncancelable)).poll(&mut context());
    assert!(matches!(end, Poll::Ready(Ok(0))) && stream.is_read());
}

#[test]
fn a_window_update_follows_what_was_forwarded() {
    let mut rig = rig(65_535);
    let key = rig.opens(1, Then::More)[0];
    let stream = rig.streams.remove(0).1;
    let mut buffer = rig.pool.without_memory();
    assert_eq!(
        rig.client.write_data(key, &vec![0; 40_000], Then::More),
        Ok(40_000)
    );
    rig.exchange();
    assert_eq!(rig.client.capacity(key), 25_535);
    let mut held = 0;
    while held < 40_000 {
        assert_eq!(rig.client.capacity(key), 25_535, "nothing was forwarded");
        held += reads(&stream, &mut buffer);
        rig.exchange();
    }
    buffer.clear();
    let waits = pin!(stream.read(&mut buffer, ReadMode::Uncancelable)).poll(&mut context());
    assert!(waits.is_pending());
    rig.exchange();
    assert_eq!(rig.client.capacity(key), 65_535);
}

/// Reads into the buffer, and keeps what is in it.
fn reads(stream: &Stream, buffer: &mut Buffer) -> usize {
    match pin!(stream.read(buffer, ReadMode::Uncancelable)).poll(&mut context()) {
        Poll::Ready(Ok(count)) => count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rest_of_a_request_is_dropped_and_given_back() {
    let mut rig = rig(65_535);
    let key = rig.opens(1, Then::More)[0];
    let stream = rig.streams.remove(0).1;
    let body = vec![0; 40_000];
    assert_eq!(rig.client.write_data(key, &body, Then::More), Ok(40_000));
    rig.exchange();
    let mut buffer = rig.pool.without_memory();
    assert!(reads(&stream, &mut buffer) > 0);
    puts_head(&stream, 413);
    assert!(!stream.has_early_response(), "its head waits");
    let sent = pin!(stream.send(b"", Some(b""))).poll(&mut context());
    assert!(matches!(sent, Poll::Ready(Ok(()))) && stream.has_early_response());
    let drops = || pin!(stream.drop_bytes()).poll(&mut context());
    assert_eq!(drops(), Poll::Ready(true));
    assert_eq!(drops(), Poll::Pending);
    rig.exchange();
    assert_eq!(
        rig.client.capacity(key),
        65_535,
        "also what was read before"
    );
    assert_eq!(rig.client.write_data(key, b"x", Then::End), Ok(1));
    rig.exchange();
    assert_eq!(drops(), Poll::Ready(true));
    assert_eq!(drops(), Poll::Ready(false), "the end");
    assert!(!stream.has_early_response());
    buffer.clear();
}

#[test]
fn nothing_is_dropped_after_a_reset_or_the_deadline() {
    let mut rig = rig(65_535);
    let keys = rig.opens(2, Then::More);
    let late = rig.streams.pop().expect("two streams").1;
    let reset = rig.streams.pop().expect("two streams").1;
    rig.client.reset(keys[0], Code::CANCEL);
    rig.exchange();
    let dropped = pin!(reset.drop_bytes()).poll(&mut context());
    assert_eq!(dropped, Poll::Ready(false));
    assert!(pin!(late.drop_bytes()).poll(&mut context()).is_pending());
    late.signals().disconnect();
    let dropped = pin!(late.drop_bytes()).poll(&mut context());
    assert_eq!(dropped, Poll::Ready(false));
}

#[test]
fn trailers_come_after_the_body() {
    let mut rig = rig(65_535);
    let key = rig.opens(1, Then::More)[0];
    let stream = rig.streams.remove(0).1;
    assert_eq!(rig.client.write_data(key, b"abc", Then::More), Ok(3));
    let trailers = |writer: &mut HeadWriter<'_>| writer.lines(b"x-sum: 1\r\n");
    assert_eq!(rig.client.write_trailers(key, trailers), Ok(()));
    rig.exchange();
    let mut buffer = rig.pool.without_memory();
    assert_eq!(reads(&stream, &mut buffer), 3);
    assert!(!stream.is_read(), "trailers are left");
    buffer.clear();
    assert_eq!(reads(&stream, &mut buffer), 0);
    assert!(stream.is_read());
    stream.with_trailers(|lines| assert_eq!(lines, b"x-sum: 1\r\n"));
}

#[test]
fn a_reset_ends_reading_after_the_bytes_before_it() {
    let mut rig = rig(65_535);
    let key = rig.opens(1, Then::More)[0];
    let stream = rig.streams.remove(0).1;
    assert_eq!(rig.client.write_data(key, b"abc", Then::More), Ok(3));
    rig.client.reset(key, Code::CANCEL);
    rig.exchange();
    assert!(stream.is_gone() && stream.poll_closed(&mut context()).is_ready());
    assert_eq!(stream.reset_by_peer(), Some(Code::CANCEL));
    let mut buffer = rig.pool.without_memory();
    assert_eq!(reads(&stream, &mut buffer), 3);
    let broken = pin!(stream.read(&mut buffer, ReadMode::Uncancelable)).poll(&mut context());
    assert!(matches!(broken, Poll::Ready(Err(_))), "{broken:?}");
    let sent = pin!(stream.send(b"", None)).poll(&mut context());
    assert!(matches!(sent, Poll::Ready(Err(_))), "{sent:?}");
}
