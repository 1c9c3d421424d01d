//! TLS to backends: verification, client certificates, and failed handshakes. Nothing is ever sent
//! in plain text to a backend with a policy.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::metrics::waits_for_count;
use crate::support::frames::{HEADERS, Peer, before_frames};
use crate::support::pki::{Authority, Credential, authority, subject};
use crate::support::{
    ClientCertificates, Driver, Gateway, GatewayBuilder, Origin, Reply, gateway, ok,
    on_both_drivers, origin, out_of_tls, pattern, same_bytes, tls_origin,
};

const BY_HOSTNAME: &str =
    "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";

fn builder(driver: Driver, origin: &Origin, ca: &Authority, validation: &str) -> GatewayBuilder {
    gateway(driver)
        .authority("ca", ca)
        .routes_to(origin)
        .backend_tls("origin", validation)
        .policy("accessLog: {format: json}")
        .environment("RUST_LOG", "proxy=debug")
}

/// A gateway that trusts `ca`, and a backend with the certificate `pair`.
fn scene(driver: Driver, ca: &Authority, pair: &Credential, validation: &str) -> (Gateway, Origin) {
    let origin = tls_origin(pair, ClientCertificates::Nobody);
    (builder(driver, &origin, ca, validation).start(), origin)
}

/// The status of a request, and the logged failure.
#[track_caller]
fn fails_with(gateway: &Gateway, origin: &Origin, reason: &str) {
    let answer = gateway.client().gets("/").expects(503);
    assert!(answer.text().contains("TLS"), "{answer}");
    gateway.waits_for_access_log(&format!("\"reason\":\"{reason}\""));
    assert!(origin.requests().is_empty());
}

/// Expects that a request has failed for this reason, twice: an unsent one is retried once.
#[track_caller]
fn waits_for_two_failures(gateway: &Gateway, cause: &str) {
    let label = format!("reason=\"{cause}\"");
    waits_for_count(gateway, "gateway_upstream_tls_failures_total", &label, 2.0);
}

/// A gateway that uses HTTP/2 over TLS to its backend.
fn over_http_2(driver: Driver, ca: &Authority, backend: SocketAddr) -> Gateway {
    gateway(driver)
        .authority("ca", ca)
        .backend("origin", &[backend])
        .speaks("origin", "H2C")
        .backend_tls("origin", BY_HOSTNAME)
        .rule("{backendRefs: [{@origin}]}")
        .policy("accessLog: {format: json}")
        .environment("RUST_LOG", "proxy=debug")
        .inspected()
        .start()
}

/// A `BackendTLSPolicy` of this spec.
fn tls_policy(spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\n\
         metadata: {{name: strict}}\nspec: {{{spec}}}"
    )
}

/// The method and scheme of a request to a backend.
fn method_and_scheme(listener: &TcpListener, gateway: &Gateway) -> [u8; 2] {
    let mut client = gateway.client();
    client.gets("/");
    let head = Peer::server(listener).next_of(HEADERS).payload;
    *head.first_chunk().expect("two fields")
}

// Of HPACK's static table (RFC 7541 appendix A).
const INDEXED_GET: u8 = 0x82;
const INDEXED_HTTP: u8 = 0x86;
const INDEXED_HTTPS: u8 = 0x87;

