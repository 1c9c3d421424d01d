//! Endpoints that fail too often are ejected for a while, and retries are limited, as the policy
//! says.

use std::time::Duration;

use crate::support::{
    Client, Driver, Gateway, Origin, gateway, ok, on_both_drivers, origin, status,
};

/// Sessions keep their endpoint while it is in service, so they show when it is ejected.
struct Scene {
    gateway: Gateway,
    origins: [Origin; 2],
}

impl Scene {
    fn with(driver: Driver, target: &str, ejection: &str) -> Self {
        let origins = [origin().replies(ok("0")), origin().replies(ok("1"))];
        let gateway = gateway(driver)
            .backend("both", &[origins[0].address(), origins[1].address()])
            .rule(
                "{sessionPersistence: {sessionName: X-Who, type: Header}, backendRefs: [{@both}]}",
            )
            .policy_of(target, &format!("ejection: {{{ejection}}}"))
            .start();
        Self { gateway, origins }
    }

    /// Begins a session and breaks its endpoint. The session's client and its request.
    fn session_at_a_broken_endpoint(&self) -> (Client, String) {
        let mut client = self.gateway.client();
        let first = client.gets("/").expects(200);
        let endpoint: usize = first.text().parse().expect("a number");
        self.origins[endpoint].now_replies(status(503));
        let token = first.value("x-who").expect("a token");
        (
            client,
            format!("GET / HTTP/1.1\r\nHost: a\r\nX-Who: {token}\r\n\r\n"),
        )
    }
}

on_both_drivers! {
    fn an_endpoint_with_consecutive_failures_is_ejected(driver) {
        for target in ["Gateway/gw", "Backend/both"] {
            let scene = Scene::with(driver, target, "consecutiveFailures: 2");
            let (mut client, request) = scene.session_at_a_broken_endpoint();
            client.sends(&request).expects(503);
            client.sends(&request).expects(503);
            client.sends(&request).expects(200);
        }
    }

    fn an_ejected_endpoint_returns_after_the_ejection_time(driver) {
        let scene = Scene::with(driver, "Gateway/gw", "consecutiveFailures: 1, base: 3s, max: 3s");
        let (mut client, request) = scene.session_at_a_broken_endpoint();
        client.sends(&request).expects(503);
        client.sends(&request).expects(200);
        client.expects_silence_for(Duration::from_millis(3_200));
        client.sends(&request).expects(503);
    }

    fn only_a_limited_share_of_a_service_is_ejected(driver) {
        let scene = Scene::with(driver, "Gateway/gw", "consecutiveFailures: 1, maxPercent: 0");
        let (mut client, request) = scene.session_at_a_broken_endpoint();
        for _ in 0..5 {
            client.sends(&request).expects(503);
        }
    }

    fn a_retry_budget_of_zero_allows_no_retries(driver) {
        for (target, budget, answer) in [
            ("Gateway/gw", "percent: 0, floor: 0", 503),
            ("Backend/origin", "percent: 0, floor: 0", 503),
            ("Gateway/gw", "percent: 0, floor: 1", 200),
        ] {
            let origin = origin().replies_once(status(503));
            let gateway = gateway(driver)
                .backend("origin", &[origin.address()])
                .rule("{retry: {attempts: 2, codes: [503], backoff: 1ms}, backendRefs: [{@origin}]}")
                .policy_of(target, &format!("retryBudget: {{{budget}}}"))
                .start();
            gateway.client().gets("/").expects(answer);
        }
    }
}
