//! Optional normalisation of paths.

use crate::support::{Driver, Gateway, Origin, gateway, on_both_drivers, origin};

fn with(driver: Driver, target: &str, options: &str) -> (Gateway, Origin) {
    let origin = origin();
    let gateway = gateway(driver)
        .routes_to(&origin)
        .policy_of(target, &format!("pathOptions: {{{options}}}"))
        .start();
    (gateway, origin)
}

const TARGETS: [&str; 2] = ["Gateway/gw", "Gateway/gw/http"];

on_both_drivers! {
    fn slashes_are_merged(driver) {
        for target in TARGETS {
            let (gateway, origin) = with(driver, target, "mergeSlashes: true");
            gateway.client().gets("/a//b///c?d=//").expects(200);
            assert_eq!(origin.only_request().target(), "/a/b/c?d=//");
        }
    }

    fn escaped_slashes_are_refused(driver) {
        for target in TARGETS {
            let (gateway, origin) = with(driver, target, "escapedSlash: Reject");
            gateway.client().gets("/a%2fb").expects(400);
            assert!(origin.requests().is_empty());
            gateway.client().gets("/a//b?c=%2f").expects(200);
            assert_eq!(origin.only_request().target(), "/a//b?c=%2f");
        }
    }

    fn slashes_are_neither_merged_nor_rejected_by_default(driver) {
        let (gateway, origin) = with(driver, TARGETS[0], "escapedSlash: Keep");
        gateway.client().gets("/a//b%2fc").expects(200);
        assert_eq!(origin.only_request().target(), "/a//b%2Fc");
    }
}
