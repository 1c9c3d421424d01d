//! The guides of RESOURCES on who may come in: each example is served as it stands there, and what the steps of
//! its guide promise is requested.
//!
//! Only what a test has not got is replaced: ports, addresses of backends, trusted hops, and the keys of an issuer.

use std::time::Instant;

use serde_json::json;

use super::jwt::{bearer, claims};
use super::metrics::{count, waits_for_sum};
use crate::support::{
    Client, Driver, Gateway, Message, Origin, Ports, Signer, client, gateway, key_set,
    on_both_drivers, origin, raw,
};

const RESOURCES: &str = include_str!("../../../k8s/RESOURCES.md");

/// The objects that all examples refer to, and where clients' addresses come from.
const OBJECTS: &str = "## The objects of the examples";
const ADDRESSES: &str = "## Addresses of clients";

#[track_caller]
fn examples(heading: &str) -> String {
    examples_in(RESOURCES, heading)
}

/// The YAML of a document between a heading and the next one.
#[track_caller]
pub(super) fn examples_in(document: &str, heading: &str) -> String {
    let mut lines = document.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "there is no section `{heading}`");
    let (mut yaml, mut is_inside) = (String::new(), false);
    for line in lines.take_while(|line| !line.starts_with("## ") && !line.starts_with("### ")) {
        match line {
            "```yaml" => {
                yaml.push_str("---\n");
                is_inside = true;
            }
            "```" => is_inside = false,
            _ if is_inside => {
                yaml.push_str(line);
                yaml.push('\n');
            }
            _ => {}
        }
    }
    assert!(!yaml.is_empty(), "`{heading}` has no example");
    yaml
}

/// A text with a part of it replaced, which it has to have.
#[track_caller]
pub(super) fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "`{from}` is not in\n{text}");
    text.replace(from, to)
}

/// A gateway that serves examples.
struct Guide {
    ports: Ports,
    yaml: String,
}

impl Guide {
    /// The examples below these headings, beside the objects that they refer to.
    #[track_caller]
    fn of(headings: &[&str], origin: &Origin) -> Self {
        let ports = Ports::free(2);
        let objects = examples(OBJECTS);
        let listener = format!("port: {}, protocol: HTTP", ports[0]);
        let objects = replaced(&objects, "port: 80, protocol: HTTP", &listener);
        let endpoint = format!("ports: [{{port: {}}}]", origin.address().port());
        let mut yaml = replaced(&objects, "ports: [{port: 3000}]", &endpoint);
        for heading in headings {
            yaml.push_str(&examples(heading));
        }
        // Only one of the guides has a Gateway of its own.
        let listener = format!("port: {}, protocol: HTTP", ports[1]);
        let yaml = yaml.replace("port: 8080, protocol: HTTP", &listener);
        let yaml = yaml.replace("port: 8081, protocol: HTTP", &listener);
        Self { ports, yaml }
    }

    #[track_caller]
    fn with(mut self, from: &str, to: &str) -> Self {
        self.yaml = replaced(&self.yaml, from, to);
        self
    }

    /// Trusts the test as a hop.
    #[track_caller]
    fn behind_the_test(mut self) -> Self {
        let addresses = replaced(&examples(ADDRESSES), "10.0.0.0/8", "127.0.0.0/8");
        self.yaml.push_str(&addresses);
        self
    }

    #[track_caller]
    fn start(&self, driver: Driver) -> Gateway {
        let gateway = gateway(driver).inspected();
        gateway.start_with(&self.yaml, &self.ports)
    }
}

/// Sends a request without a body.
pub(super) fn asks(
    client: &mut Client,
    method: &str,
    (host, path): (&str, &str),
    lines: &[String],
) -> Message {
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let lines = lines.concat();
    client.sends(format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n{lines}\r\n"
    ));
    client.reads()
}

fn from(address: &str) -> Vec<String> {
    vec![format!("X-Forwarded-For: {address}")]
}

