//! PROXY protocol to backends: which address they receive, and which connections are reused.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, Peer as H2Peer, frame};
use crate::support::pki::authority;
use crate::support::{
    ClientCertificates, Driver, Gate, Gateway, GatewayBuilder, Peer, TIMEOUT, gateway,
    on_both_drivers, tcp_peer, tls_origin,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A backend that reports the first bytes of each connection, up to the end of the first line or 28
/// bytes, and responds to every request.
fn reporting_backend() -> (Peer, Receiver<Vec<u8>>) {
    let (report, reports) = channel();
    let peer = tcp_peer(move |mut stream| {
        let mut buffer = [0; 4096];
        let mut first = true;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let bytes = &buffer[..count];
            if std::mem::replace(&mut first, false) {
                let _ = report.send(bytes.to_vec());
            }
            if bytes.ends_with(b"\r\n\r\n") && stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    });
    (peer, reports)
}

/// A backend that reports the first line of each connection, and relays the rest to another one.
fn relaying_backend(origin: SocketAddr) -> (Peer, Receiver<Vec<u8>>) {
    let (report, reports) = channel();
    let peer = tcp_peer(move |mut stream| {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\n") && stream.read_exact(&mut byte).is_ok() {
            line.extend(byte);
        }
        let _ = report.send(line);
        let Ok(mut behind) = TcpStream::connect(origin) else {
            return;
        };
        let copies = (stream.try_clone(), behind.try_clone());
        let (Ok(mut client), Ok(mut from)) = copies else {
            return;
        };
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut client);
            let _ = client.shutdown(Shutdown::Write);
        });
        let _ = std::io::copy(&mut stream, &mut behind);
        let _ = behind.shutdown(Shutdown::Write);
    });
    (peer, reports)
}

fn gateway_to(driver: Driver, peer: SocketAddr, version: &str) -> GatewayBuilder {
    gateway_with_backend_fields(driver, peer, &format!("proxyProtocol: {version}"))
}

/// A gateway to a backend with these fields.
fn gateway_with_backend_fields(driver: Driver, peer: SocketAddr, fields: &str) -> GatewayBuilder {
    let backend = format!(
        "apiVersion: gateway-system.io/v1alpha1\nkind: Backend\nmetadata: {{name: target}}\n\
         spec: {{{fields}, addresses: [{{host: {}, port: {}}}]}}",
        peer.ip(),
        peer.port()
    );
    let to = "{backendRefs: [{group: gateway-system.io, kind: Backend, name: target}]}";
    gateway(driver)
        .listener_with("tcp", "protocol: TCP")
        .document(&backend)
        .rule(to)
        .rule_of("tcp", to)
}

fn connect(gateway: &Gateway, listener: usize) -> TcpStream {
    let stream = TcpStream::connect(gateway.address_of(listener)).expect("the listener accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    stream
}

#[track_caller]
fn send_request(stream: &mut TcpStream) {
    stream.write_all(REQUEST).expect("taken");
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok") {
        let mut byte = [0];
        // Repeats a read that a signal interrupted.
        stream.read_exact(&mut byte).expect("an answer");
        answer.extend(byte);
    }
}

/// The version 1 header of a connection.
fn line(stream: &TcpStream, gateway: &Gateway, listener: usize) -> String {
    let from = stream.local_addr().expect("connected");
    let to = gateway.address_of(listener);
    let (from_port, to_port) = (from.port(), to.port());
    format!(
        "PROXY TCP4 {} {} {from_port} {to_port}\r\n",
        from.ip(),
        to.ip()
    )
}

/// Responds with 204 to the next request of an HTTP/1 client.
#[track_caller]
fn respond(server: &mut H2Peer, client: &mut TcpStream) {
    let stream = server.next_of(HEADERS).stream;
    server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x89]));
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("an answer");
        answer.extend(byte);
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 204 "),
        "{}",
        answer.escape_ascii()
    );
}

#[track_caller]
fn next(reports: &Receiver<Vec<u8>>, marks: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut skipped = Vec::new();
    while let Ok(report) = reports.recv_timeout(TIMEOUT) {
        if marks(&report) {
            return report;
        }
        skipped.push(report.escape_ascii().to_string());
    }
    panic!("nothing of the kind among {skipped:?}");
}

