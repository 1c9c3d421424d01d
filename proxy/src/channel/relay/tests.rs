//! A body whose sender and receiver are always ready.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use monoio::io::AsyncReadRentExt;
use monoio::time::TimeDriver;
use monoio::{LegacyDriver, Runtime, RuntimeBuilder};

use super::{OutgoingFraming, ReadMode, Relay, RelayError, Side, Transferred};
use crate::channel::Channel;
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::http::head::Framing;
use crate::limits::{BUFFER_BYTES, BYTES_PER_POLL, SPLICE_BYTES_PER_POLL};
use crate::machine::driver::WaitMode;
use crate::net::Stream;
use crate::shard::deadline::Deadline;
use crate::shard::turn::Turns;
use crate::shard::{Shard, ShardOptions};

fn shard(turns: Rc<Turns>) -> Rc<Shard> {
    let options = ShardOptions::standalone();
    Rc::new(Shard::new(options, WaitMode::ForReadiness, turns))
}

fn ours(stream: UnixStream) -> Stream {
    stream.set_nonblocking(true).expect("our own socket");
    Stream::unix(monoio::net::UnixStream::from_std(stream).expect("a runtime"))
}

async fn relay_all(
    shard: &Rc<Shard>,
    from: Stream,
    to: Stream,
    body: &Body,
) -> Result<(), RelayError> {
    let deadlines = [from.fd(), to.fd()].map(|fd| Deadline::new(shard, fd));
    let (from, to) = (Channel::from(from), Channel::from(to));
    let relay = Relay {
        from: Side {
            until: body.until,
            ..Side::of(&from, &deadlines[0])
        },
        to: Side::of(&to, &deadlines[1]),
        outward: OutgoingFraming::Plain,
        limit: None,
        min_rate: 0,
        read_mode: ReadMode::Uncancelable,
        pipes: body.pipes.then_some(&shard.pipes),
    };
    let (mut out, mut buffer) = (Vec::new(), shard.buffers.take());
    let mut decoder = BodyDecoder::new(Framing::Length(body.length as u64));
    let (first, mut moved, mut tap) = (Decoded::default(), Transferred::default(), ());
    relay
        .run(
            &mut out,
            &mut buffer,
            &mut decoder,
            first,
            &mut moved,
            &mut tap,
        )
        .await
}

/// Reads until no data arrives for a moment, then until the end.
fn reads_in_two_parts(mut stream: UnixStream, max: usize, pause: impl FnOnce()) -> (usize, usize) {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    let moment = Some(Duration::from_millis(300));
    stream.set_read_timeout(moment).expect("our own socket");
    let first = loop {
        match stream.read(&mut buffer) {
            Ok(count) => total += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break total,
            Err(error) => panic!("{error}"),
        }
        assert!(total <= 2 * max, "{total} bytes in one turn");
    };
    pause();
    stream.set_read_timeout(None).expect("our own socket");
    let rest = stream.read_to_end(&mut Vec::new()).expect("the rest");
    (first, first + rest)
}

/// A body, and how much of it may pass in one turn.
struct Body {
    length: usize,
    pipes: bool,
    max: usize,
    until: Option<Instant>,
}

impl Body {
    fn through_buffers() -> Self {
        Self {
            length: 4 * BYTES_PER_POLL,
            pipes: false,
            max: BYTES_PER_POLL,
            until: None,
        }
    }

    fn through_a_pipe() -> Self {
        Self {
            length: 4 * SPLICE_BYTES_PER_POLL,
            pipes: true,
            max: SPLICE_BYTES_PER_POLL,
            until: None,
        }
    }
}

#[test]
fn a_buffered_body_yields_to_other_connections() {
    assert_yields(&Body::through_buffers());
}

#[test]
fn a_spliced_body_yields_to_other_connections() {
    assert_yields(&Body::through_a_pipe());
}

#[test]
fn a_body_past_its_deadline_is_aborted_even_if_it_never_blocks() {
    for body in [Body::through_buffers(), Body::through_a_pipe()] {
        let (mut sender, from) = UnixStream::pair().expect("descriptors");
        let (to, mut receiver) = UnixStream::pair().expect("descriptors");
        let length = body.length;
        let sending = thread::spawn(move || sender.write_all(&vec![7; length]));
        let receiving = thread::spawn(move || receiver.read_to_end(&mut Vec::new()));
        let over = Body {
            until: Some(Instant::now()),
            ..body
        };
        // Nothing advances the timer wheel here, so no deadline fires.
        let result = epoll().block_on(async {
            let (turns, bell_receiver) = Turns::new(WaitMode::ForReadiness).expect("descriptors");
            let shard = shard(Rc::clone(&turns));
            monoio::spawn(turns.run(bell_receiver));
            relay_all(&shard, ours(from), ours(to), &over).await
        });
        assert!(
            matches!(result, Err(RelayError::SenderStalled)),
            "{result:?}"
        );
        sending
            .join()
            .expect("no panic")
            .expect_err("the receiver stopped reading");
        let received = receiving.join().expect("no panic").expect("an end");
        assert!(received < length, "{received} bytes");
    }
}

fn epoll() -> Runtime<TimeDriver<LegacyDriver>> {
    RuntimeBuilder::<LegacyDriver>::new()
        .enable_timer()
        .build()
        .expect("epoll")
}

fn assert_yields(body: &Body) {
    let (length, max) = (body.length, body.max);
    let (mut sender, from) = UnixStream::pair().expect("descriptors");
    let (to, receiver) = UnixStream::pair().expect("descriptors");
    let (mut signal, signalled) = UnixStream::pair().expect("descriptors");
    let sending = thread::spawn(move || sender.write_all(&vec![7; length]));
    let receiving = thread::spawn(move || {
        let pause = || signal.write_all(&[1]).expect("it is awaited");
        reads_in_two_parts(receiver, max, pause)
    });
    epoll().block_on(async {
        let (turns, bell_receiver) = Turns::new(WaitMode::ForReadiness).expect("descriptors");
        let shard = shard(Rc::clone(&turns));
        signalled.set_nonblocking(true).expect("our own socket");
        let mut signalled = monoio::net::UnixStream::from_std(signalled).expect("a runtime");
        monoio::spawn(async move {
            // No turn begins until the receiver signals.
            signalled.read_exact(vec![0]).await.0.expect("the receiver");
            turns.run(bell_receiver).await
        });
        let relayed = relay_all(&shard, ours(from), ours(to), body).await;
        relayed.expect("both ends stay to the end");
    });
    sending.join().expect("no panic").expect("all is read");
    let (first, all) = receiving.join().expect("no panic");
    assert!(first >= BYTES_PER_POLL, "{first} bytes, then a turn");
    assert_eq!(all, length);
}
