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
