//! Which forwarding headers are trusted: none, those of the last hops, or those of some networks.

use crate::support::{Driver, Message, gateway, on_both_drivers, origin};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\n\
    X-Forwarded-Proto: https\r\nX-Request-Id: theirs\r\n\r\n";

/// A request with forwarding headers, as the origin receives it.
fn forwarded_request(driver: Driver, target: &str, policy: &str) -> Message {
    let origin = origin();
    let gateway = gateway(driver)
        .routes_to(&origin)
        .policy_of(target, policy)
        .policy("accessLog: {format: json}")
        .start();
    gateway.client().sends(REQUEST).expects(200);
    let request = origin.only_request();
    let client = match request.value("x-forwarded-proto") {
        Some("https") => "203.0.113.7",
        _ => "127.0.0.1",
    };
    gateway.waits_for_access_log(&format!("\"client\":\"{client}\""));
    request
}

on_both_drivers! {
    fn forwarding_headers_of_trusted_hops_are_used(driver) {
        for target in ["Gateway/gw", "Gateway/gw/http"] {
            for policy in ["trustedHops: 1", "trustedSources: [127.0.0.0/8]"] {
                let request = forwarded_request(driver, target, policy);
                assert_eq!(request.value("x-forwarded-for"), Some("203.0.113.7, 127.0.0.1"));
                assert_eq!(request.value("x-forwarded-proto"), Some("https"));
                assert_eq!(request.value("x-request-id"), Some("theirs"));
            }
        }
    }

    fn forwarding_headers_of_other_peers_are_replaced(driver) {
        for policy in ["trustedSources: [10.0.0.0/8]", "limits: {}"] {
            let request = forwarded_request(driver, "Gateway/gw", policy);
            assert_eq!(request.value("x-forwarded-for"), Some("127.0.0.1"));
            assert_eq!(request.value("x-forwarded-proto"), Some("http"));
            assert_ne!(request.value("x-request-id"), Some("theirs"));
        }
    }
}
