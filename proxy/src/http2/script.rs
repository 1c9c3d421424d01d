//! Tests that connections preserve the data. A script of bytes drives a client through its requests, and
//! a server echoes them, over a socket pair on one thread. However the bytes are
//! split, whenever windows open and whichever side stalls, every stream gets its whole response.
//!
//! Three bytes define the requests (`Plan`), each further one the client's next step (`Step`);
//! after the last one it completes what is left. Only for tests and fuzzing.

#![cfg_attr(
    not(test),
    expect(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "both peers are ours, and whatever else comes is to fail"
    )
)]

mod client;
mod server;

use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use self::client::Client;
use crate::http::engine::frame::FrameHead;
use crate::limits::H2_FRAME_BYTES;
use crate::machine::driver::{Driver, DriverChoice, WaitMode};
use crate::net::Stream;
use crate::shard::deadline::Deadline;
use crate::shard::turn::Turns;
use crate::shard::{Shard, ShardOptions};

/// Runs a script on epoll, which every fuzzing machine has.
///
/// # Panics
///
/// A response is wrong.
pub fn check(script: &[u8]) {
    play(DriverChoice::Epoll, script);
}

fn play(choice: DriverChoice, script: &[u8]) {
    let &[streams, size, form, ref steps @ ..] = script else {
        return;
    };
    let plan = Plan {
        streams: 1 + u32::from(streams % MAX_STREAMS),
        size: size.into(),
        window: WINDOWS[usize::from(form & 3)],
        frame: if form & 4 == 0 {
            1_000
        } else {
            H2_FRAME_BYTES as usize
        },
        heads_first: form & 8 == 0,
    };
    let (driver, _) = Driver::build(choice, DESCRIPTORS).expect("a runtime");
    let waits = driver.waits();
    driver.block_on(run(waits, &plan, steps));
}

/// Three times the heads processed in an iteration.
const MAX_STREAMS: u8 = 48;
const WINDOWS: [u32; 4] = [0, 1, 1_000, 65_535];
const DESCRIPTORS: u32 = 64;
/// Send buffer of the server's socket: small, so that sends have to wait.
const SEND_BYTES: usize = 4_096;
/// Timeout for the remaining steps, which take milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Window updates and read timeouts in a script, each of which may cost a PING: below the flood
/// limits.
const MAX_OPENED: u32 = 64;
const MAX_CANCELED: u32 = 32;

async fn run(waits: WaitMode, plan: &Plan, steps: &[u8]) {
    let (turns, wake_receiver) = Turns::new(waits).expect("descriptors");
    let wake_socket = wake_receiver.try_clone().expect("descriptors");
    let answering = monoio::spawn(Rc::clone(&turns).run(wake_receiver));
    let shard = Rc::new(Shard::new(
        ShardOptions::standalone(),
        waits,
        Rc::clone(&turns),
    ));
    let (ours, theirs) = UnixStream::pair().expect("descriptors");
    let socket = socket2::SockRef::from(&ours);
    socket.set_send_buffer_size(SEND_BYTES).expect("our socket");
    ours.set_nonblocking(waits == WaitMode::ForReadiness)
        .expect("our socket");
    let socket = monoio::net::UnixStream::from_std(ours).expect("a runtime");
    let stream = Stream::unix(socket);
    let reads = Rc::new(Deadline::new(&shard, stream.fd()));
    let serving = monoio::spawn(server::serve(shard, stream, Rc::clone(&reads)));

    let mut client = Client::new(theirs, plan);
    for &step in steps {
        Step::of(step).take(&mut client, &turns, &reads).await;
    }
    let late = Instant::now() + TIMEOUT;
    client.opens_all_windows(plan);
    while !client.has_all() {
        client.delivers(usize::MAX);
        client.reads(usize::MAX);
        turns.wait_for_next_turn().await;
        assert!(Instant::now() < late, "{client:?}");
    }
    client.finishes();
    while !(client.is_at_end() && serving.is_finished()) {
        client.reads(usize::MAX);
        turns.wait_for_next_turn().await;
        assert!(Instant::now() < late, "no end: {client:?}");
    }
    client.check(plan);
    // A waiting task outlives its runtime, and keeps its descriptors.
    wake_socket.shutdown(Shutdown::Both).expect("our socket");
    answering.await.expect("its end");
}

