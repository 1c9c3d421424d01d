//! What users of other gateways have reported about policies, as cases of ours: whether policies of several targets
//! hold together, whom a rate limit counts, and whose address networks see.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::jwt::{asks, bearer, claims, policy};
use super::metrics::{count, waits_for_count};
use crate::support::{
    Client, Driver, Gateway, GatewayBuilder, Origin, Signer, TIMEOUT, echo_peer, gateway,
    on_both_drivers, origin,
};

fn gateway_to(origin: &Origin, driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
        .inspected()
}

/// The policy of the route.
const OWN: &str = "HTTPRoute/route-0";

fn from(address: &str) -> Vec<String> {
    vec![format!("X-Forwarded-For: {address}")]
}

fn statuses(client: &mut Client, lines: &[String], requests: usize) -> Vec<u16> {
    let requests = 0..requests;
    requests
        .map(|_| asks(client, "/", lines).status())
        .collect()
}

/// A rate limit of so many requests in a day, by this key.
fn limit(key: &str, requests: u32, more: &str) -> String {
    format!(
        "rateLimit: {{rules: [{{name: each, key: [{key}], requests: {requests}, per: Day{more}}}]}}"
    )
}

const ADDRESS: &str = "{clientAddress: {}}";
const HOP: &str = "trustedHops: 1";

/// Sends a request for each of these values of `X-Key`, all at once. Returns how many passed and were refused.
fn of_keys(gateway: &Gateway, keys: impl Iterator<Item = String>) -> [u32; 2] {
    let request = |key| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\n\r\n");
    let requests: Vec<String> = keys.map(request).collect();
    let mut client = gateway.client();
    client.sends(requests.concat());
    let statuses = requests.iter().map(|_| client.reads().status());
    statuses.fold([0, 0], |[passed, refused], status| match status {
        200 => [passed + 1, refused],
        429 => [passed, refused + 1],
        other => panic!("status {other}"),
    })
}

