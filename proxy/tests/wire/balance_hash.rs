//! Requests that are spread by hash: those with the same key go to the same endpoint.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::admin_trace::{events, watches};
use super::jwt::{asks, bearer, claims, policy};
use super::metrics::count;
use crate::support::session::{Session, ask};
use crate::support::{
    Client, Driver, Gate, GatewayBuilder, Origin, Reply, Signer, gateway, ok, on_both_drivers,
    on_every_pair, origin, status,
};

const NAMES: [&str; 3] = ["a", "b", "c"];
const BY_SESSION: &str = "balance: {hash: {by: [{header: mcp-session-id}]}}";

fn origins() -> Vec<Origin> {
    NAMES.map(|name| origin().replies(ok(name))).into()
}

fn addresses(origins: &[Origin]) -> Vec<SocketAddr> {
    origins.iter().map(Origin::address).collect()
}

/// A gateway that spreads requests over these origins.
fn gateway_to(driver: Driver, origins: &[Origin], balance: &str) -> GatewayBuilder {
    gateway(driver)
        .backend("all", &addresses(origins))
        .rule("{backendRefs: [{@all}]}")
        .policy_of("Backend/all", balance)
}

fn session(number: usize) -> String {
    format!("Mcp-Session-Id: {number}")
}

/// The origin of a request with a field.
fn of(client: &mut Client, field: &str) -> String {
    ask(client, field).text()
}

/// Sends requests until each origin has got one. Returns how many.
#[track_caller]
fn until_all_are_used(client: &mut Client, field: &str) -> u32 {
    let mut used = BTreeSet::new();
    for number in 1..=2_000 {
        used.insert(of(client, field));
        if used.len() == NAMES.len() {
            return number;
        }
    }
    panic!("only {used:?} get requests");
}

/// The origin of a session.
fn named<'a>(origins: &'a [Origin], name: &str) -> &'a Origin {
    let at = NAMES.iter().position(|own| *own == name);
    &origins[at.expect("one of the origins")]
}

on_every_pair! {
    /// An MCP client's streams and its requests reach the same server, although the gateway does not know MCP.
    fn requests_of_a_session_go_to_the_same_endpoint(pair) {
        let origins = origins();
        let gateway = pair
            .backend(pair.gateway(), "all", &addresses(&origins))
            .rule("{backendRefs: [{@all}]}")
            .policy_of("Backend/all", BY_SESSION)
            .shards(2)
            .start();
        let mut used = BTreeSet::new();
        for number in 0..20 {
            let first = of(&mut pair.client(&gateway), &session(number));
            let mut client = pair.client(&gateway);
            for _ in 0..3 {
                assert_eq!(of(&mut client, &session(number)), first);
            }
            used.insert(first);
        }
        assert_eq!(used.len(), 3, "{used:?}");
    }
}

