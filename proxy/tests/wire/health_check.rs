//! Active health checks: endpoints whose probes fail get no requests, until they succeed again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use prost::Message;

use crate::support::calls::{self, CallServer};
use crate::support::frames::{self, HEADERS};
use crate::support::pki::authority;
use crate::support::{
    ClientCertificates, Driver, Gateway, GatewayBuilder, Origin, Reply, TIMEOUT, gateway,
    greeting_peer, ok, on_both_drivers, origin, raw, refused, status, tcp_peer, tls_origin,
};

/// A gateway in front of these endpoints, which are checked every second.
fn checked(driver: Driver, endpoints: &[SocketAddr], check: &str) -> GatewayBuilder {
    gateway(driver)
        .backend("shop", endpoints)
        .rule("{backendRefs: [{@shop}]}")
        .policy_of("Backend/shop", &health_check(check))
}

fn health_check(fields: &str) -> String {
    format!("healthCheck: {{interval: 1s, healthyAfter: 1, unhealthyAfter: 2, {fields}}}")
}

fn waits_until_out(gateway: &Gateway, endpoint: SocketAddr, why: &str) {
    let out =
        format!("endpoint {endpoint} is out of service: 2 probes in a row failed, 1s apart: {why}");
    gateway.waits_for_log(&out);
}

/// Two origins that answer their number; the second one answers probes with this.
fn one_good_one_bad(bad: Reply) -> [Origin; 2] {
    let good = origin().replies(ok("0"));
    [good, origin().replies(ok("1")).replies_to("/healthz", bad)]
}

fn addresses(origins: &[Origin]) -> Vec<SocketAddr> {
    origins.iter().map(Origin::address).collect()
}

/// Which origins answer so many requests.
fn answers(gateway: &Gateway, requests: usize) -> String {
    let mut client = gateway.client();
    let answers = (0..requests).map(|_| client.gets("/").expects(200).text());
    answers.collect()
}

/// Sends requests until this origin answers one.
fn waits_for_answer_of(gateway: &Gateway, origin: &str) {
    let mut client = gateway.client();
    while client.gets("/").expects(200).text() != origin {}
}

/// The requests of an origin that are no probes.
fn forwarded(origin: &Origin) -> usize {
    let requests = origin.requests();
    requests
        .iter()
        .filter(|request| request.target() == "/")
        .count()
}

/// The `Host` of the last probe.
fn host_of_last_probe(origin: &Origin) -> String {
    let mut requests = origin.requests();
    requests.retain(|request| request.target() == "/healthz");
    let last = requests.last().expect("a probe");
    last.value("host").expect("a host").to_owned()
}

const PATH: &str = "path: /healthz";