on_both_drivers! {
    /// envoyproxy/gateway#8781: a route got a policy of its own, for external authorization, and with it lost the
    /// token validation that the Gateway's policy sets, without a warning: every request passed, and headers made
    /// of claims stayed empty.
    fn a_route_with_another_restriction_keeps_the_tokens_of_its_gateway(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let of_gateway = policy("Strict", &signer, ", claimsToHeaders: [{claim: sub, header: x-user}]");
        for precedence in ["", "precedence: Overrides\n  "] {
            let gateway = gateway_to(&origin, driver)
                .policy(&format!("{precedence}{of_gateway}"))
                .policy_of(OWN, "authorization: {deny: [{when: \"request.path == '/closed'\"}]}")
                .start();
            let mut client = gateway.client();
            let token = bearer(&signer.signs("key", &claims()));
            assert_eq!(asks(&mut client, "/", &[]).status(), 401);
            assert_eq!(asks(&mut client, "/closed", &token).status(), 403);
            assert_eq!(asks(&mut client, "/", &token).status(), 200);
            let requests = origin.requests();
            let last = requests.last().expect("one passed");
            assert_eq!(last.value("x-user"), Some("alice"));
        }
        assert_eq!(origin.requests().len(), 2);
    }

    /// The same report, where the route brings an issuer of its own: its tokens open nothing.
    fn a_route_cannot_bring_its_own_issuer(driver) {
        let (origin, ours, theirs) = (origin(), Signer::p256(), Signer::p256());
        let gateway = gateway_to(&origin, driver)
            .policy(&format!("precedence: Overrides\n  {}", policy("Strict", &ours, "")))
            .policy_of(OWN, &policy("Optional", &theirs, ""))
            .start();
        let mut client = gateway.client();
        let token = |signer: &Signer| bearer(&signer.signs("key", &claims()));
        assert_eq!(asks(&mut client, "/", &token(&ours)).status(), 200);
        assert_eq!(asks(&mut client, "/", &token(&theirs)).status(), 401);
        assert_eq!(asks(&mut client, "/", &[]).status(), 401);
    }

    /// envoyproxy/gateway#9054: the rules of a route's policy replaced the list of rules that the Gateway's policy
    /// has, a baseline of networks for all routes, although the two were to be merged; and where lists are merged
    /// by the names of rules, a route replaces the Gateway's rule by one of the same name.
    fn rules_of_a_route_replace_none_of_its_gateway(driver) {
        let origin = origin();
        let baseline = "precedence: Overrides\n  trustedHops: 1\n  authorization: {allow: [\
            {name: office, when: \"cidr('203.0.113.0/24').contains(client.address)\"}, \
            {name: probes, when: \"cidr('192.0.2.0/24').contains(client.address)\"}]}";
        let own = "authorization: {allow: [{name: office, when: 'true'}], \
            deny: [{name: probes, when: \"client.address == '192.0.2.9'\"}]}";
        let gateway = gateway_to(&origin, driver).policy(baseline).policy_of(OWN, own).start();
        let mut client = gateway.client();
        for (address, status) in [
            ("203.0.113.1", 200),
            ("192.0.2.1", 200),
            ("198.51.100.1", 403),
            ("192.0.2.9", 403),
        ] {
            assert_eq!(asks(&mut client, "/", &from(address)).status(), status, "{address}");
        }
    }

    /// The same for rules of rate limits, which Envoy Gateway merges by name.
    fn a_rate_limit_of_the_same_name_replaces_none_of_the_gateway(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy(&format!("precedence: Overrides\n  {}", limit(ADDRESS, 2, "")))
            .policy_of(OWN, &limit(ADDRESS, 1000, ""))
            .start();
        assert_eq!(statuses(&mut gateway.client(), &[], 3), [200, 200, 429]);
    }

    /// agentgateway: where a policy of a wider target takes precedence, those of narrower ones are left out as a
    /// whole, with restrictions that the wider one says nothing about.
    fn what_an_overriding_policy_leaves_open_a_route_still_closes(driver) {
        let origin = origin();
        let own = format!(
            "networks: {{deny: [198.51.100.0/24]}}\n  authorization: {{deny: [{{when: \"request.path == '/closed'\"}}]}}\n  {}",
            limit(ADDRESS, 2, "")
        );
        let gateway = gateway_to(&origin, driver)
            .policy(&format!("precedence: Overrides\n  {HOP}\n  networks: {{deny: [203.0.113.0/24]}}"))
            .policy_of(OWN, &own)
            .start();
        let mut client = gateway.client();
        assert_eq!(statuses(&mut client, &from("203.0.113.1"), 1), [403], "the Gateway's");
        assert_eq!(statuses(&mut client, &from("198.51.100.1"), 1), [403], "the route's");
        let other = from("192.0.2.1");
        assert_eq!(asks(&mut client, "/closed", &other).status(), 403);
        assert_eq!(statuses(&mut client, &other, 2), [200, 429]);
    }

    /// projectcontour/contour#6411, kgateway-dev/kgateway#14137, agentgateway/agentgateway#1909: a local rate limit
    /// has one bucket for a route, so that a single client that sends too much has everybody else refused.
    fn a_client_that_sends_too_much_takes_nothing_from_others(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy_of("Gateway/gw", HOP)
            .policy(&limit(ADDRESS, 2, ""))
            .start();
        let mut client = gateway.client();
        assert_eq!(statuses(&mut client, &from("203.0.113.1"), 5), [200, 200, 429, 429, 429]);
        assert_eq!(statuses(&mut client, &from("203.0.113.2"), 3), [200, 200, 429]);
        // Users, by their tokens, likewise.
        let signer = Signer::p256();
        let gateway = gateway_to(&origin, driver)
            .policy(&format!("{}\n  {}", policy("Strict", &signer, ""), limit("{claim: sub}", 1, "")))
            .start();
        let mut client = gateway.client();
        for user in ["alice", "bob"] {
            let mut claims = claims();
            claims["sub"] = json!(user);
            let token = bearer(&signer.signs("key", &claims));
            assert_eq!(statuses(&mut client, &token, 2), [200, 429], "{user}");
        }
    }

    /// envoyproxy/gateway#5226: whole IPv6 addresses are counted, and a client has 2^64 of them: it takes another
    /// one for each request, and is never limited.
    fn a_client_that_rotates_in_its_network_is_one(driver) {
        let origin = origin();
        let gateway = gateway_to(&origin, driver)
            .policy_of("Gateway/gw", HOP)
            .policy(&limit(ADDRESS, 2, ""))
            .start();
        let mut client = gateway.client();
        let mut of = |address: &str| statuses(&mut client, &from(address), 1)[0];
        assert_eq!(of("2001:db8::1"), 200);
        assert_eq!(of("2001:db8::dead:beef"), 200);
        assert_eq!(of("2001:db8::2"), 429);
        assert_eq!(of("2001:db8:0:1::1"), 200);
        assert_eq!(of("198.51.100.7"), 200);
        // A client cannot choose its address before the trusted hop.
        assert_eq!(of("192.0.2.9, 2001:db8::3"), 429);
    }

    /// agentgateway/agentgateway#3351, and nginx: of too many keys those that were not used for longest are
    /// forgotten, so that a flood of others gives whoever is being refused a new burst.
    fn a_flood_of_other_keys_frees_none_that_is_refused(driver) {
        const LIMITED: u32 = 4;
        const FLOOD: u32 = 8192;
        let origin = origin();
        let key = limit("{header: X-Key}", 20, ", maxKeys: 1024");
        let gateway = gateway_to(&origin, driver).shards(2).policy(&key).start();
        let limited = || (0..LIMITED).map(|key| format!("limited-{key}"));
        for _ in 0..20 {
            assert_eq!(of_keys(&gateway, limited()), [LIMITED, 0]);
        }
        assert_eq!(of_keys(&gateway, limited()), [0, LIMITED]);
        for part in 0..8 {
            let keys = (0..FLOOD / 8).map(|key| format!("once-{part}-{key}"));
            assert_eq!(of_keys(&gateway, keys), [FLOOD / 8, 0], "each comes for the first time");
        }
        assert_eq!(of_keys(&gateway, limited()), [0, LIMITED]);
        // It has replaced its own kind, and says so.
        let replaced = count(&gateway, "gateway_rate_limit_total", "result=\"replaced\"");
        assert!(replaced >= f64::from(FLOOD - 1024), "{replaced}");
    }

    /// ingress-nginx: once one Ingress of a host rewrites by a regular expression, all paths of that host are
    /// expressions without case, and prefixes; and nginx replaces the first match only.
    fn a_rewrite_at_one_rule_leaves_other_paths_as_they_are_and_replaces_every_match(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{name: api, matches: [{path: {value: /api}}], backendRefs: [{@origin}]}")
            .rule("{name: docs, matches: [{path: {type: Exact, value: /Docs}}], backendRefs: [{@origin}]}")
            .policy_of("HTTPRoute/route-0/api", "pathRewrite: {pattern: '_', substitution: '-'}")
            .start();
        let mut client = gateway.client();
        for (path, status) in [("/Docs", 200), ("/docs", 404), ("/Docs/a", 404), ("/Docsa", 404), ("/API", 404)] {
            client.gets(path).expects(status);
        }
        client.gets("/api/a_b_c").expects(200);
        let targets: Vec<String> = origin.requests().iter().map(|it| it.target().to_owned()).collect();
        assert_eq!(targets, ["/Docs", "/api/a-b-c"]);
    }

    /// Envoy Gateway: a page has to fit into the policy, with all others, and so into an object of etcd.
    fn a_large_page_for_errors_is_in_an_object_of_its_own(driver) {
        let page = "x".repeat(200_000);
        let body = |key: &str, media_type: &str| {
            format!("{{contentType: {media_type}, bodyFrom: {{name: pages, key: {key}}}}}")
        };
        let bodies = ["text/html", "application/json", "text/plain"].map(|it| body("page", it)).join(", ");
        let gateway = gateway(driver)
            .rule("{name: rule}")
            .document(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: pages}}\ndata: {{page: '{page}'}}"))
            .policy(&format!("errorPages: [{{statuses: ['500'], bodies: [{bodies}]}}]"))
            .start();
        assert_eq!(gateway.client().gets("/").expects(500).text().len(), page.len());
    }

    /// Envoy Gateway: at a TCPRoute, networks are compared with the address of the load balancer in front, although
    /// one is configured to tell that of the client for HTTP; nothing tells of it.
    fn networks_of_a_tcp_route_see_the_client_and_say_whom_they_refuse(driver) {
        let peer = echo_peer();
        let with = |policy: &str| {
            gateway(driver)
                .listener_with("tcp", "protocol: TCP")
                .backend("peer", &[peer.address()])
                .rule_of("tcp", "{backendRefs: [{@peer}]}")
                .policy("accessLog: {format: json}")
                .policy(policy)
                .policy_of("TCPRoute/route-0", "networks: {allow: [203.0.113.0/24]}")
                .inspected()
                .start()
        };
        let is_served = |gateway: &Gateway, header: &str| {
            let mut stream = TcpStream::connect(gateway.address_of(1)).expect("accepted");
            stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
            let _ = stream.write_all(format!("{header}hello").as_bytes());
            stream.read_exact(&mut [0; 5]).is_ok()
        };
        let gateway = with("proxyProtocol: {in: Required}");
        assert!(is_served(&gateway, "PROXY TCP4 203.0.113.7 192.0.2.1 50000 80\r\n"));
        assert!(!is_served(&gateway, "PROXY TCP4 198.51.100.7 192.0.2.1 50000 80\r\n"));
        // Without the PROXY protocol, everybody comes from the load balancer: log and metrics show its address.
        let gateway = with(HOP);
        assert!(!is_served(&gateway, ""));
        let log = gateway.waits_for_access_log("\"reason\":\"forbidden\"");
        let line = log.lines().find(|line| line.contains("forbidden")).expect("it was waited for");
        assert!(line.contains("127.0.0.1") && line.contains("TCPRoute/default/route-0"), "{line}");
        waits_for_count(&gateway, "gateway_network_results_total", "allowed_by_no_network", 1.0);
    }
}
