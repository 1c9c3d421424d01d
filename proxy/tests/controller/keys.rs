//! Remote keys of JWT policies, whose issuers belong to users.

use xds::model::Kind;

use crate::server::controller;
use crate::support::{Ports, Reply, gateway, on_both_drivers, origin, status};

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
}
