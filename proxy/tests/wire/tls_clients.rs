//! Client certificates: requested by the Gateway's frontend settings, by default and for a port,
//! and accepted if valid or always.

use std::time::{Duration, Instant};

use crate::support::pki::{Authority, Credential, authority, subject};
use crate::support::{
    Broken, Client, Driver, Gateway, GatewayBuilder, MOMENT, Origin, TIMEOUT, Tls, gateway,
    on_both_drivers, origin, tls,
};

const BY_DEFAULT: &str = "tls: {frontend: {default: {validation: {mode: @mode, \
    caCertificateRefs: [{group: \"\", kind: ConfigMap, name: clients}]}}}}";
const BY_PORT: &str = "tls: {frontend: {default: {}, perPort: [{port: @https, tls: {validation: \
    {mode: @mode, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: clients}]}}}]}}";

/// Lifetime of a certificate that expires: enough for some handshakes on a busy machine.
const BRIEFLY: Duration = Duration::from_secs(4);

/// A gateway that requests certificates of `clients`.
struct Scene {
    gateway: Gateway,
    origin: Origin,
    ca: Authority,
    clients: Authority,
}

fn builder(
    driver: Driver,
    origin: &Origin,
    pair: &Credential,
    clients: &Authority,
) -> GatewayBuilder {
    gateway(driver)
        .https("web", None, &[pair])
        .authority("clients", clients)
        .backend("origin", &[origin.address()])
        .rule_of("web", "{backendRefs: [{@origin}]}")
        .policy("accessLog: {format: json}")
        .environment("RUST_LOG", "proxy=debug")
}

impl Scene {
    fn with(driver: Driver, field: &str, mode: &str) -> Self {
        let (origin, ca, clients) = (origin(), authority("ca"), authority("clients"));
        let pair = ca.server(&["a.test"]);
        let gateway = builder(driver, &origin, &pair, &clients)
            .gateway_field(&field.replace("@mode", mode))
            .start();
        Self {
            gateway,
            origin,
            ca,
            clients,
        }
    }

    fn tls(&self) -> Tls {
        tls(&self.ca, "a.test")
    }

    fn shows(&self, pair: &Credential) -> Client {
        self.gateway.tls_client(&self.tls().shows(&self.ca, pair))
    }
}

