//! TCPRoute: connections are forwarded unchanged, whichever side sends first and however they end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{
    Driver, Gateway, GatewayBuilder, Signal, TIMEOUT, echo_peer, gateway, greeting_peer,
    on_both_drivers, pattern, refused, same_bytes, tcp_peer,
};

/// A gateway with a TCP listener that forwards to these addresses.
fn tcp_gateway(driver: Driver, addresses: &[SocketAddr]) -> GatewayBuilder {
    gateway(driver)
        .listener_with("tcp", "protocol: TCP")
        .backend("peer", addresses)
        .rule_of("tcp", "{backendRefs: [{@peer}]}")
        .policy("accessLog: {format: json}")
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address_of(1)).expect("the listener accepts");
    stream.set_nodelay(true).expect("a socket of ours");
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    stream
}

fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .expect("a socket of ours");
    drop(stream);
}

/// Everything up to a clean end.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an end in order");
    bytes
}

fn first_bytes(mut stream: TcpStream) -> String {
    let mut word = [0; 3];
    stream.read_exact(&mut word).expect("a word");
    String::from_utf8_lossy(&word).into_owned()
}

on_both_drivers! {
    fn bytes_are_forwarded_in_both_directions(driver) {
        let peer = echo_peer();
        let gateway = tcp_gateway(driver, &[peer.address()]).start();
        let mut stream = connect(&gateway);
        for message in [&b"hello"[..], b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\0"] {
            stream.write_all(message).expect("taken");
            let mut back = vec![0; message.len()];
            stream.read_exact(&mut back).expect("echoed");
            assert_eq!(back, message);
        }
    }

    fn large_amounts_are_forwarded_in_both_directions_at_once(driver) {
        let peer = echo_peer();
        let gateway = tcp_gateway(driver, &[peer.address()]).start();
        let mut stream = connect(&gateway);
        let sent = pattern(20 << 20);
        let mut writing = stream.try_clone().expect("a copy");
        let copy = sent.clone();
        let writer = std::thread::spawn(move || {
            writing.write_all(&copy).expect("all of it is taken");
            writing.shutdown(Shutdown::Write).expect("open");
        });
        let back = rest(&mut stream);
        writer.join().expect("no panic");
        same_bytes(&back, &sent);
        let log = gateway.waits_for_access_log("\"bytes_in\":20971520");
        assert!(log.contains("\"bytes_out\":20971520"), "{log}");
    }

    fn the_server_may_send_first(driver) {
        let peer = greeting_peer("220 ready\r\n");
        let gateway = tcp_gateway(driver, &[peer.address()]).start();
        let mut greeting = [0; 11];
        connect(&gateway).read_exact(&mut greeting).expect("a greeting");
        assert_eq!(&greeting, b"220 ready\r\n");
    }

    fn either_side_may_half_close_first(driver) {
        // Responds after the client's last byte.
        let late = tcp_peer(|mut stream| {
            let count = rest(&mut stream).len();
            let _ = write!(stream, "{count} bytes");
        });
        let gateway = tcp_gateway(driver, &[late.address()]).start();
        let mut stream = connect(&gateway);
        stream.write_all(&[7; 1000]).expect("taken");
        stream.shutdown(Shutdown::Write).expect("open");
        assert_eq!(rest(&mut stream), b"1000 bytes");

        // Half-closes immediately, and continues to read.
        let (sender, receiver) = mpsc::channel();
        let early = tcp_peer(move |mut stream| {
            let _ = stream.write_all(b"bye");
            let _ = stream.shutdown(Shutdown::Write);
            let _ = sender.send(rest(&mut stream));
        });
        let gateway = tcp_gateway(driver, &[early.address()]).start();
        let mut stream = connect(&gateway);
        assert_eq!(rest(&mut stream), b"bye");
        stream.write_all(b"one more thing").expect("taken");
        drop(stream);
        let received = receiver.iter().find(|received| !received.is_empty());
        assert_eq!(received.as_deref(), Some(&b"one more thing"[..]));
    }

    fn urgent_data_is_ignored(driver) {
        let peer = tcp_peer(|mut stream| {
            let count = rest(&mut stream).len();
            let _ = write!(stream, "{count} bytes");
        });
        let gateway = tcp_gateway(driver, &[peer.address()]).start();
        let mut stream = connect(&gateway);
        // Enough that the rest is spliced, which stops at urgent data.
        for _ in 0..3 {
            stream.write_all(&vec![7; 2 << 20]).expect("taken");
            let urgent = socket2::SockRef::from(&stream).send_out_of_band(b"!");
            assert_eq!(urgent.expect("taken"), 1);
            // Other connections of the shard must not wait for that.
            let mut neighbour = connect(&gateway);
            neighbour.shutdown(Shutdown::Write).expect("open");
            assert_eq!(rest(&mut neighbour), b"0 bytes");
        }
        stream.write_all(b"end").expect("taken");
        stream.shutdown(Shutdown::Write).expect("open");
        let text = String::from_utf8(rest(&mut stream)).expect("text");
        let count = text.strip_suffix(" bytes").and_then(|count| count.parse::<u64>().ok());
        // An urgent byte that was not read before the next one arrives becomes an ordinary one.
        assert!(matches!(count, Some(6_291_459..=6_291_462)), "{text}");
    }

    fn a_reset_is_forwarded(driver) {
        let (sender, receiver) = mpsc::channel();
        let peer = tcp_peer(move |mut stream| {
            let _ = stream.write_all(b"220");
            let _ = sender.send(stream.read(&mut [0]).map_err(|error| error.kind()));
        });
        let gateway = tcp_gateway(driver, &[peer.address()]).start();
        let mut stream = connect(&gateway);
        stream.read_exact(&mut [0; 3]).expect("a greeting");
        reset(stream);
        let mut endings = receiver.iter();
        assert!(endings.any(|ending| ending == Err(ErrorKind::ConnectionReset)));
        gateway.waits_for_access_log("client_gone");

        let peer = tcp_peer(|mut stream| {
            let _ = stream.read(&mut [0]);
            reset(stream);
        });
        let gateway = tcp_gateway(driver, &[peer.address()]).start();
        let mut stream = connect(&gateway);
        stream.write_all(b"x").expect("taken");
        let error = stream.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        gateway.waits_for_access_log("upstream_reset");
    }

    fn connections_are_shared_by_weight(driver) {
        let (one, three, none) = (greeting_peer("one"), greeting_peer("3x3"), greeting_peer("non"));
        let gateway = gateway(driver)
            .listener_with("tcp", "protocol: TCP")
            .backend("one", &[one.address()])
            .backend("three", &[three.address()])
            .backend("none", &[none.address()])
            .rule_of(
                "tcp",
                "{backendRefs: [{@one, weight: 1}, {@three, weight: 3}, {@none, weight: 0}]}",
            )
            .start();
        let words: Vec<_> = (0..400).map(|_| first_bytes(connect(&gateway))).collect();
        let ones = words.iter().filter(|word| *word == "one").count();
        // Five standard deviations of a fair draw: 5 * sqrt(400 * 0.25 * 0.75).
        assert!(ones.abs_diff(100) <= 43, "{ones} of 400 for a weight of 1/4");
        assert!(!words.contains(&"non".to_owned()));
    }

    fn another_endpoint_is_tried_if_one_refuses_the_connection(driver) {
        let (_socket, nobody) = refused();
        let peer = greeting_peer("yes");
        let gateway = tcp_gateway(driver, &[nobody, peer.address()]).start();
        for _ in 0..30 {
            assert_eq!(first_bytes(connect(&gateway)), "yes");
        }
        gateway.waits_for_access_log("\"retries\":1");
    }

    fn without_any_endpoint_the_connection_is_reset(driver) {
        let (_socket, nobody) = refused();
        let gateway = tcp_gateway(driver, &[nobody]).start();
        let error = connect(&gateway).read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        gateway.waits_for_access_log("\"reason\":\"connect_failed\"");
    }

    fn a_connection_without_a_rule_or_backend_is_closed(driver) {
        let missing = "{backendRefs: [{group: gateway-system.io, kind: Backend, name: missing}]}";
        let gateway = gateway(driver)
            .listener_with("tcp", "protocol: TCP")
            .listener_with("bare", "protocol: TCP")
            .rule_of("tcp", missing)
            .policy("accessLog: {format: json}")
            .start();
        assert!(!matches!(connect(&gateway).read(&mut [0]), Ok(1..)));
        gateway.waits_for_access_log("no_valid_backend");
        let mut bare = TcpStream::connect(gateway.address_of(2)).expect("the listener accepts");
        assert_eq!(rest(&mut bare), b"");
        gateway.waits_for_access_log("no_route");
    }

    fn an_idle_connection_is_reset(driver) {
        let peer = greeting_peer("220");
        let gateway = tcp_gateway(driver, &[peer.address()])
            .limits("streamIdleTimeout: 2s")
            .start();
        let mut stream = connect(&gateway);
        stream.read_exact(&mut [0; 3]).expect("a greeting");
        let error = stream.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        gateway.waits_for_access_log("\"reason\":\"stream_idle\"");
    }

    fn traffic_in_one_direction_keeps_the_connection_alive(driver) {
        let peer = tcp_peer(|mut stream| {
            for _ in 0..12 {
                std::thread::park_timeout(Duration::from_millis(400));
                if stream.write_all(b".").is_err() {
                    return;
                }
            }
        });
        let gateway = tcp_gateway(driver, &[peer.address()])
            .limits("streamIdleTimeout: 3s")
            .start();
        assert_eq!(rest(&mut connect(&gateway)), b"............");
    }

    fn a_parked_connection_continues(driver) {
        let peer = echo_peer();
        let gateway = tcp_gateway(driver, &[peer.address()]).start();
        let mut stream = connect(&gateway);
        for _ in 0..2 {
            // Longer than buffers are kept.
            stream.set_read_timeout(Some(Duration::from_millis(1500))).expect("above zero");
            assert!(stream.read(&mut [0]).is_err(), "no bytes were sent");
            stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
            stream.write_all(b"again").expect("taken");
            let mut back = [0; 5];
            stream.read_exact(&mut back).expect("echoed");
            assert_eq!(&back, b"again");
        }
    }

    fn the_end_of_a_drain_resets_remaining_connections(driver) {
        let peer = echo_peer();
        let mut gateway = tcp_gateway(driver, &[peer.address()])
            .argument("--drain-accept=0s")
            .argument("--drain-deadline=1s")
            .start();
        let mut stream = connect(&gateway);
        stream.write_all(b"x").expect("taken");
        stream.read_exact(&mut [0]).expect("echoed");
        let started = Instant::now();
        gateway.signal(Signal::Term);
        let error = stream.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(started.elapsed() >= Duration::from_millis(900), "{:?}", started.elapsed());
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
        gateway.waits_for_access_log("\"reason\":\"drained\"");
    }

    fn connections_outlive_a_change_of_configuration(driver) {
        let (old, new) = (echo_peer(), greeting_peer("new"));
        let before = tcp_gateway(driver, &[old.address()]);
        let gateway = before.clone().start();
        let mut stream = connect(&gateway);
        stream.write_all(b"x").expect("taken");
        stream.read_exact(&mut [0]).expect("echoed");
        gateway.reconfigure(&before.backend("peer", &[new.address()]));
        gateway.waits_for_log("version=2");
        assert_eq!(first_bytes(connect(&gateway)), "new");
        stream.write_all(b"y").expect("taken");
        stream.read_exact(&mut [0]).expect("echoed by the old one");
    }

    fn a_line_is_logged_for_each_connection(driver) {
        let peer = greeting_peer("yes");
        let gateway = tcp_gateway(driver, &[peer.address()]).start();
        let mut stream = connect(&gateway);
        stream.write_all(b"hello").expect("taken");
        assert_eq!(first_bytes(stream), "yes");
        let log = gateway.waits_for_access_log("\"bytes_in\":5,\"bytes_out\":3");
        let line = log.lines().find(|line| line.contains("\"bytes_in\":5")).expect("a line");
        for part in [
            "\"listener\":\"Gateway/default/gw/tcp\"",
            "\"route\":\"TCPRoute/default/route-0/0\"",
            "\"backend\":\"Backend/default/peer\"",
            "\"client\":\"127.0.0.1\"",
            "\"protocol\":\"TCP\"",
            &format!("\"endpoint\":\"{}\"", peer.address()),
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    fn a_proxy_protocol_header_is_stripped(driver) {
        let peer = echo_peer();
        let gateway = tcp_gateway(driver, &[peer.address()])
            .policy("proxyProtocol: {in: Required}")
            .start();
        let mut stream = connect(&gateway);
        stream
            .write_all(b"PROXY TCP4 203.0.113.7 192.0.2.1 50000 80\r\nhello")
            .expect("taken");
        let mut back = [0; 5];
        stream.read_exact(&mut back).expect("echoed");
        assert_eq!(&back, b"hello");
        drop(stream);
        gateway.waits_for_access_log("\"client\":\"203.0.113.7\"");
        let mut stream = connect(&gateway);
        stream.write_all(b"no header").expect("taken");
        assert!(!matches!(stream.read(&mut [0]), Ok(1..)), "it is closed");
    }
}
