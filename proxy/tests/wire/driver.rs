//! Where the kernel refuses io_uring, epoll serves, and the log says why.

use crate::support::{Driver, RingCall, gateway, origin};

#[test]
fn forbidden_io_uring_falls_back_to_epoll() {
    // Also where a ring can be made, and the calls that it is used by are not known to the profile.
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
