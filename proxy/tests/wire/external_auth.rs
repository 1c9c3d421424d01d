//! Authorization servers over HTTP, and for listeners: which requests are allowed, and what each
//! side receives.

use std::net::SocketAddr;

use crate::support::pki::{Authority, authority};
use crate::support::{
    Client, ClientCertificates, Driver, Gate, GatewayBuilder, Message, Origin, Reply, client,
    gateway, into_h2, ok, on_both_drivers, origin, out_of_h2, pattern, raw, refused, same_bytes,
    status, tls_origin,
};

/// A gateway that logs requests as text.
fn logging(driver: Driver) -> GatewayBuilder {
    gateway(driver).policy("accessLog: {format: text}")
}

/// A gateway with a rule that calls `auth`, and then forwards to `app`.
pub(super) fn gateway_with_auth(
    driver: Driver,
    auth: &Origin,
    app: &Origin,
    filter: &str,
) -> GatewayBuilder {
    logging(driver)
        .backend("auth", &[auth.address()])
        .backend("app", &[app.address()])
        .rule(&format!(
            "{{filters: [{}], backendRefs: [{{@app}}]}}",
            http(filter)
        ))
}

/// An `ExternalAuth` filter that calls `auth` over HTTP, with further fields.
fn http(fields: &str) -> String {
    let http = if fields.contains("http:") {
        ""
    } else {
        ", http: {}"
    };
    format!(
        "{{type: ExternalAuth, externalAuth: {{protocol: HTTP, backendRef: {{@auth}}{http}{fields}}}}}"
    )
}

/// A gateway with a rule that calls `auth` over HTTP/2, with these fields of the filter.
pub(super) fn gateway_with_h2_auth(
    driver: Driver,
    auth: SocketAddr,
    app: &Origin,
    fields: &str,
) -> GatewayBuilder {
    let filter =
        format!("{{type: ExternalAuth, externalAuth: {{backendRef: {{@auth}}, {fields}}}}}");
    logging(driver)
        .backend("auth", &[auth])
        .speaks("auth", "H2C")
        .backend("app", &[app.address()])
        .rule(&format!("{{filters: [{filter}], backendRefs: [{{@app}}]}}"))
}

pub(super) fn send_request(client: &mut Client, method: &str, fields: &str, body: &str) {
    let length = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    client.sends(format!(
        "{method} /a/b?c=d HTTP/1.1\r\nHost: shop.test\r\n{fields}{length}\r\n{body}"
    ));
}

pub(super) fn allow(fields: &str) -> Reply {
    raw(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/x\r\n{fields}\r\nok"
    ))
}

fn only(origin: &Origin) -> Message {
    origin.only_request()
}