on_both_drivers! {
    fn a_ready_endpoint_that_answers_500_gets_no_requests_until_it_recovers(driver) {
        let origins = [origin().replies(ok("0")), origin().replies(status(500))];
        let gateway = checked(driver, &addresses(&origins), PATH).start();
        waits_until_out(&gateway, origins[1].address(), "status 500 is none of those expected");
        assert_eq!(answers(&gateway, 50), "0".repeat(50));
        let mut over_h2 = frames::Peer::client(gateway.address());
        for stream in (1..40).step_by(2) {
            over_h2.sends(frames::get(stream));
            assert_eq!(over_h2.next_of(HEADERS).status(), Some(200));
        }
        assert_eq!(forwarded(&origins[1]), 0);
        origins[1].now_replies(ok("1"));
        let back = format!("endpoint {} is in service: a probe succeeded", origins[1].address());
        gateway.waits_for_log(&back);
        waits_for_answer_of(&gateway, "1");
        let probe = origins[1].requests().swap_remove(0);
        assert_eq!((probe.target(), probe.value("connection")), ("/healthz", Some("close")));
    }

    fn probes_name_the_backend_and_never_follow_redirects(driver) {
        let elsewhere = "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n";
        let origins = one_good_one_bad(raw(elsewhere));
        let gateway = checked(driver, &addresses(&origins), PATH).start();
        waits_until_out(&gateway, origins[1].address(), "status 302 is none of those expected");
        assert_eq!(forwarded(&origins[1]), 0);
        assert_eq!(host_of_last_probe(&origins[1]), "127.0.0.1");
        let expected = "path: /healthz, host: shop.example, expect: ['200', 301-399]";
        gateway.reconfigure(&checked(driver, &addresses(&origins), expected));
        gateway.waits_for_log("is in service: a probe succeeded");
        assert_eq!(host_of_last_probe(&origins[1]), "shop.example");
    }

    fn an_endpoint_that_accepts_and_never_answers_goes_out(driver) {
        let good = origin().replies(ok("0"));
        // The kernel completes connections; nobody takes them from its queue.
        let hangs = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let hung = hangs.local_addr().expect("bound");
        let check = "path: /healthz, timeout: 500ms";
        let gateway = checked(driver, &[good.address(), hung], check).start();
        waits_until_out(&gateway, hung, "no answer within 500ms");
        assert_eq!(answers(&gateway, 50), "0".repeat(50));
    }

    fn too_few_healthy_endpoints_mean_that_probes_are_ignored(driver) {
        let origins = [0, 1].map(|number| {
            origin().replies(ok(number.to_string())).replies_to("/healthz", status(503))
        });
        let gateway = checked(driver, &addresses(&origins), PATH).start();
        gateway.waits_for_log("the health checks of 2 of 2 endpoints fail");
        waits_for_answer_of(&gateway, "0");
        waits_for_answer_of(&gateway, "1");
        let never = "path: /healthz, panicPercent: 0";
        let logged = "accessLog: {format: json}";
        gateway.reconfigure(&checked(driver, &addresses(&origins), never).policy(logged));
        gateway.waits_for_applied(2);
        gateway.client().gets("/").expects(503);
        gateway.waits_for_access_log("no_endpoint");
    }

    fn a_reload_keeps_what_is_known_and_a_removed_check_heals(driver) {
        let origins = one_good_one_bad(status(500));
        let builder = checked(driver, &addresses(&origins), PATH);
        let gateway = builder.clone().start();
        waits_until_out(&gateway, origins[1].address(), "status 500 is none of those expected");
        let changed = builder.policy("accessLog: {format: json}");
        for version in 2..6 {
            let limits = format!("connectTimeout: {version}s");
            gateway.reconfigure(&changed.clone().limits(&limits));
            gateway.waits_for_applied(version);
            assert_eq!(answers(&gateway, 10), "0".repeat(10));
        }
        let without = gateway_without_check(driver, &addresses(&origins));
        gateway.reconfigure(&without);
        waits_for_answer_of(&gateway, "1");
        assert_eq!(gateway.log().matches("is out of service").count(), 1);
    }

    fn idle_connections_to_an_endpoint_that_goes_out_are_closed(driver) {
        let origins = [0, 1].map(|number| origin().replies(ok(number.to_string())));
        let gateway = checked(driver, &addresses(&origins), PATH).start();
        waits_for_answer_of(&gateway, "1");
        assert!(origins[1].open_connections() > 0, "it is kept for the next request");
        origins[1].now_replies(status(500));
        waits_until_out(&gateway, origins[1].address(), "status 500 is none of those expected");
        origins[1].waits_for_hangup();
    }

    fn sessions_move_from_an_endpoint_that_goes_out(driver) {
        let origins = [0, 1].map(|number| origin().replies(ok(number.to_string())));
        let gateway = gateway(driver)
            .backend("shop", &addresses(&origins))
            .rule("{sessionPersistence: {sessionName: X-Who, type: Header}, backendRefs: [{@shop}]}")
            .policy_of("Backend/shop", &health_check(PATH))
            .start();
        let mut client = gateway.client();
        let first = client.gets("/").expects(200);
        let at: usize = first.text().parse().expect("a number");
        let token = first.value("x-who").expect("a token").to_owned();
        origins[at].now_replies(status(500));
        waits_until_out(&gateway, origins[at].address(), "status 500 is none of those expected");
        client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Who: {token}\r\n\r\n"));
        assert_eq!(client.expects(200).text(), (1 - at).to_string());
    }

    fn an_address_without_a_verdict_waits_if_the_policy_says_so(driver) {
        let good = origin().replies(ok("0"));
        let (_refusing, dead) = refused();
        let check = "path: /healthz, initial: Unhealthy";
        let gateway = checked(driver, &[good.address(), dead], check).start();
        gateway.waits_for_log(&format!("endpoint {} is in service: a probe succeeded", good.address()));
        assert_eq!(answers(&gateway, 50), "0".repeat(50));
        gateway.waits_for_log(&format!("endpoint {dead} is out of service: 2 probes in a row failed, 1s apart: cannot connect: "));
        assert_eq!(answers(&gateway, 10), "0".repeat(10));
    }

    fn tcp_connections_go_to_endpoints_that_accept_them(driver) {
        let good = greeting_peer("good");
        let (_refusing, dead) = refused();
        let gateway = gateway(driver)
            .listener_with("tcp", "protocol: TCP")
            .backend("peer", &[good.address(), dead])
            .rule_of("tcp", "{backendRefs: [{@peer}]}")
            .policy_of("Backend/peer", &health_check("type: TCP"))
            .start();
        waits_until_out(&gateway, dead, "cannot connect: ");
        for _ in 0..20 {
            let mut stream = TcpStream::connect(gateway.address_of(1)).expect("it accepts");
            stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
            let mut word = [0; 4];
            stream.read_exact(&mut word).expect("a greeting");
            assert_eq!(&word, b"good");
        }
    }

    fn probes_begin_with_the_proxy_protocol_of_the_backend(driver) {
        let (report, reports) = channel();
        let report = Mutex::new(report);
        let backend = tcp_peer(move |mut stream| {
            let mut first = [0; 16];
            if stream.read_exact(&mut first).is_ok() {
                let _ = report.lock().expect("no holder panics").send(first.to_vec());
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        });
        for (version, header) in [
            ("V2", &b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"[..]),
            ("V1", b"PROXY UNKNOWN\r\nG"),
        ] {
            let address = backend.address();
            let document = format!(
                "apiVersion: gateway-system.io/v1alpha1\nkind: Backend\nmetadata: {{name: odd}}\n\
                 spec: {{proxyProtocol: {version}, addresses: [{{host: {}, port: {}}}]}}",
                address.ip(), address.port()
            );
            let _gateway = gateway(driver)
                .rule("{backendRefs: [{group: gateway-system.io, kind: Backend, name: odd}]}")
                .document(&document)
                .policy_of("Backend/odd", &health_check(PATH))
                .start();
            assert_eq!(reports.recv_timeout(TIMEOUT).expect("a probe"), header);
        }
    }

    fn probes_use_the_tls_of_the_backend(driver) {
        let authority = authority("origin");
        let origins = ["origin.test", "other.test"].map(|name| {
            tls_origin(&authority.server(&[name]), ClientCertificates::Nobody)
        });
        let gateway = checked(driver, &addresses(&origins), "panicPercent: 0")
            .authority("ca", &authority)
            .backend_tls("shop", "hostname: origin.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]")
            .start();
        waits_until_out(&gateway, origins[1].address(), "the TLS handshake failed: ");
        for _ in 0..10 {
            gateway.client().gets("/").expects(200);
        }
    }

    fn grpc_servers_are_asked_by_their_health_service(driver) {
        let servers = [SERVING, SERVING].map(HealthServer::start);
        let endpoints: Vec<_> = servers.iter().map(|it| it.server.address).collect();
        let gateway = gateway(driver)
            .backend("shop", &endpoints)
            .speaks("shop", "H2C")
            .rule("{backendRefs: [{@shop}]}")
            .policy_of("Backend/shop", &health_check("type: GRPC, service: shop.Cart"))
            .start();
        servers[1].status.store(NOT_SERVING, Ordering::Relaxed);
        waits_until_out(&gateway, endpoints[1], "the health service answered NOT_SERVING");
        servers[1].status.store(SERVING, Ordering::Relaxed);
        gateway.waits_for_log("is in service: a probe succeeded");
        let asked = servers[1].asked.lock().expect("no holder panics");
        assert!(asked.iter().all(|service| service == "shop.Cart"));
        drop(asked);
        assert_eq!(servers[0].connections.load(Ordering::Relaxed), 1, "it is kept");
    }
}

fn gateway_without_check(driver: Driver, endpoints: &[SocketAddr]) -> GatewayBuilder {
    gateway(driver)
        .backend("shop", endpoints)
        .rule("{backendRefs: [{@shop}]}")
}

/// A server of `grpc.health.v1.Health`.
struct HealthServer {
    server: CallServer,
    status: Arc<AtomicI32>,
    asked: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicI32>,
}

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

#[derive(Clone, PartialEq, Eq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl HealthServer {
    fn start(status: i32) -> Self {
        let status = Arc::new(AtomicI32::new(status));
        let (asked, connections) = (Arc::<Mutex<Vec<String>>>::default(), Arc::default());
        let (scripted, recorded) = (Arc::clone(&status), Arc::clone(&asked));
        let opened: Arc<AtomicI32> = Arc::clone(&connections);
        let server = calls::start(move |socket| {
            opened.fetch_add(1, Ordering::Relaxed);
            let (scripted, recorded) = (Arc::clone(&scripted), Arc::clone(&recorded));
            calls::serve_calls(socket, move |request, mut respond| {
                let (scripted, recorded) = (Arc::clone(&scripted), Arc::clone(&recorded));
                async move {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    let (mut body, mut bytes) = (request.into_body(), Vec::new());
                    while let Some(data) = body.data().await {
                        bytes.extend_from_slice(&data?);
                    }
                    let message: Option<HealthCheckRequest> = calls::take(&mut bytes);
                    let service = message.expect("a message").service;
                    recorded.lock().expect("no holder panics").push(service);
                    let status = scripted.load(Ordering::Relaxed);
                    let mut sending = calls::begin(&mut respond)?;
                    sending.send_data(calls::framed(&HealthCheckResponse { status }), false)?;
                    calls::end(&mut sending, "0")
                }
            })
        });
        Self {
            server,
            status,
            asked,
            connections,
        }
    }
}
