//! Certificates of listeners that are withdrawn or broken: the resource is accepted, so that nothing
//! keeps what its owner took back.

use xds::model::Kind;

use crate::server::controller;
use crate::support::pki::authority;
use crate::support::{Broken, Ports, gateway, ok, on_both_drivers, origin, tls};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

on_both_drivers! {
    fn a_withdrawn_certificate_is_not_used_again(driver) {
        let (origin, ca) = (origin().replies(ok("served")), authority("ca"));
        let pair = ca.server(&["a.test"]);
        let ports = Ports::free(2);
        let controller = controller();
        let base = gateway(driver)
            .https("web", Some("a.test"), &[&pair])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&base, &ports);
        let gateway = base.start_with("", &ports);
        let tls = tls(&ca, "a.test");
        gateway.tls_client(&tls).sends(GET).expects(200);

        controller.publish(&base.clone().broken_secret("web-0"), &ports);
        gateway.waits_for_applied(2);
        let mut client = gateway.tls_client(&tls);
        client.sends(GET).expects(200);
        assert!(client.received_certificate(&pair), "a mistake keeps it");

        controller.publish(&base.clone().without_secret("web-0"), &ports);
        gateway.waits_for_applied(3);
        let broken = gateway.tls_client(&tls).is_refused();
        let is_alert = matches!(&broken, Broken::Tls(why) if why.contains("UnrecognisedName"));
        assert!(is_alert, "{broken:?}\n{}", gateway.log());
        controller.waits_until(|seen| seen.accepted_of(Kind::Listener) == 3);
        assert!(controller.seen().refused.is_empty());
    }
}
