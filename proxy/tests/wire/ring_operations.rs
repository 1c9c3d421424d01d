//! Ring operations of a request: four, or five if the connection was idle.
//!
//! The kernel counts: `SqTail` in the ring's `fdinfo` increases with every submitted operation.
//! Timers are not operations, since the loop waits for completions with a timeout.

use std::time::{Duration, Instant};

use crate::support::{Client, Driver, Gateway, TIMEOUT, gateway, ok, origin};

/// Operations of a request: receive and send, at each side.
const BUSY: u32 = 4;
/// One more, which waited for the socket without a buffer.
const PARKED: u32 = BUSY + 1;
/// Operations of giving the buffer back: the receive is cancelled, and the socket is polled.
const PARKING: u32 = 2;

const REQUESTS: u32 = 500;

/// Number of operations submitted since the ring was created.
fn submitted_operations(gateway: &Gateway) -> u32 {
    let process = format!("/proc/{}", gateway.pid());
    let descriptors = std::fs::read_dir(format!("{process}/fd")).expect("our own child");
    let ring = descriptors.flatten().find(|descriptor| {
        std::fs::read_link(descriptor.path()).is_ok_and(|to| to.ends_with("anon_inode:[io_uring]"))
    });
    let ring = ring.expect("a ring").file_name();
    let info = format!("{process}/fdinfo/{}", ring.to_string_lossy());
    let started = Instant::now();
    let tail = loop {
        let info = std::fs::read_to_string(&info).expect("our own child");
        let tail = info.lines().find_map(|line| line.strip_prefix("SqTail:"));
        if let Some(tail) = tail {
            break tail.trim().to_owned();
        }
        // The kernel omits the ring while its owner is submitting.
        assert!(started.elapsed() < TIMEOUT, "no SqTail in\n{info}");
    };
    let number = tail
        .strip_prefix("0x")
        .map_or_else(|| tail.parse(), |hex| u32::from_str_radix(hex, 16));
    number.expect("a number")
}

/// Waits until the ring has been quiet for long enough that the next operation is a request's.
fn settled_operations(gateway: &Gateway) -> u32 {
    const QUIET: Duration = Duration::from_millis(50);
    let mut last = (submitted_operations(gateway), Instant::now());
    while last.1.elapsed() < QUIET {
        std::thread::park_timeout(Duration::from_millis(2));
        let now = submitted_operations(gateway);
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    last.0
}

#[track_caller]
fn waits_for(gateway: &Gateway, tail: u32) {
    let deadline = Instant::now() + TIMEOUT;
    while submitted_operations(gateway) != tail {
        assert!(
            Instant::now() < deadline,
            "{} operations, not {tail}",
            submitted_operations(gateway)
        );
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

fn of_requests(driver: Driver, ask: impl Fn(&mut Client)) {
    let origin = origin().replies(ok("hello"));
    let gateway = gateway(driver).routes_to(&origin).start();
    let mut client = gateway.client();
    ask(&mut client);
    let before = settled_operations(&gateway);
    for _ in 0..REQUESTS {
        ask(&mut client);
    }
    let operations = settled_operations(&gateway).wrapping_sub(before);
    assert_eq!(operations, BUSY * REQUESTS, "for {REQUESTS} requests");
}

#[test]
fn a_request_takes_four_ring_operations() {
    if let Some(driver) = Driver::io_uring() {
        of_requests(driver, |client| drop(client.gets("/").expects(200)));
    }
}

#[test]
fn a_request_with_a_body_takes_four_ring_operations() {
    if let Some(driver) = Driver::io_uring() {
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        of_requests(driver, |client| drop(client.sends(post).expects(200)));
    }
}

#[test]
fn a_request_after_a_pause_takes_five_ring_operations() {
    let Some(driver) = Driver::io_uring() else {
        return;
    };
    let origin = origin().replies(ok("hello"));
    let gateway = gateway(driver).routes_to(&origin).start();
    let mut client = gateway.client();
    for _ in 0..2 {
        client.gets("/").expects(200);
        let busy = settled_operations(&gateway);
        waits_for(&gateway, busy.wrapping_add(PARKING));
        client.gets("/").expects(200);
        waits_for(&gateway, busy.wrapping_add(PARKING + PARKED));
    }
}
