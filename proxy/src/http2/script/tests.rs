//! Data through a connection, by written and random scripts, on both drivers.

use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

use super::{DESCRIPTORS, play};
use crate::http::engine::encode::Switch;
use crate::http::engine::{Options, Role};
use crate::http::h1::{HeadLimits, RequestKind};
use crate::http2::pace::{BufferParking, Pace};
use crate::http2::{Link, Outbox, Reader, Session};
use crate::limits::{H2_STREAM_WINDOW_BYTES, Limits};
use crate::machine::driver::{Driver, DriverChoice};
use crate::memory::Buffer;
use crate::net::Stream;
use crate::shard::deadline::Deadline;
use crate::shard::turn::Turns;
use crate::shard::{Shard, ShardOptions};

fn on_both_drivers(script: &[u8]) {
    play(DriverChoice::Epoll, script);
    if io_uring::IoUring::new(2).is_ok() {
        play(DriverChoice::IoUring, script);
    }
}

#[test]
fn streams_end_with_a_driver_that_panics() {
    let (driver, _) = Driver::build(DriverChoice::Epoll, DESCRIPTORS).expect("a runtime");
    let waits = driver.waits();
    driver.block_on(async {
        let (turns, _receiver) = Turns::new(waits).expect("descriptors");
        let shard = Rc::new(Shard::new(ShardOptions::standalone(), waits, turns));
        let (ours, _theirs) = UnixStream::pair().expect("descriptors");
        ours.set_nonblocking(true).expect("our socket");
        let socket = monoio::net::UnixStream::from_std(ours).expect("a runtime");
        let stream = Stream::unix(socket);
        let deadlines = [(); 2].map(|()| Deadline::new(&shard, stream.fd()));
        let options = Options {
            role: Role::Client,
            streams: 0,
            stream_window: H2_STREAM_WINDOW_BYTES,
            connection_window: H2_STREAM_WINDOW_BYTES,
            heads: HeadLimits::of_response(&Limits::default()),
        };
        let pace = Pace {
            head: None,
            idle: None,
            write: None,
            parks: BufferParking::No,
        };
        let session = Session::new(options, Rc::default(), Rc::clone(&shard.buffers));
        let reader = Reader::new(&shard, &stream, &deadlines[0], pace, Buffer::default());
        let outbox = Outbox::new(&stream, &deadlines[1], None);
        let request = session.stream_to_open();
        request.put_request(RequestKind::Other, |_| Switch::Ignored);
        let sent = pin!(request.send(b"", None)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(sent, Poll::Ready(Ok(()))) && !request.is_gone());
        // What unwinding does.
        drop(Link::new(session, reader, outbox));
        assert!(request.is_gone());
    });
}

/// 48 streams with bodies of up to 12 KB, in windows of no bytes, 1, 1 000 and 64 KiB.
const LARGE: [[u8; 3]; 4] = [[47, 200, 0], [47, 200, 1], [47, 200, 10], [47, 200, 15]];

#[test]
fn data_in_one_piece_is_echoed() {
    for plan in LARGE {
        on_both_drivers(&plan);
    }
}

/// Three streams with bodies of some hundred bytes.
const SMALL: [[u8; 3]; 4] = [[2, 2, 0], [2, 2, 1], [2, 2, 10], [2, 2, 15]];

/// Steps that a script repeats: a byte that comes alone, one that is read, a read that ends without
/// any, the least of windows.
const CYCLES: [&[u8]; 5] = [&[2], &[2, 3], &[2, 7], &[2, 7, 5, 3], &[2, 6, 3]];

#[test]
fn data_read_and_written_byte_by_byte_is_echoed() {
    for plan in SMALL {
        for cycle in CYCLES {
            on_both_drivers(&[&plan, &*cycle.repeat(1_000)].concat());
        }
    }
}

proptest! {
    // Each takes some milliseconds on each driver.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn responses_do_not_depend_on_read_and_write_sizes(script in vec(any::<u8>(), 3..600)) {
        on_both_drivers(&script);
    }
}
