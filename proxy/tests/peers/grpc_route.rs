//! GRPCRoute: matching, filters, and calls without a matching rule.

use bytes::Bytes;
use tonic::{Code, Request, Response, Status};

use crate::grpc::{Caller, endpoint};
use crate::grpc_server::GrpcServer;
use crate::support::{Driver, Gateway, gateway, on_both_drivers};

on_both_drivers! {
    fn rules_match_by_method_and_headers(driver) {
        let mut scene = scene(driver, "
  - matches: [{method: {service: echo.Echo, method: Unary}}]
    backendRefs: [{@one}]
  - matches: [{method: {service: echo.Echo, method: Unary}, headers: [{name: x-canary, value: \"yes\"}]}]
    backendRefs: [{@two}]
  - matches: [{method: {type: RegularExpression, method: \"Fa.*\"}}]
    backendRefs: [{@two}]");
        scene.calls("Unary", &[]).expect("an answer");
        assert_eq!(scene.shares(), [1, 0]);
        scene.calls("Unary", &[("x-canary", "yes")]).expect("an answer");
        assert_eq!(scene.shares(), [1, 1]);
        scene.calls("Unary", &[("x-canary", "no")]).expect("an answer");
        assert_eq!(scene.shares(), [2, 1]);
        let status = scene.calls("Fail", &[]).expect_err("it fails");
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(scene.shares(), [2, 2]);
    }

    fn an_unmatched_call_is_unimplemented(driver) {
        let mut scene = scene(driver, "
  - matches: [{method: {service: echo.Echo, method: Unary}}]
    backendRefs: [{@one}]
  - matches: [{method: {service: other.Echo}}]
    backendRefs: [{@two}]");
        for method in ["Fail", "Unar", "Unary2", "unary"] {
            let status = scene.calls(method, &[]).expect_err("no rule has it");
            assert_eq!(status.code(), Code::Unimplemented, "{method}");
        }
        assert_eq!(scene.shares(), [0, 0]);
        scene.calls("Unary", &[]).expect("an answer");
    }

    fn filters_edit_request_and_response_metadata(driver) {
        let mut scene = scene(driver, "
  - filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-rule, value: ours}], remove: [x-secret]}
    - type: ResponseHeaderModifier
      responseHeaderModifier: {add: [{name: x-passed, value: gateway}]}
    backendRefs: [{@one}]");
        let request_metadata = [("x-rule", "theirs"), ("x-secret", "word"), ("x-kept", "so")];
        let answer = scene.calls("Unary", &request_metadata).expect("an answer");
        // The server echoes the metadata.
        let received = |name| answer.metadata().get(name).map(|value| value.as_bytes().to_vec());
        assert_eq!(received("x-rule").as_deref(), Some(&b"ours"[..]));
        assert_eq!(received("x-kept").as_deref(), Some(&b"so"[..]));
        assert_eq!(received("x-secret"), None);
        assert_eq!(received("x-passed").as_deref(), Some(&b"gateway"[..]));
    }

    fn calls_are_shared_by_weight(driver) {
        let mut scene = scene(driver, "
  - backendRefs: [{@one, weight: 1}, {@two, weight: 3}]");
        for _ in 0..400 {
            scene.calls("Unary", &[]).expect("an answer");
        }
        let [one, three] = scene.shares();
        assert_eq!(one + three, 400);
        // Five standard deviations of a fair draw: 5 * sqrt(400 * 0.25 * 0.75).
        assert!(one.abs_diff(100) <= 43, "{one} of 400 for a weight of 1/4");
    }
}

/// A client, the gateway, and two servers.
struct Scene {
    one: GrpcServer,
    two: GrpcServer,
    caller: Caller,
    _gateway: Gateway,
}

/// A GRPCRoute with these rules, of which `@one` and `@two` name the servers.
fn scene(driver: Driver, rules: &str) -> Scene {
    let (one, two) = (GrpcServer::start(None), GrpcServer::start(None));
    let rules = rules.replace('@', "group: gateway-system.io, kind: Backend, name: ");
    let gateway = gateway(driver)
        .backend("one", &[one.address()])
        .backend("two", &[two.address()])
        .speaks("one", "H2C")
        .speaks("two", "H2C")
        .document(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {{name: calls}}\n\
             spec:\n  parentRefs: [{{name: gw}}]\n  rules:{rules}"
        ))
        .start();
    Scene {
        one,
        two,
        caller: Caller::of(&endpoint("http", gateway.address())),
        _gateway: gateway,
    }
}

impl Scene {
    /// A call that has this metadata.
    fn calls(
        &mut self,
        method: &str,
        metadata: &[(&'static str, &str)],
    ) -> Result<Response<Bytes>, Status> {
        let mut request = Request::new(Bytes::from_static(b"hello"));
        for (name, value) in metadata {
            let value = value.parse().expect("text");
            request.metadata_mut().insert(*name, value);
        }
        self.caller.unary(method, request)
    }

    /// How many calls each server has got.
    fn shares(&self) -> [usize; 2] {
        [self.one.calls(), self.two.calls()]
    }
}
