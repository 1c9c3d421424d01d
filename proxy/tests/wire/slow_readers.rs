//! Slow readers are served as long as they read at a minimum rate; others are reset.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::support::frames::{
    DATA, END_STREAM, Frame, HEADERS, PREFACE, Peer, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
    get,
};
use crate::support::{Client, Gateway, gateway, ok, on_both_drivers, origin, pattern, same_bytes};

/// Within this time, a reader must read a part of the waiting data, or is reset.
const LIMITS: &str = "writeIdleTimeout: 3s";

/// Pause between two reads: much shorter, so that a busy machine does not delay a reader too much.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a reader continues like that.
const SLOW_FOR: Duration = Duration::from_secs(8);

/// Payload of a SETTINGS frame: `SETTINGS_INITIAL_WINDOW_SIZE` of 0.
pub(super) const TAKES_NOTHING: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// An HTTP/2 client whose window opens only as the test says.
fn client_with_small_window(gateway: &Gateway) -> Peer {
    let mut peer = Peer::silent(gateway.address());
    peer.sends(PREFACE)
        .sends(frame(SETTINGS, 0, 0, &TAKES_NOTHING));
    peer.sends(frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes()));
    peer.sends(get(1));
    peer.next_of(HEADERS);
    peer
}

/// Opens the window of the stream by this many bytes.
fn open_window(peer: &mut Peer, bytes: u32) {
    peer.sends(frame(WINDOW_UPDATE, 0, 1, &bytes.to_be_bytes()));
}

/// The next frame of the stream's body or end.
#[track_caller]
fn next(peer: &mut Peer) -> Frame {
    loop {
        let frame = peer.next().expect("a connection that lives on");
        if frame.stream == 1 && matches!(frame.kind, DATA | RST_STREAM) {
            return frame;
        }
    }
}

/// A client with a small receive buffer.
fn with_little_room(gateway: &Gateway) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket
        .set_recv_buffer_size(8 * 1024)
        .expect("a socket of ours");
    socket
        .connect(&gateway.address().into())
        .expect("the listener accepts");
    Client::over(TcpStream::from(socket))
}

on_both_drivers! {
    fn a_slow_http_2_reader_gets_the_whole_response(driver) {
        let body = pattern(150_000);
        let origin = origin().replies(ok(&body));
        let gateway = gateway(driver).routes_to(&origin).limits(LIMITS).start();
        let mut peer = client_with_small_window(&gateway);
        let (begun, mut read) = (Instant::now(), Vec::new());
        open_window(&mut peer, 4 * 1024);
        loop {
            let data = next(&mut peer);
            assert_eq!(data.kind, DATA, "reset after {} bytes", read.len());
            read.extend_from_slice(&data.payload);
            if data.flags & END_STREAM != 0 {
                break;
            }
            if begun.elapsed() < SLOW_FOR {
                std::thread::park_timeout(PAUSE);
                open_window(&mut peer, 4 * 1024);
            } else {
                open_window(&mut peer, 1 << 20);
            }
        }
        same_bytes(&read, &body);
    }

    fn a_slow_http_1_reader_gets_the_whole_response(driver) {
        let body = pattern(16 << 20);
        let origin = origin().replies(ok(&body));
        let gateway = gateway(driver).routes_to(&origin).limits(LIMITS).start();
        let mut client = with_little_room(&gateway);
        let head = client.gets("/").reads_head();
        let (begun, mut read) = (Instant::now(), Vec::new());
        while begun.elapsed() < SLOW_FOR {
            read.extend(client.reads_bytes(4 * 1024));
            std::thread::park_timeout(PAUSE / 2);
        }
        assert_eq!(head.value("content-length"), Some(body.len().to_string().as_str()));
        read.extend(client.reads_bytes(body.len() - read.len()));
        same_bytes(&read, &body);
    }

    fn a_reader_below_the_minimum_rate_is_reset(driver) {
        let origin = origin().replies(ok(pattern(150_000)));
        let gateway = gateway(driver).routes_to(&origin).limits("writeIdleTimeout: 1s").start();
        let mut peer = client_with_small_window(&gateway);
        let started = Instant::now();
        loop {
            open_window(&mut peer, 1);
            if next(&mut peer).kind == RST_STREAM {
                break;
            }
            assert!(started.elapsed() < SLOW_FOR * 2, "it still gets a byte now and then");
            std::thread::park_timeout(PAUSE / 5);
        }
    }
}
