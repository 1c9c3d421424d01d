//! A request costs no heap allocation: shards in this process, their allocations counted.
//!
//! What is counted is the shard's thread alone, so the origin and the client may allocate.

mod counting;
mod in_process;
#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, PoisonError};

use counting::{Counts, Watched};
use in_process::InProcess;
use serde_json::json;
use support::pki::authority;
use support::{Client, Signer, gateway, key_set, ok, on_both_drivers, origin, tls, tls_client};

/// One allocator counts for one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Requests before counting: every table and vector has its final size by then.
const WARM_UP: usize = 300;

const COUNTED: usize = 2_000;

/// Allocations of rustls for a record opened and one sealed.
const RECORDS: usize = 2;

/// Filters of the rule of these tests.
const RULE: &str = "{matches: [{path: {value: /api}}], filters: [\
    {type: RequestHeaderModifier, requestHeaderModifier: {\
        set: [{name: X-Route, value: api}], remove: [X-Secret]}}, \
    {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: X-Via, value: gw}]}}], \
    backendRefs: [{@origin}]}";

const GET: &str = "GET /api/items?page=2 HTTP/1.1\r\nHost: example.test\r\nUser-Agent: test/1\r\n\
    Accept: */*\r\nX-Secret: 1\r\nX-Request-Id: 1\r\n\r\n";

const POST: &str =
    "POST /api/items HTTP/1.1\r\nHost: example.test\r\nContent-Length: 5\r\n\r\nhello";

/// A path that must be normalised first.
const ODD: &str = "GET /%61pi/./items HTTP/1.1\r\nHost: EXAMPLE.test:80\r\n\r\n";

/// Allocations and frees of the shard while a client sends `request` again and again.
fn count(gateway: &InProcess, request: &str) -> Counts {
    count_over(support::client(gateway.address()), request)
}

fn count_over(mut client: Client, request: &str) -> Counts {
    let mut ask = |times| {
        for _ in 0..times {
            exchange(&mut client, request);
        }
    };
    ask(WARM_UP);
    let watched = Watched::thread("shard-0");
    ask(COUNTED);
    watched.counts()
}

#[track_caller]
fn exchange(client: &mut Client, request: &str) {
    let response = client.sends(request).expects(200);
    assert_eq!(response.value("x-via"), Some("gw"), "the filter is applied");
}

on_both_drivers! {
    fn a_request_allocates_nothing(driver) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = origin().replies(ok("hello"));
        let gateway = InProcess::start(driver, &[("origin", origin.address())], RULE);
        for request in [GET, POST, ODD] {
            let counts = count(&gateway, request);
            assert_eq!(counts, Counts::default(), "in {COUNTED} times `{request}`");
        }
    }

    /// Whether its rest is spliced between the sockets or passes through a buffer.
    fn a_long_response_allocates_nothing(driver) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        for length in [30_000, 200_000] {
            let origin = origin().replies(ok(support::pattern(length)));
            let gateway = InProcess::start(driver, &[("origin", origin.address())], RULE);
            let counts = count(&gateway, GET);
            assert_eq!(counts, Counts::default(), "in {COUNTED} times {length} bytes");
        }
    }

    /// rustls allocates for each record that it opens or seals. TLS allocates nothing else.
    fn a_request_over_tls_allocates_a_record_each_way(driver) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (origin, ca) = (origin().replies(ok("hello")), authority("ca"));
        let builder = gateway(driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .backend("origin", &[origin.address()])
            .rule_of("web", RULE);
        let gateway = InProcess::run(driver, &builder, 2);
        let client = tls_client(gateway.address(), &tls(&ca, "a.test"));
        let counts = count_over(client, GET);
        assert_eq!(counts.allocations, counts.frees);
        let per_request = counts.allocations / COUNTED;
        assert!(per_request <= RECORDS, "{per_request} allocations for each of {COUNTED} requests");
    }

    fn a_cached_token_allocates_nothing(driver) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (origin, signer) = (origin().replies(ok("hello")), Signer::p256());
        let keys = key_set(&[signer.jwk("key")]);
        let builder = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(RULE)
            .policy(&format!(
                "jwt: {{providers: [{{name: idp, issuer: i, jwks: {{inline: '{keys}'}}, \
                 claimsToHeaders: [{{claim: sub, header: X-User}}]}}]}}"
            ));
        let gateway = InProcess::run(driver, &builder, 1);
        let token = signer.signs("key", &json!({"iss": "i", "sub": "alice", "exp": 1e12}));
        let request = GET.replace("X-Secret: 1", &format!("Authorization: Bearer {token}"));
        let counts = count(&gateway, &request);
        assert_eq!(counts, Counts::default(), "in {COUNTED} times `{request}`");
        assert_eq!(origin.requests()[0].value("X-User"), Some("alice"));
    }

    /// Short, and in several pieces.
    fn an_answer_of_a_policy_allocates_nothing(driver) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        for length in [100, 200_000] {
            let body = "a".repeat(length);
            let builder = gateway(driver)
                .rule("{}")
                .document(&format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: pages}}\ndata: {{page: {body}}}"
                ))
                .policy(
                    "respond: {status: 200, contentType: text/html, headers: [{name: X-Via, value: gw}], \
                     bodyFrom: {name: pages, key: page}}",
                );
            let gateway = InProcess::run(driver, &builder, 1);
            for request in [GET, POST] {
                let counts = count(&gateway, request);
                assert_eq!(counts, Counts::default(), "in {COUNTED} times {length} bytes for `{request}`");
            }
        }
    }

    fn the_allocator_counts(driver) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = origin().replies(ok("hello"));
        let gateway = InProcess::start(driver, &[("origin", origin.address())], RULE);
        exchange(&mut support::client(gateway.address()), GET);
        let watched = Watched::quietly("shard-0");
        // A new connection is a new task.
        exchange(&mut support::client(gateway.address()), GET);
        assert_ne!(watched.counts().allocations, 0);
    }
}
