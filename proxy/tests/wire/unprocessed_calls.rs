//! Calls of the gateway's own that a server did not process: they are made once more.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::admin::json;
use super::external_auth::{allow, gateway_with_h2_auth};
use super::inference::{ROUTE, pool_with};
use super::page_servers::served;
use crate::support::frames::{GOAWAY, HEADERS, Peer, frame};
use crate::support::pki::authority;
use crate::support::{
    Driver, Gateway, Origin, Picker, PickerBehavior, TIMEOUT, allowing, authorizer, gateway, ok,
    on_both_drivers, origin, out_of_h2, out_of_tls, pattern, plain_picker, same_bytes,
};

/// A pool with one pod, whose picker is reached at the address, or at its own one.
fn scene(driver: Driver, through: Option<SocketAddr>, mode: &str) -> (Gateway, Origin, Picker) {
    let pod = origin();
    let picker = plain_picker(PickerBehavior::Picks(vec![pod.address()]));
    let asks = through.unwrap_or(picker.address());
    let h2c = "appProtocol: kubernetes.io/h2c";
    let gateway = pool_with(driver, &[pod.address()], asks, mode, h2c)
        .rule(ROUTE)
        .start();
    (gateway, pod, picker)
}

pub(super) fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// Waits until this many requests are in this state, as shown by the admin server: all but one wait for
/// the connection that the listener has accepted, and it has no other.
#[track_caller]
pub(super) fn wait_together(
    gateway: &Gateway,
    listener: &TcpListener,
    (requests, state): (usize, &str),
) {
    let (deadline, state) = (Instant::now() + TIMEOUT, format!("\"state\":\"{state}\""));
    loop {
        let tasks = json(gateway, "/debug/tasks").to_string();
        if tasks.matches(&state).count() == requests {
            break;
        }
        assert!(Instant::now() < deadline, "{tasks}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    listener.set_nonblocking(true).expect("a socket of ours");
    let another = listener.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(another, Err(ErrorKind::WouldBlock));
}

/// Accepts a call, and then says that it was not processed. The connection stays open: to close it
/// with unread bytes would reset it, and the reset could overtake the GOAWAY.
#[track_caller]
fn turns_away(listener: &TcpListener) -> Peer {
    let mut server = Peer::server(listener);
    server.next_of(HEADERS);
    server.sends(frame(GOAWAY, 0, 0, &[0; 8]));
    server
}

/// Forwards connections to a server. While `cuts` is set, one is closed instead at the next HEADERS
/// frame from its client, which clears it.
pub(super) fn relays(listener: TcpListener, to: SocketAddr, cuts: &Arc<AtomicBool>) {
    let cuts = Arc::clone(cuts);
    listener.set_nonblocking(false).expect("a socket of ours");
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            relay(client, to, Arc::clone(&cuts));
        }
    });
}

/// As [`relays`], for one connection.
pub(super) fn relay(client: TcpStream, to: SocketAddr, cuts: Arc<AtomicBool>) {
    relay_until(client, to, move |bytes| {
        has_headers(bytes) && cuts.swap(false, Ordering::SeqCst)
    });
}

/// Forwards a connection to a server until `cuts` returns true for bytes from its client.
fn relay_until(client: TcpStream, to: SocketAddr, cuts: impl Fn(&[u8]) -> bool + Send + 'static) {
    let server = TcpStream::connect(to).expect("it listens");
    let back = (copy_of(&server), copy_of(&client));
    std::thread::spawn(move || pass_on(&client, &server, cuts));
    std::thread::spawn(move || pass_on(&back.0, &back.1, |_| false));
}

fn copy_of(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("descriptors")
}

/// Copies what arrives, until the end or until `cuts`; then both connections end.
fn pass_on(mut from: &TcpStream, mut to: &TcpStream, cuts: impl Fn(&[u8]) -> bool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if cuts(&buffer[..count]) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Whether these frames, from the first byte of one on, include HEADERS.
fn has_headers(mut bytes: &[u8]) -> bool {
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        if *kind == HEADERS {
            return true;
        }
        let length = u32::from_be_bytes([0, *a, *b, *c]);
        bytes = rest.get(length as usize..).unwrap_or_default();
    }
    false
}

