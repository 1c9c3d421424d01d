//! Remote keys of JWT policies, whose issuers belong to users.

use xds::delta::{Fact, Symptom};
use xds::model::Kind;

use crate::server::controller;
use crate::support::{Ports, Reply, gateway, key_set, ok, on_both_drivers, origin, status};

on_both_drivers! {
    fn a_hanging_issuer_delays_no_change_of_others(driver) {
        let (app, changed) = (origin(), origin().replies(status(204)));
        let stalled = origin().replies(Reply::at_once().stalls());
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver)
            .inspected()
            .backend("app", &[app.address()])
            .backend("changed", &[changed.address()])
            .rule("{name: closed, matches: [{path: {value: /closed}}], backendRefs: [{@app}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&base.clone().rule("{backendRefs: [{@app}]}"), &ports);
        let gateway = base.start_with("", &ports);
        let policy = format!(
            "jwt: {{providers: [{{name: idp, issuer: 'https://issuer.test', \
             jwks: {{remote: {{url: 'http://{}/keys'}}}}}}]}}",
            stalled.address()
        );
        let after = base.clone().rule("{backendRefs: [{@changed}]}");
        controller.publish(&after.policy_of("HTTPRoute/route-0/closed", &policy), &ports);
        gateway.waits_for_applied(2);
        gateway.client().gets("/").expects(204);
        gateway.client().gets("/closed").expects(401);
        controller.waits_until(|seen| seen.accepted_of(Kind::Policy) >= 2);
        assert!(!gateway.log().contains("applied before all keys are fetched"), "{}", gateway.log());
    }

    /// Otherwise all conditions of the policy are True, and every request with a token gets 503.
    fn keys_that_cannot_be_fetched_are_told_to_the_controller_until_they_can(driver) {
        let app = origin();
        let keys = origin().replies(status(500));
        let ports = Ports::free(1);
        let mut controller = controller();
        let policy = format!(
            "jwt: {{providers: [{{name: idp, issuer: 'https://issuer.test', \
             jwks: {{remote: {{url: 'http://{}/keys?access_token=password'}}}}}}]}}",
            keys.address()
        );
        let base = gateway(driver).inspected().routes_to(&app)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&base.clone().policy(&policy), &ports);
        let gateway = base.start_with("", &ports);
        controller.waits_until(|seen| !seen.symptoms.is_empty());
        let told = controller.seen().symptoms[0].clone();
        let [symptom] = told.as_slice() else {
            panic!("one policy has them: {told:?}");
        };
        assert_eq!((symptom.key.kind, symptom.fact), (Kind::Policy, Fact::KeysNotFetched));
        assert!(symptom.key.key.starts_with("TrafficPolicy/default/"), "{symptom:?}");
        assert!(symptom.text.contains("`idp`") && symptom.text.contains("status 500"), "{symptom:?}");
        assert!(!symptom.text.contains("password"), "{symptom:?}");

        // Another controller knows nothing.
        controller.seen().symptoms.clear();
        controller.stop();
        controller.start(None);
        controller.waits_until(|seen| seen.symptoms.iter().any(|told| !told.is_empty()));
        keys.now_replies(ok(key_set(&[])));
        controller.waits_until(|seen| seen.symptoms.last().is_some_and(Vec::is_empty));
        gateway.client().gets("/").expects(401);
    }

    fn a_controller_of_the_release_before_is_told_nothing(driver) {
        let app = origin();
        let keys = origin().replies(status(500));
        let ports = Ports::free(1);
        let controller = controller();
        controller.states_no_features();
        let policy = format!(
            "jwt: {{providers: [{{name: idp, issuer: 'https://issuer.test', \
             jwks: {{remote: {{url: 'http://{}/keys'}}}}}}]}}",
            keys.address()
        );
        let base = gateway(driver).inspected().routes_to(&app)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        let with_policy = base.clone().policy(&policy);
        controller.publish(&with_policy, &ports);
        let gateway = base.clone().start_with("", &ports);
        keys.waits_for_requests(3);
        // A response to a later request would come after symptoms.
        controller.publish(&with_policy.rule("{name: later, backendRefs: [{@origin}]}"), &ports);
        gateway.waits_for_applied(2);
        controller.waits_until(|seen| seen.accepted_of(Kind::Route) >= 2);
        assert_eq!(controller.seen().symptoms, Vec::<Vec<Symptom>>::new());
    }
}
