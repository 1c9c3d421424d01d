//! Authorization servers over gRPC (`ext_authz`).

use std::net::SocketAddr;

use super::external_auth::{allow, gateway_with_auth, gateway_with_h2_auth, send_request};
use super::metrics::waits_for_buffers;
use crate::support::{
    Driver, Gate, GatewayBuilder, Origin, Reply, allowing, allowing_with_response_fields,
    authorizer, client, denying, early_authorizer, gateway, into_h2, ok, on_both_drivers, origin,
    pattern, raw, same_bytes, silent_authorizer,
};

/// A gateway with a rule that calls `auth` over gRPC, and then forwards to `app`.
fn gateway_with_grpc_auth(
    driver: Driver,
    auth: SocketAddr,
    app: &Origin,
    fields: &str,
) -> GatewayBuilder {
    let filter = format!("protocol: GRPC, grpc: {{{fields}}}, forwardBody: {{maxSize: 100}}");
    gateway_with_h2_auth(driver, auth, app, &filter)
}

on_both_drivers! {
    fn a_server_cannot_set_lookalikes_of_reserved_fields(driver) {
        let app = origin();
        let fields = "X_Forwarded_For: 10.9.9.9\r\nTransfer_Encoding: chunked\r\nX_User: me\r\n";
        let http = origin().replies(allow(fields));
        gateway_with_auth(driver, &http, &app, "").start().client().gets("/").expects(200);
        let fields = [("X_Forwarded_For", "10.9.9.9"), ("content_length", "9"), ("X_User", "me")];
        let grpc = authorizer(Some(allowing(&fields)));
        gateway_with_grpc_auth(driver, grpc.address(), &app, "").start().client().gets("/").expects(200);
        for got in app.requests() {
            for name in ["x_forwarded_for", "transfer_encoding", "content_length"] {
                assert!(!got.has(name), "{name} in {got}");
            }
            assert_eq!(got.value("x_user"), Some("me"));
        }
        assert_eq!(app.requests().len(), 2);
    }

    fn a_grpc_server_is_called_once_and_edits_the_request(driver) {
        let auth = authorizer(Some(allowing(&[("X-User", "me")])));
        let app = origin().replies(ok("app"));
        let gateway = gateway_with_grpc_auth(driver, auth.address(), &app, "allowedHeaders: [X-Seen, Cookie]").start();
        let mut client = gateway.client();
        for _ in 0..2 {
            send_request(&mut client, "POST", "X-Seen: 1\r\nX-Hidden: 2\r\nX-User: forged\r\n", "body");
            assert_eq!(client.expects(200).text(), "app");
        }
        let auth_request = auth.requests().remove(0);
        assert_eq!((&*auth_request.method, &*auth_request.path, &*auth_request.host), ("POST", "/a/b?c=d", "shop.test"));
        assert_eq!((&*auth_request.scheme, &*auth_request.protocol, auth_request.size), ("http", "HTTP/1.1", 4));
        assert_eq!(auth_request.headers.into_iter().collect::<Vec<_>>(), [("x-seen".to_owned(), "1".to_owned())]);
        assert_eq!(auth_request.raw_body, b"body");
        for got in app.requests() {
            assert_eq!(got.values("x-user"), ["me"]);
            assert_eq!(got.text(), "body");
        }
    }

    fn a_grpc_server_sets_response_fields(driver) {
        let answer = allowing_with_response_fields(&[("Set-Cookie", "seat=1"), ("X-By", "auth"), ("Content-Length", "1")]);
        let auth = authorizer(Some(answer));
        let app = origin().replies(raw("HTTP/1.1 200 OK\r\nX-By: app\r\nX-Own: 1\r\nContent-Length: 3\r\n\r\napp"));
        let gateway = gateway_with_grpc_auth(driver, auth.address(), &app, "").start();
        for address in [gateway.address(), into_h2(gateway.address())] {
            let mut client = client(address);
            send_request(&mut client, "GET", "", "");
            let response = client.expects(200);
            assert_eq!(response.values("set-cookie"), ["seat=1"]);
            assert_eq!(response.values("x-by"), ["auth"]);
            assert_eq!((response.value("x-own"), response.text().as_str()), (Some("1"), "app"));
        }
        assert!(!app.requests()[0].has("set-cookie"), "they are no fields of the request");
    }

    fn a_client_disconnect_cancels_the_authorization_call(driver) {
        let (auth, app) = (silent_authorizer(), origin());
        let gateway = gateway_with_grpc_auth(driver, auth.address(), &app, "").start();
        let mut client = gateway.client();
        send_request(&mut client, "GET", "", "");
        auth.waits_for_call();
        client.resets();
        auth.waits_for_reset();
        gateway.waits_for_access_log("reason=client_gone");
        assert_eq!(app.requests().len(), 0);
    }

    fn a_buffered_body_counts_as_memory_until_it_is_forwarded(driver) {
        let (auth, gate) = (authorizer(Some(allowing(&[]))), Gate::default());
        let app = origin().replies(Reply::at_once().reads_the_body().waits_for(&gate).sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        let gateway = gateway(driver)
            .backend("auth", &[auth.address()])
            .speaks("auth", "H2C")
            .backend("app", &[app.address()])
            .rule(
                "{filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {@auth}, grpc: {}, \
                 forwardBody: {maxSize: 1048576}}}], backendRefs: [{@app}]}",
            )
            .inspected()
            .start();
        let mut client = gateway.client();
        client.posts("/", pattern(1 << 20));
        app.waits_for_complete(1);
        waits_for_buffers(&gateway, |bytes| bytes >= f64::from(1 << 20));
        gate.open();
        client.expects(200);
        waits_for_buffers(&gateway, |bytes| bytes < f64::from(1 << 20));
    }

    fn a_mirror_gets_all_of_a_long_body_that_a_server_reads_first(driver) {
        let (auth, app, copy) = (authorizer(Some(allowing(&[]))), origin(), origin());
        let gateway = gateway(driver)
            .backend("auth", &[auth.address()])
            .speaks("auth", "H2C")
            .backend("app", &[app.address()])
            .backend("copy", &[copy.address()])
            .rule(
                "{filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {@auth}, grpc: {}, \
                 forwardBody: {maxSize: 1048576}}}, {type: RequestMirror, requestMirror: {backendRef: {@copy}}}], \
                 backendRefs: [{@app}]}",
            )
            .start();
        let body = pattern(1 << 20);
        gateway.client().posts("/", &body).expects(200);
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
        let mut client = gateway.client();
        client.sends(head).sends(&body).sends("\r\n0\r\n\r\n").expects(200);
        for message in copy.waits_for_complete(2) {
            same_bytes(&message.body, &body);
        }
    }

    fn a_grpc_server_denies_with_or_without_a_response(driver) {
        let fields = [("WWW-Authenticate", "Basic"), ("Date", "Thu, 01 Jan 1970 00:00:00 GMT")];
        let (auth, app) = (authorizer(Some(denying(401, &fields, "who?"))), origin());
        let gateway = gateway_with_grpc_auth(driver, auth.address(), &app, "").start();
        let mut client = gateway.client();
        let answer = client.gets("/").expects(401);
        assert_eq!(answer.value("www-authenticate"), Some("Basic"));
        assert!(answer.value("date").is_some_and(|date| !date.contains("1970")), "{answer}");
        assert_eq!(answer.text(), "who?");
        auth.now_answers(None);
        client.gets("/").expects(403);
        gateway.waits_for_access_log("reason=external_auth_failed");
        assert_eq!((auth.requests().len(), app.requests().len()), (2, 0));
    }

    fn an_early_denial_is_returned(driver) {
        let (auth, app) = (early_authorizer(denying(401, &[("X-Why", "early")], "who?")), origin());
        let filter = "protocol: GRPC, grpc: {}, forwardBody: {maxSize: 1048576}";
        let gateway = gateway_with_h2_auth(driver, auth.address(), &app, filter).start();
        let mut client = gateway.client();
        for _ in 0..2 {
            let answer = client.posts("/", pattern(1 << 20)).expects(401);
            assert_eq!((answer.value("x-why"), answer.text().as_str()), (Some("early"), "who?"));
        }
        auth.waits_for_reset();
        gateway.waits_for_access_log("reason=external_auth_denied");
        assert!(app.requests().is_empty());
    }

    fn a_denied_grpc_call_gets_a_grpc_status(driver) {
        let (auth, app) = (authorizer(Some(denying(401, &[], "who?"))), origin());
        let gateway = gateway_with_grpc_auth(driver, auth.address(), &app, "").start();
        let mut client = client(into_h2(gateway.address()));
        client.sends("POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n");
        let answer = client.expects(200);
        assert_eq!(answer.value("grpc-status"), Some("16"));
        assert_eq!(app.requests().len(), 0);
    }

    fn too_many_edits_deny_the_request(driver) {
        let edits = vec![("x-more", "1"); 101];
        let (auth, app) = (authorizer(Some(allowing(&edits))), origin());
        let gateway = gateway_with_grpc_auth(driver, auth.address(), &app, "").start();
        gateway.client().gets("/").expects(403);
        gateway.waits_for_access_log("reason=external_auth_failed");
        assert!(app.requests().is_empty());
        auth.now_answers(Some(allowing(&edits[..100])));
        gateway.client().gets("/").expects(200);
    }
}
