//! No reader blocks another: data that one client or backend does not read fills only the windows
//! of its own streams, and the connection window covers all of them.

use std::time::{Duration, Instant};

use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, Peer, SETTINGS, before_frames, block, frame,
    get, request,
};
use crate::support::{
    Client, Driver, Gate, Gateway, Origin, Pair, Reply, SideProtocol, SideTransport, gateway, ok,
    on_both_drivers, origin, pattern, same_bytes,
};

/// Streams of a client, as many as it may have.
const STREAMS: u32 = 100;

/// Far above the time a loaded machine needs for one request, far below the write idle timeout.
const PROMPT: Duration = Duration::from_secs(8);

/// The initial window of a stream.
const WINDOW: usize = 64 * 1024;

/// Payload of a SETTINGS frame: `SETTINGS_INITIAL_WINDOW_SIZE` of 0.
const TAKES_NOTHING: [u8; 6] = [0, 4, 0, 0, 0, 0];

fn streams() -> impl Iterator<Item = u32> {
    (0..STREAMS).map(|nth| 2 * nth + 1)
}

fn pair(driver: Driver, client: SideProtocol) -> Pair {
    Pair {
        driver,
        client,
        origin: SideProtocol::H2c,
        from: SideTransport::Nothing,
        to: SideTransport::Nothing,
    }
}

fn fields<'a>(method: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut fields = request(method);
    fields.retain(|(name, _)| *name != ":path");
    fields.insert(0, (":path", path));
    fields
}

/// A backend that speaks HTTP/2, with a gateway in front of it.
fn before(driver: Driver, reply: Reply) -> (Origin, Gateway) {
    let origin = origin().replies(reply);
    let gateway = pair(driver, SideProtocol::H1).gateway_to(&origin).start();
    (origin, gateway)
}

/// Requests of other clients are answered without delay.
#[track_caller]
fn assert_prompt_responses(driver: Driver, gateway: &Gateway, body: &[u8]) {
    for speaks in [SideProtocol::H1, SideProtocol::H2c] {
        let mut neighbour: Client = pair(driver, speaks).client(gateway);
        for _ in 0..5 {
            let started = Instant::now();
            same_bytes(&neighbour.gets("/").expects(200).body, body);
            let took = started.elapsed();
            assert!(took < PROMPT, "a neighbour waited {took:?}");
        }
    }
}

/// Sends a full window of a request's body.
fn fill_window(peer: &mut Peer, stream: u32) {
    for _ in 0..4 {
        peer.sends(frame(DATA, 0, stream, &[0; WINDOW / 4]));
    }
}