on_both_drivers! {
    fn a_picker_that_goes_away_is_called_again_with_the_whole_body(driver) {
        for mode in ["FailClose", "FailOpen"] {
            let (listener, address) = listener();
            let (gateway, pod, picker) = scene(driver, Some(address), mode);
            let body = pattern(200_000);
            let mut client = gateway.client();
            client.posts("/", &body);
            let _former = turns_away(&listener);
            relays(listener, picker.address(), &Arc::default());
            client.expects(200);
            let asked = picker.requests().remove(0);
            assert!(asked.ended && asked.pieces > 1, "{} pieces", asked.pieces);
            same_bytes(&asked.body, &body);
            same_bytes(&pod.waits_for_complete(1)[0].body, &body);
        }
    }

    fn calls_that_wait_for_the_connection_of_another_outlive_its_routes_timeout(driver) {
        let (ca, auth, app) = (authority("ca"), authorizer(Some(allowing(&[]))), origin());
        let sealed = out_of_tls(auth.address(), &ca.server(&["a.test"]), &["h2"]);
        let (listener, address) = listener();
        let filters = "filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {@auth}, grpc: {}}}], backendRefs: [{@app}]";
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("auth", &[address])
            .speaks("auth", "H2C")
            .backend_tls("auth", "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]")
            .backend("app", &[app.address()])
            .rule(&format!("{{matches: [{{path: {{value: /short}}}}], timeouts: {{request: 1s}}, {filters}}}"))
            .rule(&format!("{{{filters}}}"))
            .inspected()
            .start();
        let (mut short, mut patient) = (gateway.client(), gateway.client());
        short.gets("/short");
        // Its handshake is never answered.
        let (_stalled, _) = listener.accept().expect("a connection");
        patient.gets("/");
        wait_together(&gateway, &listener, (2, "authorizing"));
        relays(listener, sealed, &Arc::default());
        patient.expects(200);
        short.expects(403);
    }

    fn a_call_is_made_to_another_server_if_one_does_not_respond_to_a_handshake(driver) {
        let (ca, auth, app) = (authority("ca"), authorizer(Some(allowing(&[]))), origin());
        let sealed = out_of_tls(auth.address(), &ca.server(&["a.test"]), &["h2"]);
        let (_silent, address) = listener();
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("auth", &[address, sealed])
            .speaks("auth", "H2C")
            .backend_tls("auth", "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]")
            .backend("app", &[app.address()])
            .rule("{filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {@auth}, grpc: {}}}], backendRefs: [{@app}]}")
            .start();
        let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        for client in &mut clients {
            client.expects(200);
        }
    }

    fn a_picker_that_refuses_a_stream_is_called_once_more(driver) {
        let (gateway, pod, picker) = scene(driver, None, "FailClose");
        picker.refuses(1);
        gateway.client().gets("/").expects(200);
        picker.refuses(2);
        gateway.client().posts("/", "a body").expects(503);
        gateway.client().posts("/", "a body").expects(200);
        assert_eq!((picker.requests().len(), pod.requests().len()), (2, 2));
    }

    fn a_picker_that_closes_an_idle_connection_is_called_again(driver) {
        let ((listener, address), cuts) = (listener(), Arc::default());
        let (gateway, _pod, picker) = scene(driver, Some(address), "FailClose");
        relays(listener, picker.address(), &cuts);
        let mut client = gateway.client();
        client.gets("/").expects(200);
        picker.waits_for_response();
        cuts.store(true, Ordering::SeqCst);
        client.posts("/", "a body").expects(200);
        assert!(!cuts.load(Ordering::SeqCst), "the connection should have been cut");
        assert_eq!(picker.requests()[1].body, b"a body");
    }

    fn an_authorization_server_that_goes_away_is_called_again(driver) {
        let (app, grpc) = (origin(), authorizer(Some(allowing(&[]))));
        let http = origin().replies(allow(""));
        let servers = [
            (grpc.address(), "protocol: GRPC, grpc: {}"),
            (out_of_h2(http.address()), "protocol: HTTP, http: {}"),
        ];
        for (server, filter) in servers {
            let (listener, address) = listener();
            let gateway = gateway_with_h2_auth(driver, address, &app, filter).start();
            let mut client = gateway.client();
            client.gets("/");
            let _former = turns_away(&listener);
            relays(listener, server, &Arc::default());
            client.expects(200);
        }
    }

    /// The connection that the server closed is not that of the request any more, and another one may get its
    /// descriptor.
    fn a_client_that_leaves_while_its_page_is_asked_for_again_ends_no_other_connection(driver) {
        let (ca, pages, app) = (authority("ca"), origin().replies(ok("a page")), origin());
        let sealed = out_of_tls(pages.address(), &ca.server(&["a.test"]), &["http/1.1"]);
        let (listener, address) = listener();
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("pages", &[address])
            .backend_tls("pages", "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]")
            .backend("app", &[app.address()])
            .rule("{matches: [{path: {value: /a}}]}")
            .rule("{matches: [{path: {value: /app}}], backendRefs: [{@app}]}")
            .policy(&served("Gateway"))
            .policy("accessLog: {format: json}")
            .shards(1)
            .start();
        let (mut earlier, mut leaving) = (gateway.client(), gateway.client());
        earlier.gets("/app").expects(200);
        leaving.gets("/a");
        let (first, _) = listener.accept().expect("a connection");
        let cuts = Arc::new(AtomicBool::default());
        let is_cut = Arc::clone(&cuts);
        relay_until(first, sealed, move |_| is_cut.load(Ordering::SeqCst));
        assert_eq!(leaving.expects(500).text(), "a page");
        // The next connection to the page server gets this descriptor, and not that of the one before.
        let open = gateway.open_files();
        drop(earlier);
        gateway.waits_for_open_files_at_most(open - 1);
        cuts.store(true, Ordering::SeqCst);
        leaving.gets("/a/again");
        // Its handshake is never answered.
        let (_stalled, _) = listener.accept().expect("a connection");
        let mut other = gateway.client();
        other.gets("/app").expects(200);
        leaving.resets();
        gateway.waits_for_access_log("/a/again");
        other.gets("/app").expects(200);
    }
}
