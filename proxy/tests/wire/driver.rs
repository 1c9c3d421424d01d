//! If the kernel forbids io_uring, epoll is used, and the reason is logged.

use crate::support::{Driver, RingCall, gateway, origin};

#[test]
fn forbidden_io_uring_falls_back_to_epoll() {
    // Also if a ring can be created, but the profile forbids the call that uses it.
    for call in [RingCall::Setup, RingCall::Enter] {
        let origin = origin();
        let gateway = gateway(Driver::Auto)
            .routes_to(&origin)
            .forbidding(call)
            .start();
        gateway.client().gets("/").expects(200);
        gateway.waits_for_log("driver=epoll (io_uring");
        gateway.waits_for_log("Operation not permitted");
    }
}

#[test]
fn required_but_unavailable_io_uring_is_an_error_with_advice() {
    let failure = gateway(Driver::IoUring)
        .forbidding(RingCall::Setup)
        .fails_with("");
    assert_eq!(failure.code, Some(1));
    assert!(failure.log.contains("--driver auto"), "{}", failure.log);
    assert!(failure.log.contains("seccomp"), "{}", failure.log);
}

#[test]
fn all_memory_is_in_small_pages() {
    let gateway = gateway(Driver::Epoll).routes_to(&origin()).start();
    let process = format!("/proc/{}", gateway.pid());
    let read = |file: &str| std::fs::read_to_string(process.clone() + file).expect("our own child");
    let status = read("/status");
    assert!(status.contains("THP_enabled:\t0\n"), "{status}");
    // The allocator's first page too, which the runtime uses before `main`.
    let mapped = read("/smaps_rollup");
    let huge = mapped
        .lines()
        .find(|line| line.starts_with("AnonHugePages:"));
    let size = huge.and_then(|line| line.split_whitespace().nth(1));
    assert_eq!(size, Some("0"), "{mapped}");
}