on_both_drivers! {
    fn a_valid_client_certificate_is_accepted_and_logged(driver) {
        for field in [BY_DEFAULT, BY_PORT] {
            let scene = Scene::with(driver, field, "AllowValidOnly");
            let pair = scene.clients.client("client.test");
            scene.shows(&pair).gets("/").expects(200);
            let line = scene.gateway.waits_for_access_log("client_certificate");
            let fingerprint = xds::model::Der::new(&pair.der()).fingerprint();
            assert!(line.contains(&fingerprint), "{line}");
        }
    }

    fn only_a_valid_client_certificate_is_forwarded(driver) {
        let scene = Scene::with(driver, BY_DEFAULT, "AllowInsecureFallback");
        let pair = scene.clients.signs(&subject(&["client.test"]).of_client().uri("spiffe://a/b"));
        let expected = format!(
            "Hash={};Subject=\"CN=client.test\";URI=spiffe://a/b;DNS=client.test",
            xds::model::Der::new(&pair.der()).fingerprint()
        );
        let stranger = authority("stranger").client("client.test");
        let clients = [
            (scene.shows(&pair), Some(&*expected)),
            (scene.shows(&stranger), None),
            (scene.gateway.tls_client(&scene.tls()), None),
        ];
        for (mut client, expected) in clients {
            // A certificate header of the client is not trusted.
            client.sends("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Client-Cert: Hash=0\r\n\r\n");
            client.expects(200);
            let (requests, _) = scene.origin.take();
            assert_eq!(requests[0].value("x-forwarded-client-cert"), expected);
        }
    }

    fn a_trusted_hops_certificate_header_is_forwarded_unless_the_gateway_verified_one(driver) {
        let (origin, ca, clients) = (origin(), authority("ca"), authority("clients"));
        let gateway = builder(driver, &origin, &ca.server(&["a.test"]), &clients)
            .gateway_field(&BY_DEFAULT.replace("@mode", "AllowInsecureFallback"))
            .policy_of("Gateway/gw", "trustedHops: 1")
            .start();
        let tls = tls(&ca, "a.test");
        let certificate = clients.client("client.test");
        for (tls, own) in [(tls.clone(), true), (tls.shows(&ca, &certificate), false)] {
            let mut client = gateway.tls_client(&tls);
            client.sends("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Client-Cert: Hash=0\r\n\r\n");
            client.expects(200);
            let (requests, _) = origin.take();
            let header = requests[0].value("x-forwarded-client-cert").expect("either");
            assert_eq!(header == "Hash=0", own, "{header}");
        }
    }

    fn enforced_rules_read_the_certificate_that_the_gateway_verified(driver) {
        let (origin, ca, clients) = (origin(), authority("ca"), authority("clients"));
        let known = clients.client("client.test");
        let hash = format!("Hash={}", xds::model::Der::new(&known.der()).fingerprint());
        let own = format!("request.headers['x-forwarded-client-cert'].startsWith('{hash};')");
        let rate = "{name: each, key: [{header: x-forwarded-client-cert}], requests: 2, per: Day}";
        let enforced = format!(
            "precedence: Overrides\n  authorization: {{allow: [{{when: \"{own}\"}}]}}\n  \
             rateLimit: {{rules: [{rate}]}}"
        );
        let gateway = builder(driver, &origin, &ca.server(&["a.test"]), &clients)
            .gateway_field(&BY_DEFAULT.replace("@mode", "AllowInsecureFallback"))
            .policy_of("Gateway/gw", &enforced)
            .start();
        let shows = |pair: &Credential| tls(&ca, "a.test").shows(&ca, pair);
        let stranger = authority("stranger").client("client.test");
        // Whatever the client says of its certificate.
        let forged = format!("X-Forwarded-Client-Cert: {hash};");
        for (tls, header, expected) in [
            (shows(&known), "X-Forwarded-Client-Cert: Hash=0", 200),
            (shows(&clients.client("other.test")), &forged, 403),
            (shows(&stranger), &forged, 403),
            (tls(&ca, "a.test"), &forged, 403),
            (shows(&known), "X-Other: field", 200),
            (shows(&known), "X-Other: field", 429),
        ] {
            let mut client = gateway.tls_client(&tls);
            client.sends(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{header}\r\n\r\n"));
            client.expects(expected);
        }
    }

    fn invalid_and_missing_client_certificates_are_rejected_with_allow_valid_only(driver) {
        let scene = Scene::with(driver, BY_DEFAULT, "AllowValidOnly");
        let stranger = authority("stranger").client("client.test");
        let expired = scene.clients.signs(&subject(&["client.test"]).of_client().expired());
        let server = scene.clients.server(&["client.test"]);
        for pair in [&stranger, &expired, &server] {
            let broken = scene.shows(pair).is_refused();
            assert!(matches!(broken, Broken::Tls(_)), "{broken:?}");
        }
        match scene.gateway.tls_client(&scene.tls()).is_refused() {
            Broken::Tls(alert) => assert!(alert.contains("CertificateRequired"), "{alert}"),
            broken => panic!("{broken:?}"),
        }
        scene.gateway.waits_for_log("the TLS handshake failed");
        assert!(scene.origin.requests().is_empty());
    }

    fn a_ticket_does_not_outlive_its_client_certificate(driver) {
        let strict = Scene::with(driver, BY_DEFAULT, "AllowValidOnly");
        let lenient = Scene::with(driver, BY_DEFAULT, "AllowInsecureFallback");
        let brief = subject(&["client.test"]).of_client().expires_in(BRIEFLY);
        let (pair, fallback) = (strict.clients.signs(&brief), lenient.clients.signs(&brief));
        let clients = [strict.tls(), strict.tls().of_old(&strict.ca)]
            .map(|tls| tls.shows(&strict.ca, &pair));
        for tls in &clients {
            strict.gateway.tls_client(tls).gets("/").expects(200);
            let mut again = strict.gateway.tls_client(tls);
            again.gets("/").expects(200);
            assert!(again.has_resumed());
        }
        let forgiven = lenient.tls().shows(&lenient.ca, &fallback);
        lenient.gateway.tls_client(&forgiven).gets("/").expects(200);
        lenient.gateway.waits_for_access_log("client_certificate");

        let forgetful = strict.tls().shows(&strict.ca, &pair).forgetful();
        let deadline = Instant::now() + TIMEOUT;
        while strict.gateway.tls_client(&forgetful).gets("/").reply_to("GET").is_ok() {
            assert!(Instant::now() < deadline, "it does not expire");
            std::thread::park_timeout(MOMENT);
        }
        for tls in &clients {
            match strict.gateway.tls_client(tls).is_refused() {
                Broken::Tls(alert) => assert!(alert.contains("CertificateExpired"), "{alert}"),
                broken => panic!("{broken:?}"),
            }
        }
        // In the insecure mode, any certificate is accepted as an unverified one.
        let mut unproved = lenient.gateway.tls_client(&forgiven);
        unproved.gets("/last").expects(200);
        assert!(unproved.has_resumed());
        let lines = lenient.gateway.waits_for_access_log("/last");
        assert_eq!(lines.matches("client_certificate").count(), 1, "{lines}");
    }

    fn any_or_no_client_certificate_is_accepted_with_allow_insecure_fallback(driver) {
        for field in [BY_DEFAULT, BY_PORT] {
            let scene = Scene::with(driver, field, "AllowInsecureFallback");
            let stranger = authority("stranger").client("client.test");
            scene.gateway.tls_client(&scene.tls()).gets("/").expects(200);
            scene.shows(&stranger).gets("/").expects(200);
            let valid = scene.clients.client("client.test");
            scene.shows(&valid).gets("/").expects(200);
            let lines = scene.gateway.waits_for_access_log("client_certificate");
            assert_eq!(lines.matches("client_certificate").count(), 1, "none but the valid one");
        }
    }

    fn a_session_without_a_certificate_is_not_resumed_once_one_is_required(driver) {
        let (origin, ca, clients) = (origin(), authority("ca"), authority("clients"));
        let pair = ca.server(&["a.test"]);
        let open = builder(driver, &origin, &pair, &clients);
        let gateway = open.clone().start();
        let tls = tls(&ca, "a.test");
        gateway.tls_client(&tls).gets("/").expects(200);
        let mut early = gateway.tls_client(&tls);
        early.gets("/").expects(200);
        assert!(early.has_resumed());

        let field = BY_DEFAULT.replace("@mode", "AllowValidOnly");
        gateway.reconfigure(&open.gateway_field(&field));
        let deadline = Instant::now() + TIMEOUT;
        // An earlier connection has no client certificate.
        while early.gets("/").reads().status() == 200 {
            assert!(Instant::now() < deadline, "it is still served");
        }
        assert!(matches!(gateway.tls_client(&tls).is_refused(), Broken::Tls(_)));
    }
}