const SHOP: (&str, &str) = ("shop.example.com", "/");
const LIMIT: &str = "## Limit each client";
const PARTNERS: (&str, &str) = ("partners.example.com", "/");
const KEYS: &str = "## A key for each partner";
const OFFICE: &str = "### Keep a path to the office network";
const OVERRIDES: &str = "## Rules that routes cannot remove";
const SIGN_IN: &str = "### Settle sign-in at the Gateway";
const ANSWERS: &str = "## Answers of the gateway";
const PAGES: &str = "## Pages for errors";
const PAGE_SERVER: &str = "### Pages of a server";
const MAINTENANCE: &str = "### Maintenance for all but the office";
const REWRITE: &str = "## Rewrite paths by a regular expression";
const CONNECTIONS: &str = "### Connections per client and per endpoint";

/// Requests that pass until one is refused, which is returned, with the most that could have passed meanwhile.
fn until_refused(client: &mut Client, method: &str, burst: f64) -> (f64, f64, Message) {
    let begun = Instant::now();
    let mut passed = 0.0;
    loop {
        let answer = asks(client, method, SHOP, &[]);
        match answer.status() {
            200 => passed += 1.0,
            _ => {
                return (
                    passed,
                    burst + 1.0 + 10.0 * begun.elapsed().as_secs_f64(),
                    answer,
                );
            }
        }
    }
}

