//! Limits of a request apply whatever the policy's target: Gateway, listener, route or rule.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::support::{
    ByteCounter, Driver, Gateway, Reply, TIMEOUT, gateway, on_both_drivers, origin,
};

const LEVELS: [&str; 4] = [
    "Gateway/gw",
    "Gateway/gw/http",
    "HTTPRoute/route-0",
    "HTTPRoute/route-0/rule",
];

/// Runs `check` concurrently with a gateway for each target of a policy with the limits.
fn at_every_level(
    driver: Driver,
    backend: SocketAddr,
    limits: &str,
    check: impl Fn(&Gateway) + Sync,
) {
    let with = |target| {
        let gateway = gateway(driver)
            .backend("origin", &[backend])
            .rule("{name: rule, backendRefs: [{@origin}]}")
            .policy_of(target, &format!("limits: {{{limits}}}"))
            .start();
        check(&gateway);
    };
    std::thread::scope(|scope| {
        for target in LEVELS {
            scope.spawn(|| with(target));
        }
    });
}

/// An address that neither accepts nor refuses connections: its queue is full with one.
pub(super) fn unresponsive_address() -> (Socket, TcpStream, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).expect("a free port");
    socket.listen(0).expect("bound");
    let address = socket.local_addr().expect("bound");
    let address = address.as_socket().expect("an IP address");
    let queued = TcpStream::connect(address).expect("room for one");
    let deadline = Instant::now() + TIMEOUT;
    while queue_of(address.port()) == 0 {
        assert!(Instant::now() < deadline, "the connection is not queued");
        std::thread::park_timeout(Duration::from_millis(2));
    }
    (socket, queued, address)
}

/// Number of connections in the accept queue of a port of 127.0.0.1.
fn queue_of(port: u16) -> usize {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("procfs");
    let local = format!(" 0100007F:{port:04X} 00000000:0000 0A ");
    let line = sockets.lines().find(|line| line.contains(&local));
    // No bytes to send, and after the colon the accept queue.
    let queues = line.and_then(|line| line.split(&local).nth(1)?.split([' ', ':']).nth(1));
    let queue = queues.and_then(|queue| usize::from_str_radix(queue, 16).ok());
    queue.expect("a socket that listens")
}

const HEAD_AND_HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";

on_both_drivers! {
    fn request_body_bytes(driver) {
        let origin = origin();
        at_every_level(driver, origin.address(), "requestBodyBytes: 4", |gateway| {
            gateway.client().posts("/", "four").expects(200);
            gateway.client().posts("/", "fives").expects(413);
            let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            let chunks = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
            gateway.client().sends(format!("{chunked}{chunks}")).expects(413);
        });
    }

    fn body_idle_timeout(driver) {
        let origin = origin();
        at_every_level(driver, origin.address(), "bodyIdleTimeout: 200ms", |gateway| {
            let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
            gateway.client().sends(post).expects(408);
        });
    }

    fn body_min_rate(driver) {
        let origin = origin();
        let limits = "bodyIdleTimeout: 500ms, bodyMinRate: 100000";
        at_every_level(driver, origin.address(), limits, |gateway| {
            let mut client = gateway.client();
            client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
            let started = Instant::now();
            // Never idle for long, and always too slow.
            while started.elapsed() < Duration::from_millis(1_300) {
                client.sends("x");
                std::thread::park_timeout(Duration::from_millis(50));
            }
            client.expects(408);
        });
    }

    fn response_head_timeout(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        at_every_level(driver, origin.address(), "responseHeadTimeout: 200ms", |gateway| {
            gateway.client().gets("/").expects(504);
        });
    }

    fn stream_idle_timeout(driver) {
        let origin = origin().replies(Reply::at_once().sends(HEAD_AND_HALF).stalls());
        at_every_level(driver, origin.address(), "streamIdleTimeout: 1s", |gateway| {
            gateway.client().gets("/").expects_broken_response();
        });
    }

    fn write_idle_timeout(driver) {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
        let poured = ByteCounter::default();
        let origin = origin().replies(Reply::at_once().sends(head).pours(1_000_000_000, &poured));
        at_every_level(driver, origin.address(), "writeIdleTimeout: 300ms", |gateway| {
            let mut client = gateway.client();
            client.gets("/").reads_head();
            origin.waits_for_hangup();
        });
    }

    fn connect_timeout(driver) {
        let (_socket, _queued, address) = unresponsive_address();
        // Longer than the default, since a delay may be caused by a busy machine.
        at_every_level(driver, address, "connectTimeout: 3s", |gateway| {
            let started = Instant::now();
            gateway.client().gets("/").expects(503);
            // It is tried twice.
            assert!(started.elapsed() >= Duration::from_secs(6), "after {:?}", started.elapsed());
        });
    }

    fn the_nearest_target_wins(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{name: near, matches: [{path: {value: /near}}], backendRefs: [{@origin}]}")
            .rule("{backendRefs: [{@origin}]}")
            .policy_of(LEVELS[0], "limits: {requestBodyBytes: 1}")
            .policy_of(LEVELS[1], "limits: {requestBodyBytes: 2}")
            .policy_of(LEVELS[2], "limits: {requestBodyBytes: 3}")
            .policy_of("HTTPRoute/route-0/near", "limits: {requestBodyBytes: 4}")
            .start();
        gateway.client().posts("/near", "1234").expects(200);
        gateway.client().posts("/near", "12345").expects(413);
        gateway.client().posts("/", "123").expects(200);
        gateway.client().posts("/", "1234").expects(413);
    }

    fn the_policy_of_the_backend_precedes_all_others(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{name: rule, backendRefs: [{@origin}]}")
            .policy_of("HTTPRoute/route-0/rule", "limits: {responseHeadTimeout: 60s}")
            .policy_of("Backend/origin", "limits: {responseHeadTimeout: 200ms}")
            .start();
        gateway.client().gets("/").expects(504);
    }
}