/// The requests that the client sends.
struct Plan {
    streams: u32,
    /// Unit of the bodies' lengths.
    size: usize,
    /// Initial window of a stream.
    window: u32,
    /// Bytes of body per frame.
    frame: usize,
    /// Whether all requests begin before any body, and bodies are interleaved.
    heads_first: bool,
}

impl Plan {
    fn ids(&self) -> impl Iterator<Item = u32> {
        (0..self.streams).map(|number| 2 * number + 1)
    }

    /// The body of a stream: its length and content are unique.
    fn body(&self, id: u32) -> Vec<u8> {
        let id = id as usize;
        let length = self.size * (id * 37 % 64);
        (0..length)
            .map(|at| (at * 7 + id).to_le_bytes()[0])
            .collect()
    }

    /// The client's frames after its preface and settings, including some PINGs.
    fn frames(&self) -> VecDeque<Vec<u8>> {
        let mut frames = VecDeque::new();
        let mut bodies = Vec::new();
        for id in self.ids() {
            let body = self.body(id);
            let end = u8::from(body.is_empty());
            frames.push_back(frame(1, FrameHead::END_HEADERS | end, id, REQUEST));
            if has_ping(id) {
                frames.push_back(frame(6, 0, 0, &u64::from(id).to_be_bytes()));
            }
            let pieces = body.chunks(self.frame).enumerate();
            let last = body.len().div_ceil(self.frame);
            let pieces = pieces.map(|(at, piece)| frame(0, u8::from(at + 1 == last), id, piece));
            if self.heads_first {
                bodies.push(pieces.collect::<VecDeque<_>>());
            } else {
                frames.extend(pieces);
            }
        }
        while !bodies.is_empty() {
            frames.extend(bodies.iter_mut().filter_map(VecDeque::pop_front));
            bodies.retain(|pieces| !pieces.is_empty());
        }
        frames
    }
}

/// Whether a PING follows the request: every fourth.
fn has_ping(id: u32) -> bool {
    id % 8 == 1
}

/// `POST http://a.test/` by RFC 7541 appendix A, nothing compressed.
const REQUEST: &[u8] = b"\x83\x86\x84\x01\x06a.test";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A step of the client.
#[derive(Clone, Copy)]
enum Step {
    /// Sends this many bytes.
    Deliver(usize),
    /// Sends them, and lets the server run before others follow.
    DeliverAlone(usize),
    /// Reads this many bytes, if available.
    Read(usize),
    /// Does nothing while the server runs.
    Stall,
    /// Opens the window of the connection or a stream by this much.
    Open(u32),
    /// Simulates a read timeout: the server's read ends without bytes.
    TimeOut,
}

impl Step {
    /// Three bits select the step, the others its amount: 1 to 16 bytes, or a power of two.
    fn of(byte: u8) -> Self {
        let amount = match byte >> 3 {
            few @ 0..16 => u32::from(few) + 1,
            many => 1 << (many - 11),
        };
        match byte & 7 {
            0 | 1 => Self::Deliver(amount as usize),
            2 => Self::DeliverAlone(amount as usize),
            3 | 4 => Self::Read(amount as usize),
            5 => Self::Stall,
            6 => Self::Open(amount),
            _ => Self::TimeOut,
        }
    }

    async fn take(self, client: &mut Client, turns: &Turns, reads: &Deadline) {
        match self {
            Self::Deliver(max) => client.delivers(max),
            Self::DeliverAlone(max) => {
                client.delivers(max);
                turns.wait_for_next_turn().await;
            }
            Self::Read(max) => client.reads(max),
            Self::Stall => turns.wait_for_next_turn().await,
            Self::Open(by) => client.opens_a_window(by),
            Self::TimeOut => {
                if client.may_be_silent() {
                    reads.cancel_read();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
