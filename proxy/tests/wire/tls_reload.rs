//! TLS across changes of the configuration: certificates rotate without a dropped connection, and
//! tickets stay good where what a client proved still counts.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::pki::{Authority, Credential, authority};
use crate::support::{
    Driver, Gateway, GatewayBuilder, Origin, PATIENCE, Tls, gateway, on_both_drivers, origin, tls,
};

fn builder(driver: Driver, origin: &Origin, pair: &Credential) -> GatewayBuilder {
    gateway(driver)
        .shards(2)
        .https("web", None, &[pair])
        .backend("origin", &[origin.address()])
        .rule_of("web", "{backendRefs: [{@origin}]}")
}

/// Waits until new connections are shown a certificate.
#[track_caller]
fn waits_until_shown(gateway: &Gateway, tls: &Tls, pair: &Credential) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !gateway.tls_client(tls).shakes_hands().was_shown(pair) {
        assert!(
            std::time::Instant::now() < deadline,
            "the old certificate is still shown"
        );
    }
}

/// A client whose first connection has left it a ticket.
fn known(gateway: &Gateway, ca: &Authority) -> Tls {
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
    fn a_session_is_taken_up_on_any_shard(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let gateway = builder(driver, &origin, &pair).start();
        let tls = known(&gateway, &ca);
        for _ in 0..8 {
            assert!(resumes(&gateway, &tls));
        }
        let old = tls.of_old(&ca);
        gateway.tls_client(&old).gets("/").expects(200);
        assert!(resumes(&gateway, &old));
    }

    fn a_ticket_is_good_after_a_reload(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let (before, after) = (ca.server(&["a.test"]), ca.server(&["a.test"]));
        let gateway = builder(driver, &origin, &before).start();
        let tls = known(&gateway, &ca);
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
        assert!(client.was_shown(&before));
    }

    fn no_request_fails_while_certificates_rotate(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let pairs: Vec<Credential> = (0..10).map(|_| ca.server(&["a.test"])).collect();
        let gateway = builder(driver, &origin, &pairs[0]).start();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..2).map(|_| scope.spawn(|| {
                let tls = tls(&ca, "a.test");
                let mut served = 0;
                while !over.load(Ordering::Relaxed) {
                    let mut client = gateway.tls_client(&tls);
                    for _ in 0..5 {
                        client.gets("/").expects(200);
                        served += 1;
                    }
                }
                served
            })).collect();
            for pair in &pairs[1..] {
                gateway.reconfigure(&builder(driver, &origin, pair));
                waits_until_shown(&gateway, &tls(&ca, "a.test").forgetful(), pair);
            }
            over.store(true, Ordering::Relaxed);
            let served: i32 = clients.into_iter().map(|client| client.join().expect("no failure")).sum();
            assert!(served > 0);
        });
    }
}
