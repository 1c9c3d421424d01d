//! Health checks that do not do what they are configured for, which only proxies see.

use xds::delta::Fact;
use xds::model::Kind;

use crate::server::controller;
use crate::support::{Gateway, Ports, gateway, ok, on_both_drivers, origin, status};

on_both_drivers! {
    /// Otherwise a check that is wrong looks like one that passes.
    fn ignored_health_checks_are_told_to_the_controller_until_they_decide_again(driver) {
        let origins = [(); 2].map(|()| origin().replies_to("/", ok("well")).replies(status(503)));
        let addresses = [origins[0].address(), origins[1].address()];
        let ports = Ports::free(1);
        let controller = controller();
        let check = "healthCheck: {path: /healthz, interval: 1s, unhealthyAfter: 1, healthyAfter: 1}";
        let base = gateway(driver)
            .inspected()
            .backend("shop", &addresses)
            .rule("{backendRefs: [{@shop}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&base.clone().policy_of("Backend/shop", check), &ports);
        let gateway = base.start_with("", &ports);
        controller.waits_until(|seen| !seen.symptoms.is_empty());
        let told = controller.seen().symptoms[0].clone();
        let [symptom] = told.as_slice() else {
            panic!("one policy has them: {told:?}");
        };
        assert_eq!((symptom.key.kind, symptom.fact), (Kind::Policy, Fact::HealthChecksIgnored));
        assert!(symptom.key.key.ends_with("/Backend/default/shop"), "{symptom:?}");
        let text = "Backend/default/shop: less than 30 % of its endpoints pass their health checks";
        assert!(symptom.text.starts_with(text), "{symptom:?}");
        let shown = runtime(&gateway);
        assert!(shown.contains("\"state\":\"Ignored\","), "{shown}");
        assert!(shown.contains(&symptom.text), "in the same words: {shown}");
        gateway.client().gets("/").expects(200);

        for origin in &origins {
            origin.now_replies(ok("well"));
        }
        controller.waits_until(|seen| seen.symptoms.last().is_some_and(Vec::is_empty));
        let shown = runtime(&gateway);
        assert!(!shown.contains("limitedHealthChecks"), "{shown}");
    }
}

/// The runtime part of the dump.
fn runtime(gateway: &Gateway) -> String {
    let mut client = gateway.client_of("admin");
    client.sends("GET /config_dump?type=runtime HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.expects(200).text()
}
