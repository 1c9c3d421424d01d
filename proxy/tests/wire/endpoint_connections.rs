//! The connections to one endpoint are limited, over all shards; requests queue for one, for a limited time.

use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::frames::{ACK, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, Peer, frame};
use crate::support::pki::authority;
use crate::support::{
    Client, ClientCertificates, Gate, Reply, gateway, ok, on_both_drivers, origin, out_of_h2,
    tcp_peer, tls_origin,
};

/// Responds once the gate is open.
fn reply_after_gate(gate: &Gate) -> Reply {
    Reply::at_once()
        .waits_for(gate)
        .sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

/// Passes bytes on, both ways, until each direction has ended.
fn relay_to(address: SocketAddr, client: &TcpStream) {
    let server = TcpStream::connect(address).expect("the origin accepts");
    thread::scope(|scope| {
        for (mut from, mut to) in [(client, &server), (&server, client)] {
            scope.spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    });
}

/// The frame of a response without a body.
fn no_content(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x89])
}

/// Ends the other clients of a test if one fails.
struct EndsOthers<'a>(&'a AtomicUsize);

impl Drop for EndsOthers<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(usize::MAX / 2, Ordering::Relaxed);
        }
    }
}

on_both_drivers! {
    fn requests_of_all_shards_queue_for_the_only_connection(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let gateway = gateway(driver)
            .shards(2)
            .routes_to(&origin)
            .limits("endpointConnections: 1, connectTimeout: 1m")
            .start();
        let mut clients: Vec<Client> = (0..6).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(1);
        clients[5].expects_silence();
        assert_eq!((origin.requests().len(), origin.connections()), (1, 1), "the others wait");
        gate.open();
        for client in &mut clients {
            client.expects(200);
        }
    }

    /// Each shard keeps connections of its own.
    fn an_idle_connection_of_another_shard_is_closed_for_a_request(driver) {
        let origin = origin().replies(ok("ok"));
        let gateway = gateway(driver)
            .shards(2)
            .routes_to(&origin)
            .limits("endpointConnections: 1, connectTimeout: 1m")
            .start();
        // Among these are connections of both shards.
        let mut clients: Vec<Client> = (0..8).map(|_| gateway.client()).collect();
        for _ in 0..20 {
            for client in &mut clients {
                client.gets("/").expects(200);
            }
        }
    }

    /// Whichever shard the requests are on, and the idle connections.
    fn as_many_idle_connections_of_another_shard_are_closed_as_requests_need(driver) {
        const CONNECTIONS: usize = 4;
        let origin = origin();
        let gateway = gateway(driver)
            .shards(2)
            .routes_to(&origin)
            .limits("endpointConnections: 4, connectTimeout: 1m")
            .start();
        let mut clients: Vec<Client> = (0..16).map(|_| gateway.client()).collect();
        for round in 0..16 {
            let gate = Gate::default();
            origin.now_replies(reply_after_gate(&gate));
            let step = 1 + round % 4;
            let chosen = (0..CONNECTIONS).map(|at| (3 * round + at * step) % clients.len());
            let chosen: Vec<usize> = chosen.collect();
            for client in &chosen {
                clients[*client].gets("/");
            }
            origin.waits_for_requests(CONNECTIONS * (round + 1));
            gate.open();
            for client in chosen {
                clients[client].expects(200);
            }
        }
    }

    fn an_idle_http_2_connection_of_another_shard_is_closed_for_a_request(driver) {
        let origin = origin().replies(ok("ok"));
        let gateway = gateway(driver)
            .shards(2)
            .backend("app", &[out_of_h2(origin.address())])
            .speaks("app", "H2C")
            .rule("{backendRefs: [{@app}]}")
            .limits("endpointConnections: 1, connectTimeout: 1m")
            .start();
        let mut clients: Vec<Client> = (0..8).map(|_| gateway.client()).collect();
        for _ in 0..20 {
            for client in &mut clients {
                client.gets("/").expects(200);
            }
        }
    }

    /// A single endpoint takes one request at a time, and both shards have requests for it all the time: none
    /// stops before every client was served often.
    fn no_shard_keeps_a_connection_from_the_other(driver) {
        const CLIENTS: usize = 8;
        let origin = origin().replies(ok("ok"));
        let gateway = gateway(driver)
            .shards(2)
            .routes_to(&origin)
            .limits("endpointConnections: 1, connectTimeout: 5s")
            .start();
        let clients: Vec<Client> = (0..CLIENTS).map(|_| gateway.client()).collect();
        let served = AtomicUsize::new(0);
        thread::scope(|scope| {
            for mut client in clients {
                let served = &served;
                scope.spawn(move || {
                    let _guard = EndsOthers(served);
                    let mut requests = 0;
                    while served.load(Ordering::Relaxed) < CLIENTS {
                        client.gets("/").expects(200);
                        requests += 1;
                        served.fetch_add(usize::from(requests == 20), Ordering::Relaxed);
                    }
                });
            }
        });
    }

    fn requests_go_to_an_endpoint_that_has_a_connection(driver) {
        let gate = Gate::default();
        let (busy, free) = (origin().replies(reply_after_gate(&gate)), origin().replies(ok("free")));
        let gateway = gateway(driver)
            .shards(1)
            .backend("both", &[busy.address(), free.address()])
            .rule("{backendRefs: [{@both}]}")
            .limits("endpointConnections: 1, connectTimeout: 1m")
            .start();
        let mut clients: Vec<Client> = (0..32).map(|_| gateway.client()).collect();
        let (mut waiting, mut served) = (0, 0);
        for client in &mut clients {
            client.gets("/");
            // Each request reaches one of both at once.
            while busy.requests().len() + free.requests().len() == waiting + served {
                thread::yield_now();
            }
            waiting = busy.requests().len();
            if free.requests().len() > served {
                assert_eq!(client.expects(200).text(), "free");
                served += 1;
            }
        }
        assert_eq!((waiting, served), (1, 31));
        gate.open();
    }

    fn requests_beyond_the_queue_limit_are_rejected_immediately(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let gateway = gateway(driver)
            .shards(1)
            .routes_to(&origin)
            .limits("endpointConnections: 1, endpointPending: 1, connectTimeout: 1m")
            .policy("accessLog: {sample: 1}")
            .start();
        let mut first = gateway.client();
        first.gets("/");
        origin.waits_for_requests(1);
        let (mut second, mut third) = (gateway.client(), gateway.client());
        second.gets("/").expects_silence();
        let refused = third.gets("/").expects(503);
        assert_eq!(refused.value("retry-after"), Some("1"));
        gateway.waits_for_access_log("reason=upstream_full");
        gate.open();
        first.expects(200);
        second.expects(200);
        third.gets("/").expects(200);
    }

    fn no_request_waits_longer_than_the_connect_timeout(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("endpointConnections: 1, connectTimeout: 300ms")
            .start();
        let mut first = gateway.client();
        first.gets("/");
        origin.waits_for_requests(1);
        let (begun, mut second) = (Instant::now(), gateway.client());
        assert!(second.gets("/").expects(503).has("retry-after"));
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }

    /// A request that gave up waiting passes on what it was told.
    fn a_request_that_gave_up_keeps_nothing(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let gateway = gateway(driver)
            .shards(2)
            .routes_to(&origin)
            .limits("endpointConnections: 1, connectTimeout: 300ms")
            .start();
        let mut first = gateway.client();
        first.gets("/");
        origin.waits_for_requests(1);
        for _ in 0..4 {
            gateway.client().gets("/").expects(503);
        }
        gate.open();
        first.expects(200);
        for _ in 0..8 {
            gateway.client().gets("/").expects(200);
        }
    }

    fn a_raised_limit_reaches_requests_that_wait(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let with = |limits: &str| gateway(driver).shards(2).routes_to(&origin).limits(limits);
        let gateway = with("endpointConnections: 1, connectTimeout: 1m").start();
        let mut clients: Vec<Client> = (0..6).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(1);
        clients[5].expects_silence();
        assert_eq!(origin.connections(), 1);
        gateway.reconfigure(&with("endpointConnections: 3, connectTimeout: 1m"));
        origin.waits_for_requests(3);
        clients[5].expects_silence();
        assert_eq!(origin.connections(), 3);
        // Without a limit.
        gateway.reconfigure(&with("connectTimeout: 1m"));
        origin.waits_for_requests(6);
        gate.open();
        for client in &mut clients {
            client.expects(200);
        }
    }

    /// The wait for a connection says nothing about how long connecting takes.
    fn connecting_has_its_own_time_after_the_wait(driver) {
        const PART: Duration = Duration::from_secs(2);
        let (finished, reachable) = (Gate::default(), Gate::default());
        let ca = authority("ca");
        let certificate = ca.server(&["a.test"]);
        let reply = Reply::at_once()
            .waits_for(&finished)
            .sends("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
            .closes();
        let origin = tls_origin(&certificate, ClientCertificates::Nobody).replies(reply);
        let (to, gate) = (origin.address(), reachable.clone());
        let first = AtomicBool::new(true);
        let relay = tcp_peer(move |stream| {
            if first.swap(false, Ordering::SeqCst) || gate.pass() {
                relay_to(to, &stream);
            }
        });
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("origin", &[relay.address()])
            .backend_tls("origin", "hostname: a.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]")
            .rule("{retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .limits("endpointConnections: 1, connectTimeout: 3s")
            .start();
        let (mut before, mut waiting) = (gateway.client(), gateway.client());
        before.gets("/");
        origin.waits_for_requests(1);
        waiting.gets("/").expects_silence_for(PART);
        finished.open();
        before.expects(200);
        waiting.expects_silence_for(PART);
        reachable.open();
        waiting.expects(200);
    }

    /// So it is over HTTP/2, for the request that connects and for those that share its connection. Connecting
    /// includes the server's SETTINGS.
    fn connecting_over_http_2_has_its_own_time_after_the_wait(driver) {
        const PART: Duration = Duration::from_secs(2);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let gateway = gateway(driver)
            .shards(1)
            .backend("origin", &[listener.local_addr().expect("bound")])
            .speaks("origin", "H2C")
            .rule("{retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .limits("endpointConnections: 1, connectTimeout: 3s")
            .start();
        let [mut before, mut connecting, mut sharing] = [(); 3].map(|()| gateway.client());
        before.gets("/");
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        // It takes no more requests, and is in use until this one has its response.
        let last = [stream.to_be_bytes(), [0; 4]].concat();
        server.sends(frame(GOAWAY, 0, 0, &last)).sends(frame(PING, 0, 0, &[7; 8]));
        while server.next_of(PING).flags & ACK == 0 {}
        connecting.gets("/");
        sharing.gets("/").expects_silence_for(PART);
        server.sends(no_content(stream));
        before.expects(204);
        sharing.expects_silence_for(PART);
        let mut next = Peer::server(&listener);
        for _ in 0..2 {
            let stream = next.next_of(HEADERS).stream;
            next.sends(no_content(stream));
        }
        connecting.expects(204);
        sharing.expects(204);
    }

    /// An endpoint that is gone when its connection may be opened: the request that waited fails, and the next one does
    /// not wait for its place.
    fn a_connection_that_is_refused_after_the_wait_leaves_its_place(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let gateway = gateway(driver)
            .shards(1)
            .backend("origin", &[listener.local_addr().expect("bound")])
            .rule("{retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .limits("endpointConnections: 1, connectTimeout: 1m")
            .policy("accessLog: {sample: 1}")
            .start();
        let [mut before, mut waiting] = [(); 2].map(|()| gateway.client());
        before.gets("/");
        let (mut server, _) = listener.accept().expect("the gateway connects");
        waiting.gets("/").expects_silence();
        drop(listener);
        let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
        server.write_all(last).expect("the gateway reads");
        before.expects(200);
        waiting.expects(503);
        gateway.waits_for_access_log("reason=connect_failed");
        gateway.client().gets("/").expects(503);
    }

    /// So it is over HTTP/2, also for a request that waited for the connection of another.
    fn a_connection_over_http_2_that_is_refused_after_the_wait_leaves_its_place(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let gateway = gateway(driver)
            .shards(1)
            .backend("origin", &[listener.local_addr().expect("bound")])
            .speaks("origin", "H2C")
            .rule("{retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .limits("endpointConnections: 1, connectTimeout: 1m")
            .policy("accessLog: {sample: 1}")
            .start();
        let [mut before, mut connecting, mut sharing] = [(); 3].map(|()| gateway.client());
        before.gets("/");
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        // It takes no more requests, and is in use until this one has its response.
        let last = [stream.to_be_bytes(), [0; 4]].concat();
        server.sends(frame(GOAWAY, 0, 0, &last)).sends(frame(PING, 0, 0, &[7; 8]));
        while server.next_of(PING).flags & ACK == 0 {}
        connecting.gets("/").expects_silence();
        sharing.gets("/").expects_silence();
        drop(listener);
        server.sends(no_content(stream));
        before.expects(204);
        for client in [&mut connecting, &mut sharing] {
            client.expects(503);
        }
        gateway.waits_for_access_log("reason=connect_failed");
        gateway.client().gets("/").expects(503);
    }

    fn a_limit_of_the_backend_overrides_the_gateways(driver) {
        let gate = Gate::default();
        let origin = origin().replies(reply_after_gate(&gate));
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("endpointConnections: 1, connectTimeout: 1m")
            .policy_of("Backend/origin", "limits: {endpointConnections: 2}")
            .start();
        let mut clients: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(2);
        clients[2].expects_silence();
        assert_eq!(origin.connections(), 2);
        gate.open();
        for client in &mut clients {
            client.expects(200);
        }
    }
}
