//! Open connections of listeners whose TLS settings change.

use super::tls_reload::waits_until_shown;
use crate::support::frames::{ACK, GOAWAY, HEADERS, PING, Peer, frame, get};
use crate::support::pki::{Authority, Credential, authority};
use crate::support::{
    Broken, Driver, Gate, Gateway, GatewayBuilder, Origin, Reply, client, gateway, into_tls, ok,
    on_both_drivers, origin, tls, tls_client,
};

/// Client certificates are required.
const VERIFIED: &str = "tls: {frontend: {default: {validation: {caCertificateRefs: \
    [{group: \"\", kind: ConfigMap, name: clients}]}}}}";

const NO_ERROR: u32 = 0;

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

on_both_drivers! {
    fn a_plain_connection_ends_when_its_listener_requires_tls(driver) {
        let (origin, ca) = (origin().replies(ok("served")), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let plain = || gateway(driver).routes_to(&origin);
        let gateway = plain().start();
        let (mut over_h1, mut over_h2) = (gateway.client(), Peer::client(gateway.address()));
        over_h1.sends(GET).expects(200);
        over_h2.sends(get(1));
        assert_eq!(over_h2.next_of(HEADERS).status(), Some(200));
        gateway.reconfigure(&plain().seals("http", &pair));
        gateway.waits_for_applied(2);
        over_h1.sends(GET).expects(421);
        over_h1.expects_close();
        over_h2.sends(get(3));
        over_h2.next_of(GOAWAY);
        assert_eq!(over_h2.next_of(HEADERS).status(), Some(421));
        assert_eq!(origin.requests().len(), 2);
        let mut client = tls_client(gateway.address(), &tls(&ca, "a.test"));
        client.sends(GET).expects(200);
    }

    fn a_plain_connection_ends_when_its_listener_has_no_usable_certificate(driver) {
        let origin = origin().replies(ok("served"));
        let with = |fields| {
            gateway(driver)
                .listener_with("web", fields)
                .backend("origin", &[origin.address()])
                .rule_of("web", "{backendRefs: [{@origin}]}")
        };
        let gateway = with("protocol: HTTP").start();
        let mut open = client(gateway.address_of(1));
        open.sends(GET).expects(200);
        gateway.reconfigure(&with("protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}"));
        gateway.waits_for_applied(2);
        assert_ne!(open.sends(GET).reads().status(), 200);
        open.expects_close();
        assert_eq!(origin.requests().len(), 1);
    }

    fn a_withdrawn_certificate_is_not_used_again(driver) {
        let (origin, ca) = (origin().replies(ok("served")), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let with = https(driver, "web", &pair, &origin);
        for withdrawn in [
            with.clone().without_secret("web-0"),
            with.clone().broken_secret("web-0").without_secret("web-0"),
        ] {
            let gateway = with.clone().start();
            gateway.tls_client(&tls(&ca, "a.test")).sends(GET).expects(200);
            gateway.reconfigure(&withdrawn);
            gateway.waits_for_applied(2);
            assert_rejected_by_alert(&gateway, &ca);
        }
    }

    fn a_broken_secret_keeps_the_previous_pair_until_it_is_withdrawn(driver) {
        let (origin, ca) = (origin().replies(ok("served")), authority("ca"));
        let (pair, next) = (ca.server(&["a.test"]), ca.server(&["a.test"]));
        let with = https(driver, "web", &pair, &origin);
        let gateway = with.clone().start();
        let tls = tls(&ca, "a.test");
        let reports = [
            (with.clone().broken_secret("web-0"), "has no PEM certificate"),
            (with.clone().empty_secret("web-0"), "has no entry `tls.crt`"),
        ];
        for (broken, report) in reports {
            gateway.reconfigure(&broken);
            gateway.waits_for_log(report);
            let mut client = gateway.tls_client(&tls);
            client.sends(GET).expects(200);
            assert!(client.received_certificate(&pair));
        }
        gateway.reconfigure(&with.clone().secret("web-0", &next));
        waits_until_shown(&gateway, &tls, &next);
        gateway.reconfigure(&with.clone().without_secret("web-0"));
        gateway.waits_for_applied(4);
        let never = with.broken_secret("web-0").start();
        for gateway in [&gateway, &never] {
            assert_rejected_by_alert(gateway, &ca);
        }
    }

    fn a_tls_connection_ends_when_its_listener_becomes_plain(driver) {
        let (origin, ca) = (origin().replies(ok("served")), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let plain = || gateway(driver).routes_to(&origin);
        let gateway = plain().seals("http", &pair).start();
        let mut client = tls_client(gateway.address(), &tls(&ca, "a.test"));
        client.sends(GET).expects(200);
        gateway.reconfigure(&plain());
        gateway.waits_for_applied(2);
        client.sends(GET).expects(421);
        client.expects_close();
        gateway.client().sends(GET).expects(200);
    }

    fn an_http_2_connection_over_tls_is_ended_when_its_listener_changes(driver) {
        let ca = authority("ca");
        let (pair, h2) = (ca.server(&["a.test"]), tls(&ca, "a.test").offers(&["h2"]));
        for becomes_plain in [true, false] {
            let origin = origin().replies(ok("served"));
            let plain = || gateway(driver).routes_to(&origin);
            let sealed = || plain().seals("http", &pair);
            let changed = if becomes_plain {
                plain()
            } else {
                sealed().authority("clients", &ca).gateway_field(VERIFIED)
            };
            let gateway = sealed().start();
            let mut client = Peer::client(into_tls(gateway.address(), &h2));
            client.settles().sends(get(1));
            assert_eq!(client.next_of(HEADERS).status(), Some(200));
            let gate = Gate::default();
            let late = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 204 No Content\r\n\r\n");
            origin.now_replies(late);
            client.sends(get(3));
            origin.waits_for_requests(2);
            gateway.reconfigure(&changed);
            gateway.waits_for_applied(2);
            client.sends(get(5));
            assert_eq!(client.next_of(GOAWAY).code(), Some(NO_ERROR));
            let ping = client.next_of(PING);
            let refused = client.next_of(HEADERS);
            assert_eq!((refused.stream, refused.status()), (5, Some(421)));
            // A request that had begun is served.
            gate.open();
            let served = client.next_of(HEADERS);
            assert_eq!((served.stream, served.status()), (3, Some(204)));
            client.sends(frame(PING, ACK, 0, &ping.payload));
            assert_eq!(client.expects_goaway(), NO_ERROR);
            assert_eq!(origin.requests().len(), 2);
        }
    }

    fn a_renamed_listener_keeps_its_connections(driver) {
        let (origin, ca) = (origin().replies(ok("served")), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let named = |name| https(driver, name, &pair, &origin);
        let gateway = named("before").start();
        let mut client = gateway.tls_client(&tls(&ca, "a.test"));
        client.sends(GET).expects(200);
        gateway.reconfigure(&named("after"));
        gateway.waits_for_applied(2);
        client.sends(GET).expects(200);
    }

    fn a_connection_ends_when_its_renamed_listener_trusts_other_clients(driver) {
        let (origin, ca) = (origin().replies(ok("served")), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let named = |name| https(driver, name, &pair, &origin);
        let gateway = named("before").start();
        let mut client = gateway.tls_client(&tls(&ca, "a.test"));
        client.sends(GET).expects(200);
        let strict = named("after").authority("clients", &ca).gateway_field(VERIFIED);
        gateway.reconfigure(&strict);
        gateway.waits_for_applied(2);
        client.sends(GET).expects(421);
        client.expects_close();
        assert_eq!(origin.requests().len(), 1);
    }
}

/// Expects that a handshake for `a.test` is rejected by an alert, without a certificate.
#[track_caller]
fn assert_rejected_by_alert(gateway: &Gateway, ca: &Authority) {
    let broken = gateway.tls_client(&tls(ca, "a.test")).is_refused();
    let is_alert = matches!(&broken, Broken::Tls(why) if why.contains("UnrecognisedName"));
    assert!(is_alert, "{broken:?}\n{}", gateway.log());
}

/// An HTTPS listener of this name, for `a.test`.
fn https(driver: Driver, name: &str, pair: &Credential, origin: &Origin) -> GatewayBuilder {
    gateway(driver)
        .https(name, Some("a.test"), &[pair])
        .backend("origin", &[origin.address()])
        .rule_of(name, "{backendRefs: [{@origin}]}")
}