on_both_drivers! {
    fn a_request_without_a_key_is_balanced(driver) {
        let origins = origins();
        let gateway = gateway_to(driver, &origins, BY_SESSION).inspected().start();
        let mut client = gateway.client();
        let requests = until_all_are_used(&mut client, "X-A: b");
        // An empty value is none.
        let requests = requests + until_all_are_used(&mut client, "Mcp-Session-Id:");
        of(&mut client, &session(1));
        let results = ["own", "next", "no_key"].map(|result| {
            count(&gateway, "gateway_hash_results_total", &format!("result=\"{result}\"")).to_string()
        });
        assert_eq!(results, ["1", "0", &requests.to_string()]);
    }

    fn the_first_key_of_a_request_counts(driver) {
        let origins = origins();
        let by = "balance: {hash: {by: [{header: x-room}, {query: room}, {cookie: room}, {clientAddress: {}}]}}";
        let gateway = gateway_to(driver, &origins, by).start();
        let mut client = gateway.client();
        let mut of = |target: &str, lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            asks(&mut client, target, &lines).text()
        };
        let by_address = of("/", &[]);
        let mut differs = false;
        for room in ["red", "green", "blue+sky", "white", "black", "grey"] {
            let by_header = of("/", &[&format!("X-Room: {room}"), "Cookie: room=other"]);
            assert_eq!(of("/?room=other", &[&format!("X-Room: {room}")]), by_header);
            // The same text in another place has the same endpoint; a parameter is decoded.
            let query = format!("/?a=b&room={}", room.replace('+', "%2B").replace('e', "%65"));
            assert_eq!(of(&query, &["X-Room:"]), by_header, "{query}");
            assert_eq!(of("/?room=", &[&format!("Cookie: a=b; room={room}")]), by_header);
            differs |= by_header != by_address;
        }
        assert!(differs);
        assert_eq!(of("/?room=", &["Cookie: room="]), by_address);
    }

    fn a_claim_is_a_key(driver) {
        let (origins, signer) = (origins(), Signer::p256());
        let by = "balance: {hash: {by: [{claim: sub}]}}";
        let gateway = gateway_to(driver, &origins, by).policy(&policy("Strict", &signer, "")).start();
        let mut client = gateway.client();
        let mut used = BTreeSet::new();
        for number in 0..12 {
            let mut claims = claims();
            claims["sub"] = format!("user-{number}").into();
            let token = bearer(&signer.signs("key", &claims));
            let first = asks(&mut client, "/", &token).text();
            assert_eq!(asks(&mut gateway.client(), "/", &token).text(), first);
            used.insert(first);
        }
        assert!(used.len() > 1, "{used:?}");
    }

    fn the_key_of_an_ejected_endpoint_goes_to_the_next_one_and_comes_back(driver) {
        let origins = origins();
        let gateway = gateway_to(driver, &origins, BY_SESSION)
            .policy("ejection: {consecutiveFailures: 1, base: 3s, max: 3s}")
            .start();
        let mut client = gateway.client();
        let own = of(&mut client, &session(7));
        named(&origins, &own).next_replies([status(503)]);
        client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", session(7))).expects(503);
        let next = of(&mut client, &session(7));
        assert_ne!(next, own);
        assert_eq!(of(&mut gateway.client(), &session(7)), next, "all go to the same other one");
        client.expects_silence_for(Duration::from_millis(3_200));
        assert_eq!(of(&mut client, &session(7)), own);
    }

    fn a_retry_goes_to_the_next_endpoint_of_the_key(driver) {
        let origins = origins();
        let gateway = gateway(driver)
            .backend("all", &addresses(&origins))
            .rule("{retry: {codes: [503], attempts: 1, backoff: 1ms}, backendRefs: [{@all}]}")
            .policy_of("Backend/all", BY_SESSION)
            .start();
        let mut client = gateway.client();
        let own = of(&mut client, &session(3));
        let mut next = BTreeSet::new();
        for _ in 0..4 {
            named(&origins, &own).next_replies([status(503)]);
            next.insert(of(&mut client, &session(3)));
        }
        assert!(next.len() == 1 && !next.contains(&own), "{next:?} after {own}");
        assert_eq!(of(&mut client, &session(3)), own);
    }

    fn a_request_beyond_the_bound_of_its_endpoint_goes_to_the_next_one(driver) {
        let (origins, gate) = (origins(), Gate::default());
        let by = "balance: {hash: {by: [{header: mcp-session-id}], boundedLoad: 101}}";
        let gateway = gateway_to(driver, &origins, by).shards(2).start();
        // A request no longer counts when its connection takes the next one.
        let mut first = gateway.client();
        let own = of(&mut first, &session(5));
        named(&origins, &own).now_replies(Reply::at_once().waits_for(&gate).sends(
            format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{own}"),
        ));
        let mut waiting = Vec::new();
        // Of two in flight, ceil(2/3 × 1.01) + 1 = 2 may be at one endpoint.
        for (number, mut client) in [first, gateway.client()].into_iter().enumerate() {
            client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", session(5)));
            named(&origins, &own).waits_for_requests(number + 2);
            waiting.push(client);
        }
        assert_ne!(of(&mut gateway.client(), &session(5)), own);
        gate.open();
        for mut client in waiting {
            assert_eq!(client.reads().text(), own);
        }
    }

    fn backends_with_the_same_keys_are_drawn_by_hash(driver) {
        let (one, other) = (origin().replies(ok("one")), origin().replies(ok("other")));
        let with = |other_balance: &str| {
            gateway(driver)
                .backend("one", &[one.address()])
                .backend("other", &[other.address()])
                .rule("{backendRefs: [{@one, weight: 3}, {@other, weight: 1}]}")
                .policy_of("Backend/one", BY_SESSION)
                .policy_of("Backend/other", other_balance)
        };
        let gateway = with(BY_SESSION).shards(2).start();
        let of_session = |number| of(&mut gateway.client(), &session(number));
        let backends: Vec<String> = (0..200).map(of_session).collect();
        for (number, backend) in backends.iter().enumerate().take(20) {
            assert_eq!(of_session(number), *backend);
        }
        let share = backends.iter().filter(|name| *name == "other").count();
        assert!((20..=80).contains(&share), "{share} of 200 for a weight of 1/4");
        // With other keys, they are drawn by chance.
        gateway.reconfigure(&with("balance: {hash: {by: [{cookie: a}]}}"));
        gateway.waits_for_applied(2);
        let used: BTreeSet<String> = (0..100).map(|_| of_session(1)).collect();
        assert_eq!(used.len(), 2);
    }

    fn a_session_cookie_comes_before_a_hash(driver) {
        let origins = origins();
        let gateway = gateway(driver)
            .backend("all", &addresses(&origins))
            .rule(crate::support::session::COOKIE)
            .policy_of("Backend/all", BY_SESSION)
            .start();
        let mut client = gateway.client();
        let session_of = Session::begin(&mut client);
        for number in 0..20 {
            let lines = format!("Cookie: {}\r\n{}", session_of.cookie, session(number));
            assert_eq!(of(&mut client, &lines), session_of.origin);
        }
    }

    fn the_keys_of_other_endpoints_stay_when_one_leaves(driver) {
        let origins = origins();
        let with = |origins: &[Origin]| gateway_to(driver, origins, BY_SESSION);
        let gateway = with(&origins).start();
        let mut client = gateway.client();
        let before: Vec<String> = (0..60).map(|number| of(&mut client, &session(number))).collect();
        gateway.reconfigure(&with(&origins[..2]));
        gateway.waits_for_applied(2);
        for (number, before) in before.iter().enumerate() {
            let after = of(&mut client, &session(number));
            assert!(after == *before || before == "c", "{number}: {before}, then {after}");
        }
    }

    fn a_mirror_gets_the_requests_of_a_key_at_its_endpoint(driver) {
        let (main, copies) = (origin(), origins());
        let mirror = "{type: RequestMirror, requestMirror: {backendRef: {@all}}}";
        let gateway = gateway(driver)
            .backend("main", &[main.address()])
            .backend("all", &addresses(&copies))
            .rule("{matches: [{headers: [{name: direct, value: '1'}]}], backendRefs: [{@all}]}")
            .rule(&format!("{{filters: [{mirror}], backendRefs: [{{@main}}]}}"))
            .policy_of("Backend/all", BY_SESSION)
            .start();
        let mut client = gateway.client();
        let own = of(&mut client, &format!("Direct: 1\r\n{}", session(1)));
        for _ in 0..9 {
            ask(&mut client, &session(1));
        }
        named(&copies, &own).waits_for_requests(10);
    }

    fn an_invalid_balance_is_left_out_and_the_rest_of_its_policy_stays(driver) {
        let origins = origins();
        let balance = "balance: {hash: {by: [{header: a b}]}}\n  retryBudget: {percent: 5}";
        let gateway = gateway_to(driver, &origins, balance).start();
        gateway.waits_for_log("balance");
        until_all_are_used(&mut gateway.client(), &session(1));
    }

    fn a_trace_names_the_key(driver) {
        let origins = origins();
        let gateway = gateway_to(driver, &origins, BY_SESSION).inspected().start();
        let mut watcher = watches(&gateway, "");
        let mut client = gateway.client();
        ask(&mut client, &session(1));
        let detail = hash_event(&events(&mut watcher));
        assert!(detail.starts_with("by the header mcp-session-id: slot "), "{detail}");
        assert!(detail.ends_with(" of 65537"), "{detail}");
        let mut watcher = watches(&gateway, "");
        ask(&mut client, "X-A: b");
        assert!(hash_event(&events(&mut watcher)).contains("none of the keys"));
    }
}

#[track_caller]
fn hash_event(events: &[serde_json::Value]) -> String {
    let all = events.iter().map(|event| &event["message"]);
    let mut of_hash = all.filter(|message| message["kind"] == "balance.hash");
    let detail = of_hash
        .next()
        .and_then(|message| message["detail"].as_str());
    detail.expect("the hash tells").to_owned()
}
