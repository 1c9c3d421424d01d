//! TLS across changes of the configuration: certificates rotate without a dropped connection, and
//! tickets stay valid while the client's authentication is still valid.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::pki::{Authority, Credential, authority};
use crate::support::{
    Client, Driver, Gateway, GatewayBuilder, Origin, TIMEOUT, Tls, client, gateway, into_h2,
    into_tls, on_both_drivers, origin, tls,
};

fn builder(driver: Driver, origin: &Origin, pair: &Credential) -> GatewayBuilder {
    gateway(driver)
        .shards(2)
        .https("web", None, &[pair])
        .backend("origin", &[origin.address()])
        .rule_of("web", "{backendRefs: [{@origin}]}")
}

/// Waits until new connections get a certificate.
#[track_caller]
pub(crate) fn waits_until_shown(gateway: &Gateway, tls: &Tls, pair: &Credential) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    while !gateway
        .tls_client(tls)
        .completes_handshake()
        .received_certificate(pair)
    {
        assert!(
            std::time::Instant::now() < deadline,
            "the old certificate is still shown"
        );
    }
}

/// A client with a ticket of an earlier connection.
fn client_with_ticket(gateway: &Gateway, ca: &Authority) -> Tls {
    let tls = tls(ca, "a.test");
    gateway.tls_client(&tls).gets("/").expects(200);
    tls
}

#[track_caller]
fn resumes(gateway: &Gateway, tls: &Tls) -> bool {
    let mut client = gateway.tls_client(tls);
    client.gets("/").expects(200);
    client.has_resumed()
}

on_both_drivers! {
    fn a_session_is_resumed_on_any_shard(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let gateway = builder(driver, &origin, &pair).start();
        let tls = client_with_ticket(&gateway, &ca);
        for _ in 0..8 {
            assert!(resumes(&gateway, &tls));
        }
        let old = tls.of_old(&ca);
        gateway.tls_client(&old).gets("/").expects(200);
        assert!(resumes(&gateway, &old));
    }

    fn a_ticket_is_valid_after_a_reload(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let (before, after) = (ca.server(&["a.test"]), ca.server(&["a.test"]));
        let gateway = builder(driver, &origin, &before).start();
        let tls = client_with_ticket(&gateway, &ca);
        gateway.reconfigure(&builder(driver, &origin, &after));
        waits_until_shown(&gateway, &tls.clone().forgetful(), &after);
        assert!(resumes(&gateway, &tls));
    }

    fn an_open_connection_survives_a_rotation(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let (before, after) = (ca.server(&["a.test"]), ca.server(&["a.test"]));
        let gateway = builder(driver, &origin, &before).start();
        let mut client = gateway.tls_client(&tls(&ca, "a.test"));
        client.gets("/").expects(200);
        gateway.reconfigure(&builder(driver, &origin, &after));
        waits_until_shown(&gateway, &tls(&ca, "a.test").forgetful(), &after);
        client.gets("/").expects(200);
        assert!(client.received_certificate(&before));
    }

    fn a_handshake_in_progress_outlives_its_certificate_and_listener(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let (before, after) = (ca.server(&["a.test"]), ca.server(&["a.test"]));
        let without = gateway(driver).shards(2).routes_to(&origin);
        for between in [None, Some(without)] {
            let gateway = builder(driver, &origin, &before).start();
            let mut session = tls(&ca, "a.test").connection();
            let mut hello = Vec::new();
            session.write_tls(&mut hello).expect("room for it");
            let (first, rest) = hello.split_at(hello.len() / 2);
            let mut stream = TcpStream::connect(gateway.https_address()).expect("it listens");
            stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
            stream.write_all(first).expect("it reads");
            let changes = between.into_iter().chain([builder(driver, &origin, &after)]);
            for (number, change) in changes.enumerate() {
                gateway.reconfigure(&change);
                gateway.waits_for_applied(number + 2);
            }
            stream.write_all(rest).expect("it reads");
            let mut stream = rustls::Stream::new(&mut session, &mut stream);
            let request = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).expect("a handshake");
            let mut status = [0; 12];
            stream.read_exact(&mut status).expect("a response");
            assert_eq!(&status, b"HTTP/1.1 200");
        }
    }

    fn no_stream_fails_over_two_hundred_rotations(driver) {
        rotate(driver, 200);
    }
}

/// Rotates certificates, each as soon as the previous one is served, under load of short HTTP/1 and
/// HTTP/2 connections and one that persists.
fn rotate(driver: Driver, rotations: usize) {
    let (origin, ca) = (origin(), authority("ca"));
    let pairs: Vec<Credential> = (0..10).map(|_| ca.server(&["a.test"])).collect();
    let gateway = builder(driver, &origin, &pairs[0]).start();
    let over = AtomicBool::new(false);
    let (old, new) = (tls(&ca, "a.test"), tls(&ca, "a.test").offers(&["h2"]));
    // Speaks HTTP/2 over TLS to the gateway, on a new connection each.
    let bridge = into_h2(into_tls(gateway.https_address(), &new));
    std::thread::scope(|scope| {
        let loads = [
            scope.spawn(|| load(&over, || (gateway.tls_client(&old), 5))),
            scope.spawn(|| load(&over, || (client(bridge), 5))),
            scope.spawn(|| load(&over, || (client(bridge), usize::MAX))),
        ];
        let rotating = scope.spawn(|| {
            for nth in 1..=rotations {
                let pair = &pairs[nth % pairs.len()];
                gateway.reconfigure(&builder(driver, &origin, pair));
                waits_until_shown(&gateway, &old.clone().forgetful(), pair);
            }
        });
        let rotated = rotating.join();
        over.store(true, Ordering::Relaxed);
        rotated.expect("every one is shown");
        for load in loads {
            assert!(load.join().expect("no failure") > 0);
        }
    });
}

/// Sends requests until `over`, on connections with this many requests each. Returns the number of
/// responses.
fn load(over: &AtomicBool, connect: impl Fn() -> (Client, usize)) -> usize {
    let mut served = 0;
    while !over.load(Ordering::Relaxed) {
        let (mut client, most) = connect();
        for _ in (0..most).take_while(|_| !over.load(Ordering::Relaxed)) {
            client.gets("/").expects(200);
            served += 1;
        }
    }
    served
}