on_both_drivers! {
    fn a_backend_is_reached_over_tls(driver) {
        let ca = authority("ca");
        let (gateway, origin) = scene(driver, &ca, &ca.server(&["a.test"]), BY_HOSTNAME);
        let mut client = gateway.client();
        client.gets("/1").expects(200);
        client.gets("/2").expects(200);
        let handshakes = origin.handshakes();
        assert_eq!(handshakes.len(), 1, "connections are kept as ever");
        assert_eq!(handshakes[0].sni.as_deref(), Some("a.test"));
        assert_eq!(handshakes[0].protocol.as_deref(), Some("http/1.1"));
        assert_eq!(handshakes[0].certificate, None);
    }

    fn bodies_of_every_size_are_forwarded_both_ways(driver) {
        let ca = authority("ca");
        let (gateway, origin) = scene(driver, &ca, &ca.server(&["a.test"]), BY_HOSTNAME);
        let mut client = gateway.client();
        for size in [1, 16_384, 65_536, 1_000_000] {
            let body = pattern(size);
            origin.now_replies(ok(&body));
            same_bytes(&client.posts("/", &body).expects(200).body, &body);
            let (mut requests, _) = origin.take();
            same_bytes(&requests.remove(0).body, &body);
        }
    }

    fn a_session_with_a_backend_is_resumed(driver) {
        let ca = authority("ca");
        let (gateway, origin) = scene(driver, &ca, &ca.server(&["a.test"]), BY_HOSTNAME);
        let close = ok("ok").closes();
        origin.next_replies([close.clone(), close]);
        gateway.client().gets("/1").expects(200);
        gateway.client().gets("/2").expects(200);
        gateway.client().gets("/3").expects(200);
        let handshakes = origin.handshakes();
        assert!(handshakes.len() > 1);
        assert!(!handshakes[0].resumed);
        assert!(handshakes[1..].iter().all(|handshake| handshake.resumed));
    }

    fn a_backend_with_the_wrong_certificate_gets_no_request(driver) {
        let (ca, stranger) = (authority("ca"), authority("stranger"));
        for (pair, why, cause) in [
            (ca.server(&["b.test"]), "NotValidForName", "other_name"),
            (stranger.server(&["a.test"]), "UnknownIssuer", "untrusted"),
            (ca.signs(&subject(&["a.test"]).expired()), "expired", "expired"),
        ] {
            let origin = tls_origin(&pair, ClientCertificates::Nobody);
            let gateway = builder(driver, &origin, &ca, BY_HOSTNAME).inspected().start();
            fails_with(&gateway, &origin, "upstream_tls");
            gateway.waits_for_log(why);
            waits_for_two_failures(&gateway, cause);
        }
    }

    fn a_backend_that_does_not_negotiate_http_2_gets_no_request(driver) {
        let ca = authority("ca");
        let pair = ca.server(&["a.test"]);
        let speaks: [(&'static [&'static str], _); 2] =
            [(&["http/1.1"], "NoApplicationProtocol"), (&[], "did not agree to the required protocol")];
        for (protocols, why) in speaks {
            let origin = origin();
            let gateway = over_http_2(driver, &ca, out_of_tls(origin.address(), &pair, protocols));
            fails_with(&gateway, &origin, "upstream_tls");
            gateway.waits_for_log(why);
            waits_for_two_failures(&gateway, "no_protocol");
        }
    }

    fn the_scheme_of_http_2_requests_is_that_of_the_connection(driver) {
        let ca = authority("ca");
        let (listener, gateway) = before_frames(driver);
        assert_eq!(method_and_scheme(&listener, &gateway), [INDEXED_GET, INDEXED_HTTP]);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let sealed = out_of_tls(address, &ca.server(&["a.test"]), &["h2"]);
        let gateway = over_http_2(driver, &ca, sealed);
        assert_eq!(method_and_scheme(&listener, &gateway), [INDEXED_GET, INDEXED_HTTPS]);
    }

    fn the_scheme_of_a_mirrored_request_is_that_of_its_connection(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("origin", &[origin.address()])
            .backend("copy", &[out_of_tls(address, &ca.server(&["a.test"]), &["h2"])])
            .speaks("copy", "H2C")
            .backend_tls("copy", BY_HOSTNAME)
            .rule(
                "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@copy}}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        assert_eq!(method_and_scheme(&listener, &gateway), [INDEXED_GET, INDEXED_HTTPS]);
    }

    fn the_certificate_must_match_one_of_the_subject_alt_names(driver) {
        let ca = authority("ca");
        let names = format!(
            "{BY_HOSTNAME}, subjectAltNames: [{{type: Hostname, hostname: b.test}}, \
             {{type: URI, uri: \"spiffe://a/b\"}}]"
        );
        for pair in [
            ca.server(&["b.test"]),
            ca.signs(&subject(&["other.test"]).uri("spiffe://a/b")),
        ] {
            let (gateway, origin) = scene(driver, &ca, &pair, &names);
            gateway.client().gets("/").expects(200);
            assert_eq!(origin.handshakes()[0].sni.as_deref(), Some("a.test"));
        }
        for pair in [
            ca.server(&["a.test"]),
            ca.signs(&subject(&["other.test"]).uri("spiffe://a/c")),
        ] {
            let (gateway, origin) = scene(driver, &ca, &pair, &names);
            fails_with(&gateway, &origin, "upstream_tls");
        }
    }

    fn a_backend_is_verified_with_the_system_roots(driver) {
        let (ca, stranger) = (authority("ca"), authority("stranger"));
        let origin = tls_origin(&ca.server(&["a.test"]), ClientCertificates::Nobody);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let trusting = |authority: &Authority| {
            let file = folder.path().join("roots.pem");
            std::fs::write(&file, authority.pem()).expect("a file in our own folder");
            gateway(driver)
                .routes_to(&origin)
                .backend_tls("origin", "hostname: a.test, wellKnownCACertificates: System")
                .policy("accessLog: {format: json}")
                .environment("SSL_CERT_FILE", file.to_str().expect("its name is text"))
                .environment("SSL_CERT_DIR", "")
                .environment("RUST_LOG", "proxy=debug")
                .start()
        };
        let gateway = trusting(&stranger);
        fails_with(&gateway, &origin, "upstream_tls");
        gateway.waits_for_log("upstream TLS handshake failed");
        trusting(&ca).client().gets("/").expects(200);
        assert_eq!(origin.handshakes()[0].sni.as_deref(), Some("a.test"));
    }

    fn an_xbackend_uses_its_own_tls_settings_or_those_of_a_policy(driver) {
        let ca = authority("ca");
        let (pair, own, gateways) = (ca.server(&["a.test"]), ca.client("own.test"), ca.client("gateway.test"));
        let origin = tls_origin(&pair, ClientCertificates::For(&ca));
        let to_pods = |name: &str| format!(
            "{{matches: [{{path: {{value: /{name}}}}}], \
             backendRefs: [{{group: gateway.networking.x-k8s.io, kind: XBackend, name: {name}}}]}}"
        );
        let pods = |name: &str, tls: &str| format!(
            "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: {{name: {name}}}\n\
             spec: {{type: EndpointSelector, port: {{number: {}}}, endpointSelector: {{matchLabels: {{app: a}}}}, tls: {tls}}}",
            origin.address().port()
        );
        let mutual = format!(
            "{{mode: ClientAndServer, clientCertificateRef: {{name: own}}, validation: {{{BY_HOSTNAME}}}}}"
        );
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .secret("own", &own)
            .secret("gateways", &gateways)
            .gateway_field("tls: {backend: {clientCertificateRef: {name: gateways}}}")
            .rule(&to_pods("mutual"))
            .rule(&to_pods("policy"))
            .document(&pods("mutual", &mutual))
            .document(&pods("policy", "{mode: None}"))
            .document(&format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: policy}}\n\
                 spec:\n  targetRefs: [{{group: gateway.networking.x-k8s.io, kind: XBackend, name: policy}}]\n  \
                 validation: {{{BY_HOSTNAME}}}"
            ))
            .document(
                "apiVersion: v1\nkind: Pod\nmetadata: {name: a-1, labels: {app: a}}\n\
                 status: {podIP: 127.0.0.1, conditions: [{type: Ready, status: 'True'}]}",
            )
            .start();
        gateway.client().gets("/mutual").expects(200);
        gateway.client().gets("/policy").expects(200);
        let handshakes = origin.handshakes();
        let certificates: Vec<_> = handshakes.iter().map(|it| it.certificate.as_deref()).collect();
        assert_eq!(certificates, [Some(&*own.der()), Some(&*gateways.der())]);
    }

    fn a_backend_that_requests_a_certificate_gets_the_gateways(driver) {
        let ca = authority("ca");
        let (pair, own) = (ca.server(&["a.test"]), ca.client("gateway.test"));
        let origin = tls_origin(&pair, ClientCertificates::For(&ca));
        let bare = builder(driver, &origin, &ca, BY_HOSTNAME).inspected();
        let shows = |pair: &Credential| {
            let shown = bare.clone().secret("own", pair);
            shown.gateway_field("tls: {backend: {clientCertificateRef: {name: own}}}").start()
        };
        // In TLS 1.3 the alert arrives instead of its first response.
        let stranger = authority("stranger").client("gateway.test");
        for (gateway, why) in [
            (bare.clone().start(), "CertificateRequired"),
            (shows(&stranger), "UnknownCA"),
        ] {
            fails_with(&gateway, &origin, "upstream_tls");
            gateway.waits_for_log(why);
            waits_for_two_failures(&gateway, "distrusted");
            let answer = gateway.client().posts("/", "body").expects(503);
            assert!(answer.text().contains("TLS"), "{answer}");
        }

        let gateway = shows(&own);
        gateway.client().gets("/").expects(200);
        let last = origin.handshakes().pop().expect("a handshake");
        assert_eq!(last.certificate.as_deref(), Some(&*own.der()));
    }

    fn a_backend_without_tls_gets_no_request(driver) {
        let ca = authority("ca");
        let plain = origin();
        let gateway = builder(driver, &plain, &ca, BY_HOSTNAME).inspected().start();
        gateway.client().gets("/").expects(503);
        gateway.waits_for_access_log("\"reason\":\"upstream_tls\"");
        waits_for_two_failures(&gateway, "broken");
        assert!(plain.take().0.is_empty());
    }

    fn an_unusable_policy_fails_every_request(driver) {
        let ca = authority("ca");
        let plain = origin();
        let nobody = BY_HOSTNAME.replace("name: ca", "name: nobody");
        let gateway = builder(driver, &plain, &ca, &nobody).start();
        fails_with(&gateway, &plain, "upstream_tls_unset");
        assert_eq!(plain.connections(), 0);
    }

    fn a_connection_opened_before_a_policy_is_not_reused_after_it(driver) {
        let ca = authority("ca");
        let plain = origin();
        let before = gateway(driver).authority("ca", &ca).routes_to(&plain);
        let gateway = before.clone().start();
        gateway.client().gets("/").expects(200);
        gateway.reconfigure(&before.backend_tls("origin", BY_HOSTNAME));
        let deadline = std::time::Instant::now() + crate::support::TIMEOUT;
        while gateway.client().gets("/").reads().status() == 200 {
            assert!(std::time::Instant::now() < deadline, "it is still used");
        }
    }

    fn connections_and_sessions_are_not_reused_after_a_stricter_policy(driver) {
        let (ca, other) = (authority("ca"), authority("ca"));
        let origin = tls_origin(&ca.server(&["a.test"]), ClientCertificates::Nobody);
        let good = builder(driver, &origin, &ca, BY_HOSTNAME);
        let gateway = good.clone().start();
        let mut persistent = gateway.client();
        let mut version = 1;
        for stricter in [
            builder(driver, &origin, &other, BY_HOSTNAME),
            builder(driver, &origin, &ca, &BY_HOSTNAME.replace("a.test", "b.test")),
            builder(driver, &origin, &ca, &BY_HOSTNAME.replace("name: ca", "name: nobody")),
        ] {
            persistent.gets("/").expects(200);
            gateway.client().gets("/").expects(200);
            let served = origin.requests().len();
            gateway.reconfigure(&stricter);
            gateway.waits_for_applied(version + 1);
            for client in [&mut persistent, &mut gateway.client()] {
                client.gets("/").expects(503);
                client.gets("/").expects(503);
            }
            assert_eq!(origin.requests().len(), served);
            gateway.reconfigure(&good);
            version += 2;
            gateway.waits_for_applied(version);
        }
    }

    fn an_unfinished_handshake_times_out(driver) {
        let ca = authority("ca");
        let silent = origin().on_accept(Reply::at_once().stalls());
        let gateway = builder(driver, &silent, &ca, BY_HOSTNAME)
            .limits("connectTimeout: 300ms")
            .start();
        gateway.client().gets("/").expects(503);
        gateway.waits_for_access_log("\"reason\":\"connect_timeout\"");
    }

    fn a_truncated_response_is_reported_as_broken(driver) {
        let ca = authority("ca");
        let (gateway, origin) = scene(driver, &ca, &ca.server(&["a.test"]), BY_HOSTNAME);
        // Its length shows that it is truncated, or without a length only the missing close_notify.
        for head in ["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
            origin.now_replies(Reply::at_once().reads_the_body().sends(head).sends("half").cuts());
            gateway.client().gets("/").expects_broken_response();
        }
        origin.now_replies(
            Reply::at_once().reads_the_body().sends("HTTP/1.1 200 OK\r\n\r\nall").closes());
        assert_eq!(gateway.client().gets("/").expects(200).text(), "all");
    }

    fn an_invalid_backend_tls_policy_sends_no_plain_text_to_its_targets(driver) {
        let origin = origin();
        let open = gateway(driver).routes_to(&origin);
        let good = "targetRefs: [{group: gateway-system.io, kind: Backend, name: origin}]";
        let system = "validation: {wellKnownCACertificates: System, hostname: a.test}";
        for spec in [
            format!("{good}, validation: {{wellKnownCACertificates: System}}"),
            format!("{good}, validation: {{hostname: a.test}}"),
            format!("{good}, validtion: {{wellKnownCACertificates: System, hostname: a.test}}"),
            format!("targetRefs: [{{kind: Backend, name: origin}}], {system}"),
            format!("targetRefs: [{{group: gateway-system.io, kind: backend, name: origin, sectionName: 1}}], {system}"),
            format!("targetRef: {{group: gateway-system.io, kind: Backend, name: origin}}, {system}"),
            format!("targetRefs: [{{group: gateway-system.io, kind: Backend}}], {system}"),
            system.to_owned(),
        ] {
            let policy = tls_policy(&spec);
            let at_first = open.clone().document(&policy).start();
            at_first.client().gets("/").expects(503);
            let later = open.clone().start();
            later.client().gets("/").expects(200);
            later.reconfigure(&open.clone().document(&policy));
            later.waits_for_applied(2);
            later.client().gets("/").expects(503);
            assert_eq!(origin.take().0.len(), 1, "{spec}");
        }
    }

    fn a_duplicate_backend_tls_policy_sends_no_plain_text_to_its_targets(driver) {
        let (first, second) = (origin(), origin());
        let policy = |target: &str| {
            tls_policy(&format!(
                "targetRefs: [{{group: gateway-system.io, kind: Backend, name: {target}}}], \
                 validation: {{wellKnownCACertificates: System, hostname: a.test}}"
            ))
        };
        let gateway = gateway(driver)
            .backend("first", &[first.address()])
            .backend("second", &[second.address()])
            .rule("{matches: [{path: {value: /first}}], backendRefs: [{@first}]}")
            .rule("{backendRefs: [{@second}]}")
            .document(&policy("first"))
            .document(&policy("second"))
            .start();
        gateway.waits_for_log("until then nothing is sent to its targets");
        for path in ["/first", "/second"] {
            gateway.client().gets(path).expects(503);
        }
        // The first one received a TLS handshake, which it does not understand.
        assert_eq!(second.requests().len(), 0);
    }
}
