//! Inference pools: an endpoint picker selects the pods of a request, and receives the one that
//! served it; and its failures.

use std::net::SocketAddr;
use std::time::Duration;

use super::jwt::{asks, bearer, claims, policy};
use crate::support::{
    Driver, Gateway, GatewayBuilder, Origin, Picker, PickerBehavior, Reply, Signer, chunked,
    gateway, ok, on_both_drivers, origin, out_of_h2, pattern, picker, plain_picker, refused,
    same_bytes, status,
};

pub(super) const ROUTE: &str =
    "{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: models}]}";
const RETRIES: &str = "{retry: {attempts: 2, codes: [503], backoff: 10ms}, \
     backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: models}]}";
const MIRRORED: &str = "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@copy}}}], \
     backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: models}]}";

/// A gateway with a pool whose one pod, this machine, has these ports.
fn pool(driver: Driver, members: &[SocketAddr], asks: SocketAddr, mode: &str) -> GatewayBuilder {
    pool_with(driver, members, asks, mode, "appProtocol: http2")
}

pub(super) fn pool_with(
    driver: Driver,
    members: &[SocketAddr],
    asks: SocketAddr,
    mode: &str,
    port: &str,
) -> GatewayBuilder {
    pool_of(driver, (members, "http"), asks, mode, port)
}

/// As [`pool_with`], for pods that speak this protocol.
pub(super) fn pool_of(
    driver: Driver,
    (members, protocol): (&[SocketAddr], &str),
    asks: SocketAddr,
    mode: &str,
    port: &str,
) -> GatewayBuilder {
    let ports: Vec<String> = members
        .iter()
        .map(|member| format!("{{number: {}}}", member.port()))
        .collect();
    gateway(driver)
        .policy("accessLog: {format: text}")
        .document(&format!(
            "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\n\
             metadata: {{name: models}}\nspec:\n  selector: {{matchLabels: {{app: model}}}}\n  \
             targetPorts: [{}]\n  appProtocol: {protocol}\n  \
             endpointPickerRef: {{name: picker, port: {{number: 9002}}, failureMode: {mode}}}",
            ports.join(", ")
        ))
        .document(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: model-1, labels: {app: model}}\n\
             status: {podIP: 127.0.0.1, conditions: [{type: Ready, status: 'True'}]}",
        )
        .document(&format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: picker}}\n\
             spec: {{clusterIP: 10.96.0.1, ports: [{{port: 9002, {port}}}]}}"
        ))
        .document(&format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: picker-1, labels: {{kubernetes.io/service-name: picker}}}}\n\
             addressType: IPv4\nports: [{{port: {}}}]\nendpoints: [{{addresses: [127.0.0.1]}}]",
            asks.port()
        ))
}

/// Two pods, and a picker that names the second.
fn scene(driver: Driver) -> (Gateway, [Origin; 2], Picker) {
    let pods = [origin(), origin()];
    let members = [pods[0].address(), pods[1].address()];
    let picker = picker(PickerBehavior::Picks(vec![members[1]]));
    let gateway = pool(driver, &members, picker.address(), "FailClose")
        .rule(ROUTE)
        .start();
    (gateway, pods, picker)
}

