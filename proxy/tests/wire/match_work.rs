//! Requests made for expensive regular expressions: they fail, and others match as before.

use super::admin_trace::{events, message, watches};
use super::jwt::asks;
use crate::support::{client, gateway, on_both_drivers, origin};

/// A value that leads `(a|b)*a(a|b){400}` from state to state.
fn made_for_it() -> Vec<String> {
    let mut state = 1_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        if state.is_multiple_of(2) { 'a' } else { 'b' }
    };
    let value: String = (0..16 << 10).map(next).collect();
    vec![format!("X-V: {value}")]
}

on_both_drivers! {
    fn a_request_that_takes_too_much_matching_fails_and_concerns_no_other(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{headers: [{type: RegularExpression, name: x-v, \
                   value: \"(a|b)*a(a|b){400}c\"}]}], backendRefs: [{@origin}]}")
            .rule("{backendRefs: [{@origin}]}")
            .inspected()
            .policy("accessLog: {format: json}")
            .start();
        let mut watcher = watches(&gateway, "?timeout=20s");
        let mut client_of_it = gateway.client();
        let answer = asks(&mut client_of_it, "/", &made_for_it());
        assert_eq!(answer.status(), 500, "{answer}");
        assert_eq!(answer.text(), "comparing this request with the routes takes too much work\n");
        assert_eq!(origin.requests().len(), 0, "no less protected rule serves it");

        let traced = events(&mut watcher);
        assert_eq!(message(&traced, "requestFinished")["reason"], "match_too_costly");
        let text = serde_json::to_string(&traced).expect("JSON");
        assert!(text.contains("more work than a request may"), "{text:.2000}");
        gateway.waits_for_access_log("match_too_costly");
        let metrics = client(gateway.server("metrics")).gets("/metrics").reads();
        assert!(metrics.text().contains("reason=\"match_too_costly\""), "{}", metrics.text());

        // The same connection, and others, are served.
        assert_eq!(asks(&mut client_of_it, "/", &["X-V: ab".to_owned()]).status(), 200);
        assert_eq!(asks(&mut gateway.client(), "/", &[]).status(), 200);
    }
}