on_both_drivers! {
    fn a_request_allowed_by_the_server_is_forwarded(driver) {
        let (auth, app) = (origin().replies(allow("X-User: me\r\n")), origin().replies(ok("app")));
        let gateway = gateway_with_auth(driver, &auth, &app, ", http: {path: /check, allowedHeaders: [X-Seen]}").start();
        let mut client = gateway.client();
        send_request(&mut client, "POST", "Authorization: Bearer t\r\nX-Seen: 1\r\nX-Hidden: 2\r\nX-User: forged\r\n", "body");
        assert_eq!(client.expects(200).text(), "app");
        let auth_request = only(&auth);
        assert_eq!((auth_request.method(), auth_request.target()), ("POST", "/check/a/b?c=d"));
        assert_eq!(auth_request.value("host"), Some("shop.test"));
        assert_eq!(auth_request.value("authorization"), Some("Bearer t"));
        assert_eq!(auth_request.value("x-seen"), Some("1"));
        assert_eq!(auth_request.value("content-length"), Some("0"));
        assert!(!auth_request.has("x-hidden") && !auth_request.has("x-user"));
        let backend_request = only(&app);
        assert_eq!(backend_request.values("x-user"), ["me"]);
        assert_eq!(backend_request.text(), "body");
        assert!(!backend_request.has("content-type"), "fields of the response's body are not added to the request");
    }

    fn a_denied_request_gets_the_servers_response_and_is_not_forwarded(driver) {
        let login = raw("HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nlogin");
        let (auth, app) = (origin().replies(login), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, "").start();
        let mut client = gateway.client();
        for _ in 0..2 {
            send_request(&mut client, "GET", "", "");
            let answer = client.expects(302);
            assert_eq!(answer.value("location"), Some("/login"));
            assert_eq!(answer.value("content-type"), Some("text/html"));
            assert_eq!(answer.text(), "login");
        }
        assert_eq!(app.requests().len(), 0);
        let log = gateway.waits_for_access_log("reason=external_auth_denied");
        assert!(log.contains(" status=302 "), "{log}");
    }

    fn a_failing_or_unreachable_server_denies_every_request(driver) {
        let app = origin();
        let (_socket, nobody) = refused();
        let broken = origin().replies(status(500));
        let garbled = origin().replies(raw("HTTP/1.1 garbage\r\n\r\n"));
        let quiet = origin().replies(raw(""));
        for address in [nobody, broken.address(), garbled.address(), quiet.address()] {
            let gateway = logging(driver)
                .backend("auth", &[address])
                .backend("app", &[app.address()])
                .rule(&format!("{{filters: [{}], backendRefs: [{{@app}}]}}", http("")))
                .start();
            gateway.client().gets("/").expects(403);
            gateway.waits_for_access_log("reason=external_auth_failed");
        }
        assert_eq!(app.requests().len(), 0);
    }

    fn a_missing_server_denies_every_request(driver) {
        let app = origin();
        let rule = "{filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, \
                    http: {}, backendRef: {name: gone, port: 80}}}], backendRefs: [{@app}]}";
        let gateway = gateway(driver).backend("app", &[app.address()]).rule(rule).start();
        gateway.client().gets("/").expects(403);
        assert_eq!(app.requests().len(), 0);
    }

    fn fields_reserved_for_the_server_are_removed_from_client_requests(driver) {
        let (auth, app) = (origin().replies(allow("X-Other: 1\r\n")), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, ", http: {allowedResponseHeaders: [X-User]}").start();
        let mut client = gateway.client();
        send_request(&mut client, "GET", "X-User: forged\r\nx_user: forged\r\n", "");
        client.expects(200);
        let backend_request = only(&app);
        assert!(!backend_request.has("x-user") && !backend_request.has("x_user") && !backend_request.has("x-other"));
    }

    fn a_server_without_a_list_cannot_set_what_the_gateway_says_about_the_client(driver) {
        let forged = "X-Forwarded-For: 10.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\n\
                      X-Real-IP: 10.9.9.9\r\nForwarded: for=10.9.9.9\r\nX-Request-Id: forged\r\nX-User: me\r\n";
        let (auth, app) = (origin().replies(allow(forged)), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, "").start();
        let mut client = gateway.client();
        send_request(&mut client, "GET", "", "");
        client.expects(200);
        let got = only(&app);
        assert_eq!(got.values("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(got.values("x-forwarded-proto"), ["http"]);
        assert_eq!(got.values("x-forwarded-host"), ["shop.test"]);
        assert!(!got.has("x-real-ip") && !got.has("forwarded"), "{got}");
        assert!(matches!(&got.values("x-request-id")[..], [id] if *id != "forged"), "{got}");
        assert_eq!(got.value("x-user"), Some("me"));
    }

    fn a_body_is_sent_to_the_server_and_to_the_backend(driver) {
        let (auth, app) = (origin().replies(allow("")), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, ", forwardBody: {maxSize: 100000}").start();
        let mut client = gateway.client();
        let long = "0123456789".repeat(9_000);
        for body in ["short", &long] {
            send_request(&mut client, "POST", "", body);
            client.expects(200);
        }
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
            .sends("3\r\ntwo\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        client.expects(200);
        client.expects(200);
        for server in [&auth, &app] {
            let bodies: Vec<String> = server.requests().iter().map(Message::text).collect();
            assert_eq!(bodies, ["short", &long, "onetwo", ""]);
        }
    }

    fn a_body_above_the_limit_for_the_server_is_rejected(driver) {
        let (auth, app) = (origin().replies(allow("")), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, ", forwardBody: {maxSize: 4}").start();
        let mut client = gateway.client();
        send_request(&mut client, "POST", "", "12345");
        client.expects(413);
        gateway.client()
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n")
            .expects(413);
        assert_eq!((auth.requests().len(), app.requests().len()), (0, 0));
    }

    fn a_client_that_expects_100_gets_it_before_authorization(driver) {
        let (auth, app) = (origin().replies(allow("")), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, ", forwardBody: {maxSize: 10}").start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
        client.expects(100);
        client.sends("body").expects(200);
        assert_eq!(only(&app).text(), "body");
    }

    fn servers_are_called_in_order_until_one_denies(driver) {
        let first = origin().replies(allow("X-Step: 1\r\n"));
        let second = origin().replies(allow("X-Step: 2\r\n"));
        let third = origin().replies(status(401));
        let app = origin();
        let filter = |name: &str| format!("{{type: ExternalAuth, externalAuth: {{protocol: HTTP, backendRef: {{@{name}}}, http: {{allowedHeaders: [X-Step]}}}}}}");
        let rule = |filters: &[&str]| {
            let filters: Vec<String> = filters.iter().map(|name| filter(name)).collect();
            format!("{{matches: [{{path: {{value: /{}}}}}], filters: [{}], backendRefs: [{{@app}}]}}", filters.len(), filters.join(", "))
        };
        let gateway = gateway(driver)
            .backend("first", &[first.address()])
            .backend("second", &[second.address()])
            .backend("third", &[third.address()])
            .backend("app", &[app.address()])
            .rule(&rule(&["first", "second"]))
            .rule(&rule(&["first", "third", "second"]))
            .start();
        let mut client = gateway.client();
        client.gets("/2").expects(200);
        assert_eq!(only(&second).values("x-step"), ["1"], "it sees what the first one granted");
        assert_eq!(only(&app).values("x-step"), ["2"]);
        client.gets("/3").expects(401);
        assert_eq!((second.requests().len(), app.requests().len()), (1, 1));
    }

    fn a_listeners_server_is_called_before_routing_and_its_fields_are_matched(driver) {
        let auth = origin().replies(allow("X-Role: admin\r\nHost: evil.test\r\n"));
        let (users, admins) = (origin().replies(ok("user")), origin().replies(ok("admin")));
        let gateway = gateway(driver)
            .backend("auth", &[auth.address()])
            .backend("users", &[users.address()])
            .backend("admins", &[admins.address()])
            .listener_with("asking", &format!("protocol: HTTP, filters: {{requests: [{}]}}", http("").replace("{@auth}", "{group: gateway-system.io, kind: Backend, name: auth}")))
            .rule_of("asking", "{matches: [{headers: [{name: X-Role, value: user}]}], backendRefs: [{@users}]}")
            .rule_of("asking", "{matches: [{headers: [{name: X-Role, value: admin}]}], backendRefs: [{@admins}]}")
            .start();
        let mut client = client(gateway.address_of(1));
        send_request(&mut client, "GET", "X-Role: user\r\n", "");
        assert_eq!(client.expects(200).text(), "admin");
        let backend_request = only(&admins);
        assert_eq!(backend_request.values("host"), ["shop.test"]);
        assert_eq!(backend_request.values("x-role"), ["admin"]);
        assert_eq!(users.requests().len(), 0);
    }

    fn a_request_denied_at_the_listener_reaches_no_route(driver) {
        let auth = origin().replies(status(401));
        let app = origin();
        let gateway = logging(driver)
            .backend("auth", &[auth.address()])
            .backend("app", &[app.address()])
            .listener_with("asking", &format!("protocol: HTTP, filters: {{requests: [{}]}}", http("").replace("{@auth}", "{group: gateway-system.io, kind: Backend, name: auth}")))
            .rule_of("asking", "{backendRefs: [{@app}]}")
            .start();
        let mut client = client(gateway.address_of(1));
        client.gets("/").expects(401);
        assert_eq!(app.requests().len(), 0);
        let log = gateway.waits_for_access_log("reason=external_auth_denied");
        assert!(!log.contains(" route="), "{log}");
    }

    fn a_client_disconnect_cancels_the_authorization_request(driver) {
        let (gate, app) = (Gate::default(), origin());
        let auth = origin().replies(Reply::at_once().waits_for(&gate).sends("HTTP/1.1 200 OK\r\n\r\n"));
        let gateway = gateway_with_auth(driver, &auth, &app, "").start();
        let mut client = gateway.client();
        send_request(&mut client, "GET", "", "");
        auth.waits_for_requests(1);
        client.resets();
        // Long before the server's timeout, and not counted as its failure.
        let log = gateway.waits_for_access_log("reason=client_gone");
        assert!(log.contains(" status=499 "), "{log}");
        assert_eq!(app.requests().len(), 0);
    }

    fn a_request_keeps_its_rule_while_the_server_decides(driver) {
        for (status, expected) in [("200 OK", 200), ("401 Unauthorized", 401)] {
            let (gate, old, new) = (Gate::default(), origin().replies(ok("old")), origin().replies(ok("new")));
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            let auth = origin().replies(Reply::at_once().waits_for(&gate).sends(answer));
            let gateway = gateway_with_auth(driver, &auth, &old, "").start();
            let mut client = gateway.client();
            client.gets("/");
            auth.waits_for_requests(1);
            // The server and the backend are removed from the configuration.
            let later = logging(driver).backend("app", &[new.address()]).rule("{backendRefs: [{@app}]}");
            gateway.reconfigure(&later);
            gateway.waits_for_applied(2);
            assert_eq!(gateway.client().gets("/").expects(200).text(), "new");
            gate.open();
            let answer = client.expects(expected);
            assert_eq!(old.requests().len(), usize::from(expected == 200), "{answer}");
            assert_eq!(client.gets("/").expects(200).text(), "new");
        }
    }

    fn an_untrusted_authorization_server_denies_every_request(driver) {
        let (old, new) = (authority("ca"), authority("ca"));
        let (auth, app) = (tls_origin(&old.server(&["a.test"]), ClientCertificates::Nobody), origin());
        let trusting = |ca: &Authority| {
            let validation = "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";
            gateway_with_auth(driver, &auth, &app, "").authority("ca", ca).backend_tls("auth", validation)
        };
        let gateway = trusting(&old).start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        gateway.reconfigure(&trusting(&new));
        gateway.waits_for_applied(2);
        for _ in 0..3 {
            client.gets("/").expects(403);
            gateway.client().gets("/").expects(403);
        }
        assert_eq!((auth.requests().len(), app.requests().len()), (1, 1));
    }

    fn a_denial_is_framed_by_the_gateway_alone(driver) {
        for (method, denial, text) in [
            ("HEAD", "Content-Length: 43\r\n\r\n", ""),
            ("GET", "Transfer-Encoding: chunked\r\nTrailer: a\r\n\r\n2\r\nno\r\n0\r\na: b\r\n\r\n", "no"),
            ("GET", "Connection: x-a\r\nX-A: 1\r\nKeep-Alive: timeout=1\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nno", "no"),
        ] {
            let denial = format!("HTTP/1.1 401 Unauthorized\r\nX-Why: because\r\n{denial}");
            let (auth, app) = (origin().replies(Reply::at_once().sends(denial)), origin());
            let gateway = gateway_with_auth(driver, &auth, &app, "").start();
            let mut client = gateway.client();
            for _ in 0..3 {
                client.sends(format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
                let answer = client.reads_reply_to(method);
                assert_eq!((answer.status(), &*answer.text()), (401, text), "{answer}");
                assert_eq!(answer.value("x-why"), Some("because"), "{answer}");
                assert!(answer.values("content-length").len() < 2, "{answer}");
                for name in ["transfer-encoding", "trailer", "keep-alive", "upgrade"] {
                    assert!(!answer.has(name), "{name}: {answer}");
                }
            }
            assert!(app.requests().is_empty());
        }
    }

    fn an_early_response_is_used_and_its_connection_is_not_reused(driver) {
        let early = "HTTP/1.1 200 OK\r\nX-User: me\r\nContent-Length: 0\r\n\r\n";
        let auth = origin().replies(Reply::at_once().sends(early).resets());
        let app = origin();
        let gateway = gateway_with_auth(driver, &auth, &app, ", forwardBody: {maxSize: 1048576}").start();
        let body = pattern(1 << 20);
        let mut client = gateway.client();
        for number in 1..4 {
            client.posts("/", &body).expects(200);
            assert_eq!(auth.connections(), number);
        }
        let requests = app.requests();
        assert_eq!(requests.len(), 3);
        same_bytes(&requests[2].body, &body);
        assert_eq!(requests[2].value("x-user"), Some("me"));
    }

    fn an_early_denial_is_returned(driver) {
        let (gate, app) = (Gate::default(), origin());
        let early = "HTTP/1.1 401 Unauthorized\r\nX-Why: early\r\nContent-Length: 4\r\n\r\nwho?";
        let body = pattern(1 << 20);
        let auth = origin().replies(Reply::at_once().sends(early).waits_for(&gate));
        let filter = "protocol: HTTP, http: {}, forwardBody: {maxSize: 1048576}";
        for h2 in [false, true] {
            let gateway = if h2 {
                gateway_with_h2_auth(driver, out_of_h2(auth.address()), &app, filter).start()
            } else {
                gateway_with_auth(driver, &auth, &app, ", forwardBody: {maxSize: 1048576}").start()
            };
            let answer = gateway.client().posts("/", &body).expects(401);
            assert_eq!((answer.value("x-why"), answer.text().as_str()), (Some("early"), "who?"));
        }
        gate.open();
        assert!(app.requests().is_empty());
    }

    fn an_http_server_may_speak_http_2(driver) {
        let (auth, app) = (origin().replies(allow("X-User: me\r\n")), origin());
        let filter = http(", http: {path: /check}, forwardBody: {maxSize: 10}");
        let gateway = gateway(driver)
            .backend("auth", &[out_of_h2(auth.address())])
            .speaks("auth", "H2C")
            .backend("app", &[app.address()])
            .rule(&format!("{{filters: [{filter}], backendRefs: [{{@app}}]}}"))
            .start();
        let mut client = gateway.client();
        send_request(&mut client, "POST", "", "body");
        client.expects(200);
        let auth_request = only(&auth);
        assert_eq!((auth_request.target(), &*auth_request.text()), ("/check/a/b?c=d", "body"));
        assert_eq!(only(&app).values("x-user"), ["me"]);
    }

    fn an_http_2_request_with_a_body_is_authorized_and_forwarded(driver) {
        let (auth, app) = (origin().replies(allow("")), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, ", forwardBody: {maxSize: 10}").start();
        let mut client = client(into_h2(gateway.address()));
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n");
        client.expects(200);
        assert_eq!(only(&auth).text(), "body");
        assert_eq!(only(&app).text(), "body");
    }

    fn filters_of_a_backend_may_call_a_server(driver) {
        let (auth, app) = (origin().replies(status(401)), origin());
        let rule = |path: &str, backends: &str| format!("{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{backends}]}}");
        let gateway = gateway(driver)
            .backend("auth", &[auth.address()])
            .backend("app", &[app.address()])
            .rule(&rule("/free", "{@app}"))
            .rule(&rule("/asks", &format!("{{@app, filters: [{}]}}", http(""))))
            .start();
        gateway.client().gets("/free").expects(200);
        gateway.client().gets("/asks").expects(401);
        assert_eq!((auth.requests().len(), app.requests().len()), (1, 1));
    }

    fn a_preflight_is_answered_without_authorization(driver) {
        let (auth, app) = (origin().replies(status(401)), origin());
        let gateway = gateway(driver)
            .backend("auth", &[auth.address()])
            .backend("app", &[app.address()])
            .rule(&format!(
                "{{filters: [{}, {{type: CORS, cors: {{allowOrigins: ['https://a.test']}}}}], backendRefs: [{{@app}}]}}",
                http("")
            ))
            .start();
        let mut client = gateway.client();
        client.sends("OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.test\r\nAccess-Control-Request-Method: GET\r\n\r\n");
        client.reads_reply_to("OPTIONS");
        assert_eq!(auth.requests().len(), 0);
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.test\r\n\r\n");
        let refused = client.expects(401);
        assert_eq!(refused.value("access-control-allow-origin"), Some("https://a.test"));
    }

    fn a_slow_server_denies_every_request(driver) {
        let (auth, app) = (origin().replies(raw("").stalls()), origin());
        let gateway = gateway(driver)
            .backend("auth", &[auth.address()])
            .backend("app", &[app.address()])
            .rule(&format!("{{filters: [{}], timeouts: {{request: 200ms}}, backendRefs: [{{@app}}]}}", http("")))
            .start();
        gateway.client().gets("/").expects(403);
        assert_eq!(app.requests().len(), 0);
    }

    fn a_flood_of_interim_responses_denies_the_request(driver) {
        let flood = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(17);
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let (auth, app) = (origin().replies(raw(flood + answer)), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, "").start();
        gateway.client().gets("/").expects(403);
        gateway.waits_for_access_log("reason=external_auth_failed");
        assert!(app.requests().is_empty());
    }

    fn verdicts_are_counted_and_traced(driver) {
        let (auth, app) = (origin().replies_once(status(401)).replies(allow("")), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, "").inspected().start();
        gateway.client().gets("/").expects(401);
        gateway.client().gets("/").expects(200);
        let metrics = gateway.client_of("metrics").gets("/metrics").expects(200).text();
        for (result, count) in [("allowed", 1), ("denied", 1), ("failed", 0)] {
            let line = format!("gateway_external_auth_results_total{{result=\"{result}\"}} {count}");
            assert!(metrics.contains(&line), "{line} in {metrics}");
        }
    }
}
