//! Selection of the listener and the certificate by server name, and requests for the host of
//! another listener.

use crate::support::pki::{Authority, Credential, authority, subject};
use crate::support::{
    Broken, Client, Driver, Gateway, Message, Origin, gateway, ok, on_both_drivers, origin, tls,
};

/// Listeners of one port for `a.test`, `*.wild.test`, `*.very.wild.test` and every other name, each
/// with an origin that responds with the listener's name.
struct Scene {
    gateway: Gateway,
    ca: Authority,
    pairs: Vec<Credential>,
    _origins: Vec<Origin>,
}

const HOSTS: [(&str, Option<&str>); 4] = [
    ("exact", Some("a.test")),
    ("wild", Some("*.wild.test")),
    ("wilder", Some("*.very.wild.test")),
    ("any", None),
];

impl Scene {
    fn new(driver: Driver, listeners: usize) -> Self {
        let ca = authority("ca");
        let mut builder = gateway(driver).environment("RUST_LOG", "proxy=debug");
        let (mut pairs, mut origins) = (Vec::new(), Vec::new());
        for (name, host) in HOSTS.into_iter().take(listeners) {
            let pair = ca.server(&[host.unwrap_or("other.test"), "shared.test"]);
            let origin = origin().replies(ok(name));
            builder = builder
                .https(name, host, &[&pair])
                .backend(name, &[origin.address()])
                .rule_of(name, &format!("{{backendRefs: [{{@{name}}}]}}"));
            pairs.push(pair);
            origins.push(origin);
        }
        Self {
            gateway: builder.start(),
            ca,
            pairs,
            _origins: origins,
        }
    }

    fn client(&self, name: &str) -> Client {
        self.gateway.tls_client(&tls(&self.ca, name))
    }

    /// The response to a request for `host` over a connection for `sni`.
    fn asks(&self, sni: &str, host: &str) -> Message {
        let mut client = self.client(sni);
        client.sends(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.reads()
    }
}

on_both_drivers! {
    fn the_most_specific_listener_wins(driver) {
        let scene = Scene::new(driver, 4);
        for (name, listener) in [
            ("a.test", "exact"),
            ("b.wild.test", "wild"),
            ("b.very.wild.test", "wilder"),
            ("other.test", "any"),
        ] {
            assert_eq!(scene.asks(name, name).text(), listener, "for {name}");
        }
        let mut client = scene.client("b.wild.test");
        client.completes_handshake();
        assert!(client.received_certificate(&scene.pairs[1]));
    }

    fn a_client_without_a_server_name_gets_the_catch_all_listener(driver) {
        let scene = Scene::new(driver, 4);
        let mut client = scene.gateway.tls_client(&tls(&scene.ca, "other.test").without_sni());
        client.completes_handshake();
        assert!(client.received_certificate(&scene.pairs[3]));
    }

    fn an_unknown_name_is_refused_with_an_alert(driver) {
        let scene = Scene::new(driver, 3);
        for mut client in [
            scene.client("nobody.test"),
            scene.gateway.tls_client(&tls(&scene.ca, "a.test").without_sni()),
        ] {
            let broken = client.is_refused();
            assert!(matches!(&broken, Broken::Tls(why) if why.contains("UnrecognisedName")), "{broken:?}");
        }
        scene.gateway.waits_for_log("no listener serves the name");
    }

    fn a_host_of_another_listener_is_misdirected(driver) {
        let scene = Scene::new(driver, 4);
        for (sni, host) in [
            ("a.test", "b.wild.test"),
            ("b.wild.test", "a.test"),
            ("b.wild.test", "b.very.wild.test"),
            ("other.test", "a.test"),
            ("a.test", "nobody.test"),
        ] {
            assert_eq!(scene.asks(sni, host).status(), 421, "{host} requested over {sni}");
        }
        // The connection is fine.
        let mut client = scene.client("a.test");
        client.sends("GET / HTTP/1.1\r\nHost: b.wild.test\r\n\r\n").expects(421);
        client.sends("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").expects(200);
    }

    fn an_unknown_host_is_not_found(driver) {
        let scene = Scene::new(driver, 3);
        assert_eq!(scene.asks("a.test", "nobody.test").status(), 404);
        assert_eq!(scene.asks("b.wild.test", "c.wild.test").text(), "wild", "one listener has both");
    }

    fn one_listener_has_several_certificates(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let first = ca.signs(&subject(&["first.test"]).ed25519());
        let second = ca.server(&["second.test", "*.wild.test"]);
        let gateway = gateway(driver)
            .https("web", None, &[&first, &second])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .start();
        for (name, pair) in
            [("first.test", &first), ("second.test", &second), ("any.wild.test", &second)]
        {
            let mut client = gateway.tls_client(&tls(&ca, name));
            client.gets("/").expects(200);
            assert!(client.received_certificate(pair), "{name}");
        }
    }

    fn a_listener_without_a_certificate_still_reserves_its_hostname(driver) {
        let (ca, lax, own) = (authority("ca"), origin().replies(ok("lax")), origin().replies(ok("own")));
        let pair = ca.server(&["*.wild.test"]);
        let secret = "protocol: HTTPS, hostname: secret.wild.test, tls: {certificateRefs: [{name: own}]}";
        let without = || {
            gateway(driver)
                .https("lax", Some("*.wild.test"), &[&pair])
                .listener_beside("lax", "own", secret)
                .backend("lax", &[lax.address()])
                .backend("own", &[own.address()])
                .rule_of("lax", "{backendRefs: [{@lax}]}")
                .rule_of("own", "{backendRefs: [{@own}]}")
        };
        let gateway = without().start();
        let client = |name| gateway.tls_client(&tls(&ca, name));
        let ask = "GET / HTTP/1.1\r\nHost: secret.wild.test\r\n\r\n";
        client("secret.wild.test").is_refused();
        client("b.wild.test").sends(ask).expects(421);
        gateway.reconfigure(&without().secret("own", &pair));
        gateway.waits_for_applied(2);
        let mut open = client("secret.wild.test");
        assert_eq!(open.sends(ask).expects(200).text(), "own");
        // It loses its certificate while a connection is open.
        gateway.reconfigure(&without());
        gateway.waits_for_applied(3);
        open.sends(ask).expects(421);
        client("secret.wild.test").is_refused();
        client("b.wild.test").sends(ask).expects(421);
        assert!(lax.requests().is_empty());
        assert_eq!(own.requests().len(), 1);
    }
}
