//! Backends get their share of requests.

use crate::support::{Origin, gateway, on_both_drivers, origin};

fn request_count(origin: &Origin) -> usize {
    origin.requests().len()
}

on_both_drivers! {
    fn requests_are_shared_by_weight(driver) {
        let (one, three, none) = (origin(), origin(), origin());
        let gateway = gateway(driver)
            .backend("one", &[one.address()])
            .backend("three", &[three.address()])
            .backend("none", &[none.address()])
            .rule("{backendRefs: [{@one, weight: 1}, {@three, weight: 3}, {@none, weight: 0}]}")
            .start();
        let mut client = gateway.client();
        for _ in 0..1000 {
            client.gets("/").expects(200);
        }
        assert_eq!(request_count(&none), 0);
        // Five standard deviations of a fair draw: 5 * sqrt(1000 * 0.25 * 0.75).
        assert!(request_count(&one).abs_diff(250) <= 69, "{} of 1000 for a weight of 1/4", request_count(&one));
        assert_eq!(request_count(&one) + request_count(&three), 1000);
    }

    fn the_share_of_an_invalid_backend_is_500(driver) {
        let good = origin();
        let gateway = gateway(driver)
            .backend("good", &[good.address()])
            .rule("{backendRefs: [{@good}, {group: gateway-system.io, kind: Backend, name: missing}]}")
            .start();
        let mut client = gateway.client();
        let mut failed = 0;
        for _ in 0..200 {
            match client.gets("/").reads().status() {
                200 => {}
                500 => failed += 1,
                other => panic!("{other}"),
            }
        }
        assert!((65..=135).contains(&failed), "{failed} of 200 for half of the weight");
    }

    fn a_rule_with_only_zero_weights_is_500(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{backendRefs: [{@origin, weight: 0}]}")
            .start();
        gateway.client().gets("/").expects(500);
        assert_eq!(request_count(&origin), 0);
    }

    fn every_endpoint_of_a_backend_gets_requests(driver) {
        let origins = [origin(), origin(), origin()];
        let addresses: Vec<_> = origins.iter().map(Origin::address).collect();
        let gateway =
            gateway(driver).backend("all", &addresses).rule("{backendRefs: [{@all}]}").start();
        let mut client = gateway.client();
        for _ in 0..300 {
            client.gets("/").expects(200);
        }
        for origin in &origins {
            // Shares follow latency and load, so they are uneven; but every endpoint gets requests.
            assert!(request_count(origin) > 0, "an endpoint got none of 300");
        }
    }
}