on_both_drivers! {
    fn a_backend_gets_a_version_1_header(driver) {
        let (peer, reports) = reporting_backend();
        let gateway = gateway_to(driver, peer.address(), "V1").start();
        for listener in [0, 1] {
            let mut stream = connect(&gateway, listener);
            send_request(&mut stream);
            let line = line(&stream, &gateway, listener);
            next(&reports, |report| report.starts_with(line.as_bytes()));
        }
    }

    fn a_backend_gets_a_version_2_header(driver) {
        let (peer, reports) = reporting_backend();
        let gateway = gateway_to(driver, peer.address(), "V2").start();
        for listener in [0, 1] {
            let mut stream = connect(&gateway, listener);
            send_request(&mut stream);
            let from = stream.local_addr().expect("connected").port().to_be_bytes();
            let to = gateway.address_of(listener).port().to_be_bytes();
            let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01".to_vec();
            header.extend(from);
            header.extend(to);
            next(&reports, |report| report.starts_with(&header));
        }
    }

    fn the_address_of_a_clients_header_is_forwarded(driver) {
        let (peer, reports) = reporting_backend();
        let gateway = gateway_to(driver, peer.address(), "V1")
            .policy("proxyProtocol: {in: Optional}")
            .start();
        let words = "PROXY TCP6 2001:db8::7 2001:db8::1 50000 443\r\n";
        for listener in [0, 1] {
            let mut stream = connect(&gateway, listener);
            stream.write_all(words.as_bytes()).expect("taken");
            send_request(&mut stream);
            next(&reports, |report| report.starts_with(words.as_bytes()));
        }
    }

    fn a_connection_serves_only_the_client_that_it_names(driver) {
        let (peer, reports) = reporting_backend();
        let gateway = gateway_to(driver, peer.address(), "V1").start();
        let mut clients = [connect(&gateway, 0), connect(&gateway, 0)];
        for _ in 0..3 {
            clients.iter_mut().for_each(send_request);
        }
        let ports = clients.each_ref().map(|client| client.local_addr().expect("connected").port());
        let headers: Vec<_> = reports
            .try_iter()
            .map(|report| String::from_utf8_lossy(&report).into_owned())
            .collect();
        for port in ports {
            let of_port = headers.iter().filter(|header| header.contains(&format!(" {port} ")));
            assert_eq!(of_port.count(), 1, "one connection for each client: {headers:?}");
        }
    }

    /// A connection with another client's address cannot be reused, but its slot can.
    fn a_waiting_request_gets_the_connection_slot_of_another_client(driver) {
        let gate = Gate::default();
        let copy = gate.clone();
        let peer = tcp_peer(move |mut stream| {
            let mut received = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
                let is_whole = received.ends_with(b"\r\n\r\n");
                if is_whole && (!copy.pass() || stream.write_all(ANSWER).is_err()) {
                    return;
                }
            }
        });
        let gateway = gateway_to(driver, peer.address(), "V1")
            .policy_of("Backend/target", "limits: {upstreamConnections: 1, connectTimeout: 1m}")
            .start();
        let (mut first, mut second) = (gateway.client(), gateway.client());
        first.gets("/").expects_silence();
        second.gets("/").expects_silence();
        gate.open();
        first.expects(200);
        second.expects(200);
    }

    /// The endpoint may have one connection, and that of the first client is idle.
    fn an_idle_http_2_connection_of_another_client_is_closed_for_a_request(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let gateway = gateway_with_backend_fields(driver, address, "proxyProtocol: V1, protocol: H2C")
            .limits("endpointConnections: 1, connectTimeout: 1m")
            .start();
        let mut servers = Vec::new();
        for _ in 0..3 {
            let mut client = connect(&gateway, 0);
            client.write_all(REQUEST).expect("taken");
            let words = line(&client, &gateway, 0);
            let mut server = H2Peer::server_after_preamble(&listener, words.as_bytes(), b"");
            respond(&mut server, &mut client);
            servers.push((server, client));
        }
    }

    fn an_http_2_backend_gets_a_connection_per_client(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let gateway = gateway_with_backend_fields(driver, address, "proxyProtocol: V1, protocol: H2C").start();
        let mut servers = Vec::new();
        for _ in 0..2 {
            let mut client = connect(&gateway, 0);
            client.write_all(REQUEST).expect("taken");
            let words = line(&client, &gateway, 0);
            let mut server = H2Peer::server_after_preamble(&listener, words.as_bytes(), b"");
            respond(&mut server, &mut client);
            // The client's next request uses the same connection.
            client.write_all(REQUEST).expect("taken");
            respond(&mut server, &mut client);
            servers.push((server, client));
        }
    }

    fn a_tls_backend_gets_the_header_before_the_handshake(driver) {
        let ca = authority("ca");
        let origin = tls_origin(&ca.server(&["a.test"]), ClientCertificates::Nobody);
        let (peer, reports) = relaying_backend(origin.address());
        let trust = "caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";
        let gateway = gateway_to(driver, peer.address(), "V1")
            .authority("ca", &ca)
            .backend_tls("target", &format!("hostname: a.test, {trust}"))
            .start();
        for listener in [0, 1] {
            let mut stream = connect(&gateway, listener);
            send_request(&mut stream);
            let line = line(&stream, &gateway, listener);
            next(&reports, |report| report == line.as_bytes());
        }
        let handshakes = origin.handshakes();
        assert_eq!(handshakes.len(), 2);
        assert!(handshakes.iter().all(|handshake| handshake.sni.as_deref() == Some("a.test")));
    }

    fn the_server_may_speak_before_the_client(driver) {
        let peer = tcp_peer(|mut stream| {
            let mut header = [0; 16];
            if stream.read_exact(&mut header).is_ok() {
                let _ = stream.write_all(&header[..5]);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let gateway = gateway_to(driver, peer.address(), "V1").start();
        let mut word = [0; 5];
        connect(&gateway, 1).read_exact(&mut word).expect("it has the header");
        assert_eq!(&word, b"PROXY");
    }
}