on_both_drivers! {
    fn a_client_with_closed_windows_does_not_block_other_clients_of_its_backend(driver) {
        let body = pattern(300_000);
        let (_origin, gateway) = before(driver, ok(&body));
        let mut greedy = Peer::silent(gateway.address());
        greedy.sends(PREFACE).sends(frame(SETTINGS, 0, 0, &TAKES_NOTHING));
        greedy.sends(streams().flat_map(get).collect::<Vec<_>>());
        for _ in streams() {
            greedy.next_of(HEADERS);
        }
        assert_prompt_responses(driver, &gateway, &body);
    }

    fn a_slow_grpc_consumer_does_not_block_other_clients_of_its_backend(driver) {
        let body = pattern(300_000);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: {}\r\n\r\n",
            body.len(),
        );
        let (_origin, gateway) = before(driver, Reply::at_once().reads_the_body().sends(head).sends(&body));
        let mut slow = Peer::client(gateway.address());
        let mut call = fields("POST", "/");
        call.extend([("content-type", "application/grpc"), ("te", "trailers")]);
        let call = block(&call);
        let ends = END_HEADERS | END_STREAM;
        slow.sends(streams().flat_map(|stream| frame(HEADERS, ends, stream, &call)).collect::<Vec<_>>());
        // It never opens the connection window, so not all heads can be received.
        slow.next_of(HEADERS);
        assert_prompt_responses(driver, &gateway, &body);
    }

    fn the_connection_window_to_a_backend_covers_all_of_its_streams(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut greedy = Peer::silent(gateway.address());
        greedy.sends(PREFACE).sends(frame(SETTINGS, 0, 0, &TAKES_NOTHING));
        greedy.sends(streams().flat_map(get).collect::<Vec<_>>());
        let mut server = Peer::server(&listener);
        server.settles();
        for _ in streams() {
            let stream = server.next_of(HEADERS).stream;
            server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
            fill_window(&mut server, stream);
        }
        let mut neighbour = gateway.client();
        neighbour.gets("/");
        let stream = server.next_of(HEADERS).stream;
        server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
        fill_window(&mut server, stream);
        server.sends(frame(DATA, END_STREAM, stream, b""));
        assert_eq!(neighbour.expects(200).body.len(), WINDOW);
    }

    fn an_unread_websocket_does_not_block_other_clients_of_its_backend(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut greedy = Peer::silent(gateway.address());
        greedy.sends(PREFACE).sends(frame(SETTINGS, 0, 0, &TAKES_NOTHING));
        let mut tunnel = fields("CONNECT", "/chat");
        tunnel.extend([(":protocol", "websocket"), ("sec-websocket-version", "13")]);
        tunnel.sort_unstable_by_key(|(name, _)| !name.starts_with(':'));
        let tunnel = block(&tunnel);
        greedy.sends(
            streams().flat_map(|stream| frame(HEADERS, END_HEADERS, stream, &tunnel)).collect::<Vec<_>>(),
        );
        let mut server = Peer::server_with_settings(&listener, &[0, 8, 0, 0, 0, 1]);
        server.settles();
        for _ in streams() {
            let stream = server.next_of(HEADERS).stream;
            server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
            fill_window(&mut server, stream);
        }
        let mut neighbour = gateway.client();
        neighbour.gets("/");
        let stream = server.next_of(HEADERS).stream;
        server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
        fill_window(&mut server, stream);
        server.sends(frame(DATA, END_STREAM, stream, b""));
        assert_eq!(neighbour.expects(200).body.len(), WINDOW);
    }

    fn stalled_uploads_do_not_block_other_uploads_of_their_client(driver) {
        let gate = Gate::default();
        let slow = origin().replies(Reply::at_once().waits_for(&gate).closes());
        let own = origin();
        let gateway = gateway(driver)
            .backend("slow", &[slow.address()])
            .backend("own", &[own.address()])
            .rule("{matches: [{path: {value: /slow}}], backendRefs: [{@slow}]}")
            .rule("{backendRefs: [{@own}]}")
            .policy_of("Backend/slow", "limits: {upstreamConnections: 1, connectTimeout: 1m}")
            .start();
        // One request has the only connection, and all others wait for it with the received part of
        // their bodies.
        let mut holder = gateway.client();
        holder.gets("/slow");
        slow.waits_for_requests(1);
        let mut peer = Peer::client(gateway.address());
        peer.settles();
        for stream in streams().skip(1) {
            peer.sends(frame(HEADERS, END_HEADERS, stream, &block(&fields("POST", "/slow"))));
            fill_window(&mut peer, stream);
        }
        peer.sends(frame(HEADERS, END_HEADERS, 2 * STREAMS + 1, &block(&fields("POST", "/own"))));
        fill_window(&mut peer, 2 * STREAMS + 1);
        peer.sends(frame(DATA, END_STREAM, 2 * STREAMS + 1, b""));
        let answer = peer.next_of(HEADERS);
        assert_eq!((answer.stream, answer.status()), (2 * STREAMS + 1, Some(200)));
        assert_eq!(own.waits_for_complete(1)[0].body.len(), WINDOW);
        gate.open();
    }
}