on_both_drivers! {
    fn a_request_goes_to_the_picked_endpoint(driver) {
        let (gateway, pods, picker) = scene(driver);
        let mut client = gateway.client();
        for _ in 0..5 {
            client.sends("GET /v1/models?a=b HTTP/1.1\r\nHost: a.test\r\nX-Session: 7\r\n\r\n");
            client.expects(200);
        }
        assert!(pods[0].requests().is_empty());
        let requests = pods[1].requests();
        assert_eq!(requests.len(), 5);
        assert_eq!(requests[0].value("x-picked"), Some("yes"));
        assert_eq!(requests[0].value("content-length"), None, "framing is ours");
        let request = &picker.requests()[0];
        assert_eq!(request.field(":method"), Some("GET"));
        assert_eq!(request.field(":path"), Some("/v1/models?a=b"));
        assert_eq!(request.field(":authority"), Some("a.test"));
        assert_eq!(request.field("x-session"), Some("7"), "names are in lower case");
        assert!(request.head_ends && request.pieces == 0);
    }

    fn the_picker_gets_the_served_endpoint_and_edits_the_response_head(driver) {
        let (gateway, pods, picker) = scene(driver);
        pods[1].now_replies(chunked(&["one", "two"]));
        let answer = gateway.client().gets("/").expects(200);
        assert_eq!(answer.text(), "onetwo");
        let served = pods[1].address().to_string();
        assert_eq!(answer.value("x-served-by"), Some(&*served));
        assert_eq!(answer.value("content-type"), Some("text/picked"), "not twice");
        let request = picker.waits_for_response();
        assert_eq!(request.served, Some(("200".to_owned(), served)));
    }

    fn a_body_is_sent_to_the_picker_and_forwarded_unchanged(driver) {
        let (gateway, pods, picker) = scene(driver);
        let body = pattern(300_000);
        let mut client = gateway.client();
        client.posts("/v1/chat", &body).expects(200);
        client.posts("/v1/chat", "short").expects(200);
        client.sends(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        );
        client.expects(200);
        let requests = pods[1].waits_for_complete(3);
        same_bytes(&requests[0].body, &body);
        assert_eq!(requests[1].body, b"short");
        assert_eq!(requests[2].body, b"abc");
        let requests = picker.requests();
        same_bytes(&requests[0].body, &body);
        assert!(requests.iter().all(|request| request.ended && !request.head_ends));
        assert!(requests[0].pieces > 1, "the body is streamed to the picker");
    }

    fn a_mirror_gets_all_of_a_long_body_that_a_picker_reads_first(driver) {
        for protocol in ["HTTP", "H2C"] {
            let (pod, copy) = (origin(), origin());
            let picker = picker(PickerBehavior::Picks(vec![pod.address()]));
            let address = if protocol == "H2C" { out_of_h2(copy.address()) } else { copy.address() };
            let gateway = pool(driver, &[pod.address()], picker.address(), "FailClose")
                .backend("copy", &[address])
                .speaks("copy", protocol)
                .rule(MIRRORED)
                .start();
            let body = pattern(2 << 20);
            gateway.client().posts("/v1/chat", &body).expects(200);
            same_bytes(&pod.waits_for_complete(1)[0].body, &body);
            same_bytes(&copy.waits_for_complete(1)[0].body, &body);
        }
    }

    fn a_picker_may_think_about_a_long_body_for_more_than_a_second(driver) {
        let (gateway, pods, picker) = scene(driver);
        let pause = Duration::from_millis(1200);
        picker.now_behaves(PickerBehavior::PicksLate(vec![pods[1].address()], pause));
        let body = pattern(1 << 20);
        gateway.client().posts("/", &body).expects(200);
        same_bytes(&pods[1].waits_for_complete(1)[0].body, &body);
    }

    fn a_client_that_expects_100_gets_it_before_the_picker(driver) {
        let (gateway, pods, _picker) = scene(driver);
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(client.reads_head().status(), 100);
        client.sends("later").expects(200);
        assert_eq!(pods[1].waits_for_complete(1)[0].body, b"later");
    }

    fn a_body_that_the_picker_replaces_is_sent_instead(driver) {
        let (gateway, pods, picker) = scene(driver);
        picker.now_behaves(PickerBehavior::Replaces(vec![pods[0].address()], "another body"));
        gateway.client().posts("/", "the client's").expects(200);
        let request = &pods[0].waits_for_complete(1)[0];
        assert_eq!(request.body, b"another body");
        assert_eq!(request.value("content-length"), Some("12"));
    }

    fn the_picker_may_respond_itself(driver) {
        let (gateway, pods, picker) = scene(driver);
        picker.now_behaves(PickerBehavior::Answers(429, "{\"error\": \"busy\"}"));
        let mut client = gateway.client();
        let answer = client.gets("/").expects(429);
        assert_eq!(answer.text(), "{\"error\": \"busy\"}");
        assert_eq!(answer.value("content-type"), Some("application/json"));
        client.gets("/").expects(429);
        client.posts("/", pattern(100_000)).expects(429);
        assert!(pods.iter().all(|pod| pod.requests().is_empty()));
    }

    fn a_pickers_own_response_has_cors_fields_and_one_date(driver) {
        let (pod, picker) = (origin(), picker(PickerBehavior::Answers(429, "busy")));
        let gateway = pool(driver, &[pod.address()], picker.address(), "FailClose")
            .rule(
                "{filters: [{type: CORS, cors: {allowOrigins: ['https://a.test']}}], \
                 backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: models}]}",
            )
            .start();
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.test\r\n\r\n");
        let response = client.expects(429);
        assert_eq!(response.value("access-control-allow-origin"), Some("https://a.test"));
        assert!(response.value("date").is_some_and(|date| !date.contains("1970")), "{response}");
    }

    fn picked_endpoints_are_tried_in_order(driver) {
        let (_socket, nobody) = refused();
        let pods = [origin().replies(status(503)), origin()];
        let members = [nobody, pods[0].address(), pods[1].address()];
        let picker = picker(PickerBehavior::Picks(members.to_vec()));
        let gateway = pool(driver, &members, picker.address(), "FailClose")
            .rule(RETRIES)
            .start();
        let answer = gateway.client().posts("/", "once more").expects(200);
        let last = pods[1].address().to_string();
        assert_eq!(answer.value("x-served-by"), Some(&*last));
        assert_eq!(pods[0].requests().len(), 1);
        assert_eq!(pods[1].waits_for_complete(1)[0].body, b"once more");
        assert_eq!(picker.requests().len(), 1, "a picker is called once");
    }

    fn no_other_endpoint_is_tried_after_the_last_picked_one(driver) {
        let pods = [origin().replies(status(503)), origin()];
        let members = [pods[0].address(), pods[1].address()];
        let picker = picker(PickerBehavior::Picks(vec![members[0]]));
        let gateway = pool(driver, &members, picker.address(), "FailClose")
            .rule(RETRIES)
            .start();
        gateway.client().gets("/").expects(503);
        assert_eq!((pods[0].requests().len(), pods[1].requests().len()), (1, 0));
    }

    fn a_failing_picker_rejects_requests_with_fail_close(driver) {
        let (gateway, pods, picker) = scene(driver);
        for says in [PickerBehavior::Fails("13"), PickerBehavior::Names("192.0.2.1:80"), PickerBehavior::Names("")] {
            picker.now_behaves(says.clone());
            let answer = gateway.client().posts("/", pattern(100_000)).expects(503);
            assert!(answer.text().contains("endpoint picker"), "{says:?}");
        }
        gateway.waits_for_access_log("reason=picker_failed");
        assert!(pods.iter().all(|pod| pod.requests().is_empty()));
        picker.now_behaves(PickerBehavior::Picks(vec![pods[0].address()]));
        gateway.client().gets("/").expects(200);
    }

    fn a_failing_picker_is_bypassed_with_fail_open(driver) {
        let pod = origin();
        let picker = picker(PickerBehavior::Fails("14"));
        let gateway = pool(driver, &[pod.address()], picker.address(), "FailOpen")
            .rule(ROUTE)
            .start();
        let body = pattern(200_000);
        let mut client = gateway.client();
        client.posts("/", &body).expects(200);
        same_bytes(&pod.waits_for_complete(1)[0].body, &body);
        picker.now_behaves(PickerBehavior::Names("nonsense"));
        client.posts("/", "short").expects(200);
        client.gets("/").expects(200);
    }

    fn an_unreachable_picker_follows_the_failure_mode(driver) {
        let pod = origin();
        let (_socket, nobody) = refused();
        for (mode, code) in [("FailOpen", 200), ("FailClose", 503)] {
            let gateway = pool(driver, &[pod.address()], nobody, mode).rule(ROUTE).start();
            gateway.client().posts("/", "a body").expects(code);
            gateway.client().gets("/").expects(code);
        }
        assert_eq!(pod.waits_for_complete(2)[0].body, b"a body");
    }

    fn a_session_follows_the_endpoint_that_the_picker_chose(driver) {
        let pods = [origin(), origin()];
        let members = [pods[0].address(), pods[1].address()];
        let picker = picker(PickerBehavior::Picks(vec![members[0]]));
        let rule = ROUTE.replacen('{', "{sessionPersistence: {sessionName: who, type: Cookie}, ", 1);
        let gateway = pool(driver, &members, picker.address(), "FailOpen").rule(&rule).start();
        let mut client = gateway.client();
        let mut ask = |cookie: &str| {
            client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"));
            let set = client.expects(200).value("set-cookie")?.to_owned();
            set.split(';').next().map(str::to_owned)
        };
        let first = ask("other=1").expect("a new session");
        picker.now_behaves(PickerBehavior::Picks(vec![members[1]]));
        let moved = ask(&first).expect("a session at the other endpoint");
        assert_eq!(ask(&moved), None, "it is there already");
        picker.now_behaves(PickerBehavior::Fails("14"));
        for _ in 0..10 {
            assert_eq!(ask(&moved), None, "without a picker, the session decides");
        }
        assert_eq!((pods[0].requests().len(), pods[1].requests().len()), (1, 12));
    }

    fn a_mirror_does_not_learn_the_picked_endpoint(driver) {
        let (pod, copies) = (origin(), [origin(), origin()]);
        let picker = picker(PickerBehavior::Picks(vec![pod.address()]));
        let mirror = |name| format!("{{type: RequestMirror, requestMirror: {{backendRef: {{@{name}}}}}}}");
        let filters = format!("{{filters: [{}, {}], ", mirror("h1"), mirror("h2"));
        let gateway = pool(driver, &[pod.address()], picker.address(), "FailClose")
            .backend("h1", &[copies[0].address()])
            .backend("h2", &[out_of_h2(copies[1].address())])
            .speaks("h2", "H2C")
            .rule(&ROUTE.replacen('{', &filters, 1))
            .start();
        gateway.client().gets("/").expects(200);
        let served = pod.address().to_string();
        assert_eq!(pod.only_request().value("x-gateway-destination-endpoint"), Some(&*served));
        for copy in &copies {
            let got = copy.waits_for_requests(1).remove(0);
            assert!(!got.has("x-gateway-destination-endpoint"), "{got}");
            assert_eq!(got.value("x-picked"), Some("yes"), "other edits are the request's");
        }
    }

    fn a_header_from_a_claim_is_not_edited_by_a_picker(driver) {
        let (pod, signer) = (origin(), Signer::p256());
        let picker = picker(PickerBehavior::Picks(vec![pod.address()]));
        let claims_to_headers = ", claimsToHeaders: [{claim: sub, header: X_Picked}]";
        let gateway = pool(driver, &[pod.address()], picker.address(), "FailClose")
            .rule(ROUTE)
            .policy(&policy("Optional", &signer, claims_to_headers))
            .start();
        let token = bearer(&signer.signs("key", &claims()));
        for (lines, user) in [(&token[..], &["alice"][..]), (&[], &[])] {
            assert_eq!(asks(&mut gateway.client(), "/", lines).status(), 200);
            let got = pod.requests().pop().expect("a request");
            assert_eq!(got.values("x_picked"), user);
            assert!(!got.has("x-picked"), "a backend may take it for the other");
            let served = pod.address().to_string();
            assert_eq!(got.value("x-gateway-destination-endpoint"), Some(&*served));
        }
    }

    fn a_plain_text_picker_can_be_called(driver) {
        let pod = origin();
        let picker = plain_picker(PickerBehavior::Picks(vec![pod.address()]));
        let h2c = "appProtocol: kubernetes.io/h2c";
        let gateway = pool_with(driver, &[pod.address()], picker.address(), "FailClose", h2c)
            .rule(ROUTE)
            .start();
        gateway.client().posts("/", "a body").expects(200);
        assert_eq!(picker.requests()[0].body, b"a body");
    }

    fn a_client_disconnect_cancels_the_call_to_the_picker(driver) {
        let (gateway, pods, picker) = scene(driver);
        picker.now_behaves(PickerBehavior::Nothing);
        let mut client = gateway.client();
        client.gets("/");
        picker.waits_for_call();
        client.resets();
        gateway.waits_for_access_log("status=499");
        picker.now_behaves(PickerBehavior::Picks(vec![pods[0].address()]));
        gateway.client().gets("/").expects(200);
    }

    fn a_body_beyond_the_limit_is_refused(driver) {
        let (gateway, pods, _picker) = scene(driver);
        let mut client = gateway.client();
        let length = 11 << 20;
        client.sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        client.expects(413);
        assert!(pods.iter().all(|pod| pod.requests().is_empty()));
    }

    fn response_header_mutations_leave_the_body_unchanged(driver) {
        let (gateway, pods, _picker) = scene(driver);
        pods[1].now_replies(Reply::at_once().sends(
            "HTTP/1.1 404 Not Found\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\r\ngone",
        ));
        let answer = gateway.client().gets("/").expects(404);
        assert_eq!(answer.text(), "gone");
        assert_eq!(answer.value("content-length"), None, "the picker may alter the body");
        pods[1].now_replies(ok("fine"));
        assert_eq!(gateway.client().gets("/").expects(200).text(), "fine");
    }
}