on_both_drivers! {
    fn a_key_for_each_partner(driver) {
        let origin = origin();
        let gateway = Guide::of(&[KEYS], &origin).start(driver);
        let mut client = gateway.client();
        let acme = ["Authorization: Bearer 4f1c0c3f6a4d0a2b".to_owned()];
        let next = ["X-Api-Key: 77a0e95d1b3c4d86".to_owned()];
        let globex = ["X-Api-Key: 9b0de2a71c55e8f4".to_owned()];
        let wrong = ["X-Api-Key: 4f1c0c3f6a4d0a2c".to_owned()];
        for (method, lines, status) in [
            ("GET", &acme[..], 200),
            ("POST", &next, 200),
            ("GET", &globex, 200),
            ("POST", &globex, 403),
            ("GET", &wrong, 401),
            ("GET", &[], 401),
        ] {
            let answer = asks(&mut client, method, PARTNERS, lines);
            assert_eq!(answer.status(), status, "{method} {lines:?}: {answer}");
        }
        let requests = origin.requests();
        let partners: Vec<&str> = { requests.iter() }
            .filter_map(|request| request.value("x-partner"))
            .collect();
        assert_eq!(partners, ["acme", "acme", "globex"]);
        // A hundred a second.
        let passed = (0..300).filter(|_| asks(&mut client, "GET", PARTNERS, &acme).status() == 200);
        assert!(passed.count() >= 98);
        assert_eq!(asks(&mut client, "GET", PARTNERS, &globex).status(), 200);
    }

    fn limit_each_client(driver) {
        let origin = origin();
        let guide = Guide::of(&[LIMIT], &origin);
        let gateway = guide.start(driver);
        let mut client = gateway.client();
        let (passed, most, refused) = until_refused(&mut client, "GET", 40.0);
        assert!((40.0..=most).contains(&passed), "{passed}, at most {most}");
        assert_eq!(refused.status(), 429, "{refused}");
        // Ten a second: the next one passes within this one.
        assert_eq!(refused.value("retry-after"), Some("1"));
    }

    /// 60 a minute, beside the limit of all requests.
    fn limit_each_client_by_what_it_writes(driver) {
        let origin = origin();
        let gateway = Guide::of(&[LIMIT], &origin).start(driver);
        let mut client = gateway.client();
        let mut writes = 0;
        let by_writes = || {
            let rate_limit = "gateway_rate_limit_total";
            let of_result = |result: &str| {
                let label = format!("rule=\"writes\",result=\"{result}\"");
                count(&gateway, rate_limit, &label)
            };
            (of_result("allowed"), of_result("limited"))
        };
        while by_writes().1 < 1.0 {
            for _ in 0..50 {
                writes += u32::from(asks(&mut client, "POST", SHOP, &[]).status() == 200);
            }
        }
        assert!(writes >= 60, "{writes}");
        assert!(by_writes().0 >= 60.0);
    }

    fn limit_each_client_begins_with_a_dry_run(driver) {
        let origin = origin();
        let guide = Guide::of(&[LIMIT], &origin).with("burst: 40}", "burst: 40, dryRun: true}");
        let gateway = guide.start(driver);
        let mut client = gateway.client();
        let would_limit = || count(&gateway, "gateway_rate_limit_total", "rule=\"each-client\",result=\"would_limit\"");
        while would_limit() < 1.0 {
            for _ in 0..50 {
                assert_eq!(asks(&mut client, "GET", SHOP, &[]).status(), 200);
            }
        }
        let guide = Guide::of(&[LIMIT], &origin).with("  rateLimit:\n", "  rateLimit:\n    status: 503\n");
        let gateway = guide.start(driver);
        let (_, _, refused) = until_refused(&mut gateway.client(), "GET", 40.0);
        assert_eq!(refused.status(), 503, "{refused}");
        assert_eq!(refused.value("retry-after"), Some("1"));
    }

    fn limit_each_client_behind_a_load_balancer(driver) {
        const REQUESTS: usize = 50;
        let origin = origin();
        let passed = |guide: Guide| {
            let gateway = guide.start(driver);
            let mut client = gateway.client();
            let begun = Instant::now();
            let mut passed = 0.0;
            for address in ["203.0.113.1", "203.0.113.2"].repeat(REQUESTS) {
                if asks(&mut client, "GET", SHOP, &from(address)).status() == 200 {
                    passed += 1.0;
                }
            }
            (passed, 10.0 * begun.elapsed().as_secs_f64())
        };
        // A hop that is not trusted is one client, whatever it says.
        let (of_one, again) = passed(Guide::of(&[LIMIT, ADDRESSES], &origin));
        assert!(of_one >= 40.0 && of_one <= 41.0 + again, "{of_one}");
        let (of_both, _) = passed(Guide::of(&[LIMIT], &origin).behind_the_test());
        assert!(of_both >= 80.0, "{of_both}");
    }

    fn keep_traffic_in_its_zone(driver) {
        let (near, far) = (origin(), origin());
        let slice = |origin: &Origin| format!("ports: [{{port: {}}}]", origin.address().port());
        let guide = Guide::of(&["### Keep traffic in its zone"], &origin())
            .with("ports: [{port: 3001}]", &slice(&near))
            .with("ports: [{port: 3002}]", &slice(&far));
        let gateway = gateway(driver).inspected().argument("--zone=zone-a");
        let gateway = gateway.start_with(&guide.yaml, &guide.ports);
        let mut client = gateway.client();
        for _ in 0..20 {
            let answer = asks(&mut client, "GET", ("catalog.example.com", "/"), &[]);
            assert_eq!(answer.status(), 200, "{answer}");
        }
        assert_eq!((near.requests().len(), far.requests().len()), (20, 0));
    }

    fn keep_a_path_to_the_office_network(driver) {
        let origin = origin();
        let guide = Guide::of(&[OFFICE], &origin).behind_the_test();
        let gateway = guide.start(driver);
        let mut client = gateway.client();
        let mut check = |cases: &[(&str, &str, u16)]| {
            for (address, path, status) in cases {
                let answer = asks(&mut client, "GET", ("office.example.com", path), &from(address));
                assert_eq!(answer.status(), *status, "{path} from {address}: {answer}");
            }
        };
        check(&[
            ("203.0.113.5", "/admin", 200),
            ("203.0.113.66", "/admin", 403),
            ("2001:db8:7::1", "/admin/users", 200),
            ("2001:db8:8::1", "/admin", 403),
            ("198.51.100.17", "/admin", 200),
            ("198.51.100.18", "/admin", 403),
            ("10.1.2.3", "/admin", 200),
            ("198.51.100.18", "/", 200),
            ("203.0.113.66", "/", 200),
        ]);
        // The office moves; then somebody makes a mistake.
        let moved = replaced(&guide.yaml, "203.0.113.0/24  ", "192.0.2.0/24  ");
        gateway.rewrite(&moved);
        gateway.waits_for_applied(2);
        let after = [("192.0.2.5", "/admin", 200), ("203.0.113.5", "/admin", 403)];
        check(&after);
        gateway.rewrite(&replaced(&moved, "192.0.2.0/24  ", "192.0.2.1/24  "));
        gateway.waits_for_log("line 1: `192.0.2.1/24` has bits beyond its prefix length");
        check(&after);
        // Where no hop is trusted, the test itself is the client, and not of the office.
        let gateway = Guide::of(&[OFFICE], &origin).start(driver);
        let admin = ("office.example.com", "/admin");
        let answer = asks(&mut gateway.client(), "GET", admin, &from("203.0.113.5"));
        assert_eq!(answer.status(), 403, "{answer}");
        waits_for_sum(&gateway, "gateway_requests_total", &["reason=\"forbidden\""], 1.0);
    }

    fn rules_that_routes_cannot_remove(driver) {
        let origin = origin();
        let guide = Guide::of(&[OVERRIDES], &origin);
        let loose = "---\napiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: loose}\nspec:\n  \
             targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]\n  \
             authorization: {allow: [{when: 'true'}]}\n  networks: {allow: [0.0.0.0/0]}\n";
        let guide = Guide { yaml: guide.yaml + loose, ..guide };
        let gateway = guide.start(driver);
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "GET", SHOP, &[]).status(), 200);
        let internal = (SHOP.0, "/internal/state");
        assert_eq!(asks(&mut client, "GET", internal, &[]).status(), 403);
        // The test has no address of that network.
        drop(gateway);
        let gateway = guide.with("198.18.0.0/15", "127.0.0.0/8").start(driver);
        gateway.client().sends("GET / HTTP/1.1\r\nHost: shop.example.com\r\n\r\n").expects_end();
        waits_for_sum(&gateway, "gateway_connections_refused_by_network_total", &["reason=\"denied_by_network\""], 1.0);
    }

    fn settle_sign_in_at_the_gateway(driver) {
        let (origin, ours, theirs) = (origin(), Signer::p256(), Signer::p256());
        let inline = |signer: &Signer| format!("jwks: {{inline: '{}'}}", key_set(&[signer.jwk("key")]));
        let keys = "jwks: {remote: {url: \"https://idp.example.com/keys\"}}";
        let guide = Guide::of(&[SIGN_IN], &origin).with(keys, &inline(&ours));
        let token = |signer: &Signer, issuer: &str, employee: bool| {
            let mut claims = claims();
            claims["iss"] = json!(issuer);
            claims["employee"] = json!(employee);
            bearer(&signer.signs("key", &claims))
        };
        let employee = token(&ours, "https://idp.example.com", true);
        let guest = token(&ours, "https://idp.example.com", false);
        let forged = token(&theirs, "https://idp.example.com", true);
        let foreign = token(&theirs, "https://theirs.example.com", true);
        let check = |gateway: &Gateway, cases: &[(&str, &[String], u16)]| {
            let mut client = client(gateway.address_of(1));
            for (method, lines, status) in cases {
                let answer = asks(&mut client, method, ("staff.example.com", "/"), lines);
                assert_eq!(answer.status(), *status, "{method} {lines:?}: {answer}");
                assert_eq!(answer.has("www-authenticate"), *status == 401, "{answer}");
            }
        };
        let of_others = [("GET", &[][..], 401), ("GET", &*forged, 401), ("GET", &*foreign, 401), ("GET", &*guest, 403)];
        let gateway = guide.start(driver);
        check(&gateway, &of_others);
        check(&gateway, &[("GET", &*employee, 200), ("POST", &*employee, 403)]);
        // With an issuer of the route's own beside its rule, all stays as it is.
        let own = "  authorization: {allow: [{name: readers, when: request.method == 'GET'}]}\n";
        let issuer = format!(
            "  jwt: {{providers: [{{name: own, issuer: 'https://theirs.example.com', {}}}]}}\n",
            inline(&theirs)
        );
        gateway.rewrite(&replaced(&guide.yaml, own, &format!("{own}{issuer}")));
        gateway.waits_for_applied(2);
        check(&gateway, &of_others);
        check(&gateway, &[("GET", &*employee, 200), ("POST", &*employee, 403)]);
        // Without either, an employee may do more.
        gateway.rewrite(&replaced(&guide.yaml, own, "  accessLog: {sample: 1}\n"));
        gateway.waits_for_applied(3);
        check(&gateway, &of_others);
        check(&gateway, &[("GET", &*employee, 200), ("POST", &*employee, 200)]);
    }

    fn answers_of_the_gateway(driver) {
        let origin = origin();
        let gateway = Guide::of(&[ANSWERS], &origin).start(driver);
        let mut client = gateway.client();
        let robots = asks(&mut client, "GET", (SHOP.0, "/robots.txt"), &[]);
        assert_eq!((robots.status(), &*robots.text()), (200, "User-agent: *\nDisallow: /api/\n"));
        assert_eq!(robots.value("content-type"), Some("text/plain; charset=utf-8"));
        let gone = asks(&mut client, "POST", ("SHOP.example.com:80", "/api/v1/carts"), &[]);
        assert_eq!(gone.status(), 410, "{gone}");
        assert_eq!(gone.value("link"), Some("</api/v2>; rel=successor-version"));
        let problem: serde_json::Value = serde_json::from_str(&gone.text()).expect("JSON");
        assert_eq!(problem["title"], "Use /api/v2 of shop.example.com");
        assert_eq!(problem["status"], 410);
        assert_eq!(problem["instance"].as_str().map(str::len), Some(36));
        assert_eq!(asks(&mut client, "GET", SHOP, &[]).status(), 200);
        assert_eq!(origin.requests().len(), 1);
    }

    fn maintenance_for_all_but_the_office(driver) {
        let origin = origin();
        let tickets = ("tickets.example.com", "/");
        let guide = Guide::of(&[MAINTENANCE], &origin);
        let trust = replaced(&examples(ADDRESSES), "10.0.0.0/8", "127.0.0.0/8");
        let trust = replaced(&trust, "name: edge", "name: tickets");
        let guide = Guide { yaml: guide.yaml + &trust, ..guide };
        let gateway = guide.start(driver);
        let mut visitor = client(gateway.address_of(1));
        let page = asks(&mut visitor, "GET", tickets, &from("198.51.100.1"));
        assert_eq!(page.status(), 503, "{page}");
        assert_eq!(page.value("retry-after"), Some("300"));
        assert_eq!(page.value("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.text().contains("<h1>tickets.example.com is being updated</h1>"), "{page}");
        assert_eq!(asks(&mut visitor, "GET", tickets, &from("203.0.113.9")).status(), 200);
        assert_eq!(origin.requests().len(), 1);
        waits_for_sum(&gateway, "gateway_respond_results_total", &["result=\"answered\""], 1.0);
        waits_for_sum(&gateway, "gateway_respond_results_total", &["result=\"excepted\""], 1.0);
        // It is over.
        let policy = guide.yaml.find("---\napiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: maintenance}");
        gateway.rewrite(&guide.yaml[..policy.expect("the policy")]);
        gateway.waits_for_applied(2);
        assert_eq!(asks(&mut visitor, "GET", tickets, &from("198.51.100.1")).status(), 200);
    }

    fn pages_for_errors(driver) {
        let origin = origin();
        let gateway = Guide::of(&[PAGES], &origin).start(driver);
        let mut client = gateway.client();
        let html = asks(&mut client, "GET", ("other.example.com", "/"), &["Accept: text/html".to_owned()]);
        assert_eq!(html.status(), 404, "{html}");
        assert!(html.text().contains("<p>other.example.com could not answer."), "{html}");
        let json = asks(&mut client, "GET", ("other.example.com", "/"), &["Accept: application/json".to_owned()]);
        let json: serde_json::Value = serde_json::from_str(&json.text()).expect("JSON");
        assert_eq!(json["status"], 404);
        assert_eq!(json["id"].as_str().map(str::len), Some(36));
        origin.now_replies(crate::support::status(503));
        let busy = asks(&mut client, "GET", SHOP, &[]);
        assert_eq!((busy.status(), &*busy.text()), (503, "Please try again later"));
    }

    fn pages_of_a_server(driver) {
        let (shop, pages) = (origin(), origin());
        let endpoint = format!("ports: [{{port: {}}}]", pages.address().port());
        let guide = Guide::of(&[PAGES, PAGE_SERVER], &shop).with("ports: [{port: 8080}]", &endpoint);
        let gateway = guide.start(driver);
        pages.now_replies(raw("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nsorry"));
        shop.now_replies(raw("HTTP/1.1 404 Not Found\r\nX-Shop: 1\r\nContent-Length: 3\r\n\r\nold"));
        let mut client = gateway.client();
        let answer = asks(&mut client, "GET", SHOP, &["Accept: text/html".to_owned()]);
        assert_eq!((answer.status(), &*answer.text(), answer.value("x-shop")), (404, "sorry", Some("1")), "{answer}");
        let asked = pages.only_request();
        for (name, value) in [
            ("x-code", "404"), ("x-format", "text/html"), ("x-namespace", "default"), ("x-ingress-name", "shop"),
            ("x-service-name", "shop"), ("x-service-port", "80"),
        ] {
            assert_eq!(asked.value(name), Some(value), "{asked}");
        }
        // The pages of the Gateway are for other requests.
        let other = asks(&mut client, "GET", ("other.example.com", "/"), &[]);
        assert!(other.text().contains("other.example.com could not answer"), "{other}");
        pages.stop();
        let failed = asks(&mut client, "GET", SHOP, &[]);
        assert_eq!((failed.status(), &*failed.text()), (404, "404 Not Found\n"), "{failed}");
    }

    fn rewrite_paths_by_a_regular_expression(driver) {
        let origin = origin();
        let gateway = Guide::of(&[REWRITE], &origin).start(driver);
        let mut client = gateway.client();
        for (path, expected) in [
            ("/api/v1/items", "/v1/items"),
            ("/api", "/"),
            ("/acme/shoes?size=9", "/shoes?brand=acme&size=9"),
            ("/acme", "/acme"),
        ] {
            assert_eq!(asks(&mut client, "GET", ("brands.example.com", path), &[]).status(), 200);
            assert_eq!(origin.requests().last().expect("it came").target(), expected);
        }
    }

    fn connections_per_client(driver) {
        let origin = origin();
        let gateway = Guide::of(&[CONNECTIONS, "## Backend"], &origin).start(driver);
        let mut clients: Vec<Client> = (0..100).map(|_| gateway.client()).collect();
        for client in &mut clients {
            assert_eq!(asks(client, "GET", SHOP, &[]).status(), 200);
        }
        gateway.client().expects_end();
        waits_for_sum(&gateway, "gateway_connections_over_client_limit_total", &[], 1.0);
        assert_eq!(asks(&mut clients[0], "GET", SHOP, &[]).status(), 200);
    }
}
