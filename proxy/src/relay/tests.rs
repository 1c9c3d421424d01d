//! A body whose sender and receiver are always ready.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use monoio::io::AsyncReadRentExt;
use monoio::{LegacyDriver, RuntimeBuilder};

use super::{Moved, Outward, Reads, Relay, Side};
use crate::channel::Channel;
use crate::driver::{DriverChoice, Waits};
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::http::head::Framing;
use crate::limits::{BUFFER_BYTES, BYTES_PER_POLL};
use crate::net::Stream;
use crate::observe::log_writer::{LogQueue, LogSink};
use crate::shard::deadline::Deadline;
use crate::shard::peers::Peers;
use crate::shard::turn::Turns;
use crate::shard::{Shard, ShardOptions};

fn shard(turns: Rc<Turns>) -> Rc<Shard> {
    let options = ShardOptions {
        peers: Arc::new(Peers::new(&[])),
        id: 0,
        driver: DriverChoice::Epoll,
        descriptors: 64,
        core: None,
        published: Arc::default(),
        counters: Arc::default(),
        log: LogSink::new(LogQueue::new()),
        session_key: ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"no secret"),
    };
    Rc::new(Shard::new(options, Waits::ForReadiness, turns))
}

fn ours(stream: UnixStream) -> Stream {
    stream.set_nonblocking(true).expect("our own socket");
    Stream::unix(monoio::net::UnixStream::from_std(stream).expect("a runtime"))
}

async fn relay_all(shard: &Rc<Shard>, from: Stream, to: Stream) {
    let deadlines = [from.fd(), to.fd()].map(|fd| Deadline::new(shard, fd));
    let (from, to) = (Channel::from(from), Channel::from(to));
    let relay = Relay {
        from: Side::of(&from, &deadlines[0]),
        to: Side::of(&to, &deadlines[1]),
        outward: Outward::Plain,
        limit: None,
        min_rate: 0,
        reads: Reads::ToTheEnd,
    };
    let (mut out, mut buffer) = (Vec::new(), shard.buffers.take());
    let mut decoder = BodyDecoder::new(Framing::UntilClose);
    let (first, mut moved, mut tap) = (Decoded::default(), Moved::default(), ());
    let relayed = relay
        .run(
            &mut out,
            &mut buffer,
            &mut decoder,
            first,
            &mut moved,
            &mut tap,
        )
        .await;
    relayed.expect("both ends stay to the end");
}

/// Reads until nothing comes for a moment, then until the end.
fn reads_in_two_parts(mut stream: UnixStream, pause: impl FnOnce()) -> (usize, usize) {
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
        assert!(total <= 2 * BYTES_PER_POLL, "{total} bytes in one turn");
    };
    pause();
    stream.set_read_timeout(None).expect("our own socket");
    let rest = stream.read_to_end(&mut Vec::new()).expect("the rest");
    (first, first + rest)
}

#[test]
fn a_body_gives_way_to_other_connections_now_and_then() {
    const WHOLE: usize = 4 * BYTES_PER_POLL;
    let (mut sender, from) = UnixStream::pair().expect("descriptors");
    let (to, receiver) = UnixStream::pair().expect("descriptors");
    let (mut tells, told) = UnixStream::pair().expect("descriptors");
    let sending = thread::spawn(move || sender.write_all(&vec![7; WHOLE]));
    let receiving = thread::spawn(move || {
        reads_in_two_parts(receiver, || tells.write_all(&[1]).expect("it is awaited"))
    });
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new()
        .enable_timer()
        .build()
        .expect("epoll");
    runtime.block_on(async {
        let (turns, ringing) = Turns::new(Waits::ForReadiness).expect("descriptors");
        let shard = shard(Rc::clone(&turns));
        told.set_nonblocking(true).expect("our own socket");
        let mut told = monoio::net::UnixStream::from_std(told).expect("a runtime");
        monoio::spawn(async move {
            // Until the receiver says so, nobody's turn ever comes.
            told.read_exact(vec![0]).await.0.expect("the receiver");
            turns.answer(ringing.expect("epoll needs turns")).await
        });
        relay_all(&shard, ours(from), ours(to)).await;
    });
    sending.join().expect("no panic").expect("all is read");
    let (first, all) = receiving.join().expect("no panic");
    assert!(first >= BYTES_PER_POLL, "{first} bytes, then a turn");
    assert_eq!(all, WHOLE);
}
