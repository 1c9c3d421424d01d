//! `/config_dump`: the whole configuration of the proxy, the state of its endpoints, and no secret.

use std::fmt::Write as _;
use std::io::Read as _;

use serde_json::Value;

use super::admin::{asks, asks_with, json};
use crate::support::{Gateway, GatewayBuilder, gateway, on_both_drivers, origin, refused};

/// Routes with this many rules in all, each with a distinct path.
pub(super) fn with_rules(builder: GatewayBuilder, count: usize) -> GatewayBuilder {
    let numbers: Vec<usize> = (0..count).collect();
    // A route takes 16 rules.
    numbers.chunks(16).fold(builder, |builder, numbers| {
        let mut yaml = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: many-{}}}\nspec:\n  parentRefs: [{{name: gw}}]\n  rules:\n",
            numbers[0]
        );
        for n in numbers {
            let backend = "{group: gateway-system.io, kind: Backend, name: origin}";
            writeln!(
                yaml,
                "  - {{matches: [{{path: {{value: /rule/{n}}}}}], backendRefs: [{backend}]}}"
            )
            .expect("memory");
        }
        builder.document(&yaml)
    })
}

fn list<'a>(dump: &'a Value, name: &str) -> &'a Vec<Value> {
    dump[name]
        .as_array()
        .unwrap_or_else(|| panic!("no {name}: {dump}"))
}

/// Header lines of a client that accepts gzip.
const GZIP: &str = "Host: localhost\r\nAccept-Encoding: gzip\r\n";

/// Requests a gzipped response. Returns its text, and its compressed size.
fn unzipped(gateway: &Gateway, target: &str) -> (String, usize) {
    let answer = asks_with(gateway, "admin", "GET", target, GZIP);
    assert_eq!(answer.status(), 200, "{target}: {answer}");
    let encoding = answer.value("content-encoding");
    assert_eq!(encoding, Some("gzip"), "{target}");
    let mut text = String::new();
    let read = flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text);
    read.expect("gzip");
    (text, answer.body.len())
}

on_both_drivers! {
    fn children_name_their_parents_and_secrets_are_masked(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{name: first, matches: [{path: {value: /a}, headers: [{name: X-Api-Key, value: hush-1}]}], \
                   filters: [{type: RequestHeaderModifier, requestHeaderModifier: \
                   {set: [{name: Authorization, value: hush-2}, {name: X-Plain, value: shown}]}}], \
                   timeouts: {request: 1m30s}, backendRefs: [{@origin}]}")
            .limits("headTimeout: 300ms")
            .inspected()
            .start();
        let dump = json(&gateway, "/config_dump");
        let text = dump.to_string();
        assert!(!text.contains("hush") && text.contains("shown"), "{text}");
        for name in ["binds", "listeners", "routes", "backends", "policies"] {
            assert_eq!(list(&dump, name).len(), 1, "{name}: {dump}");
        }
        for name in ["workloads", "services", "certificates"] {
            assert_eq!(list(&dump, name).len(), 0, "{name}: {dump}");
        }
        let (bind, listener, route) = (&dump["binds"][0], &dump["listeners"][0], &dump["routes"][0]);
        assert_eq!(listener["bind"], bind["key"]);
        assert_eq!(route["listener"], listener["key"]);
        assert_eq!(route["name"], "first");
        assert_eq!(route["timeouts"]["request"], "1m30s");
        assert_eq!(route["backends"][0]["target"]["backend"], dump["backends"][0]["key"]);
        assert_eq!(dump["policies"][0]["spec"]["limits"]["headTimeout"], "300ms");
        assert_eq!(dump["version"]["format"], 1);
        assert_eq!(dump["source"]["kind"], "files");
        assert_eq!(list(&dump["runtime"], "shards").len(), 1);
        let routes = json(&gateway, "/config_dump?type=routes");
        assert_eq!(list(&routes, "routes").len(), 1);
        assert!(routes.get("binds").is_none(), "{routes}");
        let others = json(&gateway, "/config_dump?type=routes&name=others");
        assert_eq!(list(&others, "routes").len(), 0);
    }

    fn endpoint_statistics_are_aggregated_over_all_shards(driver) {
        let origin = origin();
        let (_held, refused) = refused();
        let gateway = gateway(driver).shards(2)
            .backend("origin", &[origin.address(), refused])
            .rule("{backendRefs: [{@origin}]}")
            .inspected()
            .start();
        for _ in 0..20 {
            gateway.client().gets("/").expects(200);
        }
        let dump = json(&gateway, "/config_dump?type=backends");
        let endpoints = list(&dump["backends"][0], "endpoints");
        let endpoint = |address: std::net::SocketAddr| {
            let found = endpoints.iter().find(|it| it["name"] == address.to_string());
            found.unwrap_or_else(|| panic!("no {address}: {dump}"))
        };
        let good = endpoint(origin.address());
        assert_eq!((&good["requests"], &good["health"]), (&20.into(), &1.0.into()), "{dump}");
        assert!(good["latencyMs"].as_f64().is_some_and(|it| it > 0.0), "{dump}");
        assert_eq!((&good["inFlight"], &good["shards"]), (&0.into(), &2.into()));
        let bad = endpoint(refused);
        assert!(bad["requests"] == 0 || bad["health"].as_f64().is_some_and(|it| it < 1.0), "{dump}");
    }

    fn a_large_dump_is_streamed_and_a_stuck_reader_blocks_no_other(driver) {
        let origin = origin();
        let builder = gateway(driver).backend("origin", &[origin.address()]);
        let gateway = with_rules(builder, 3000).inspected().start();
        let dump = json(&gateway, "/config_dump?type=routes");
        assert_eq!(list(&dump, "routes").len(), 3000);
        let mut idle: Vec<_> = (0..6).map(|_| gateway.client_of("admin")).collect();
        for client in &mut idle {
            client.sends("GET /config_dump HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        assert_eq!(asks(&gateway, "readiness", "GET", "/healthz/ready").status(), 200);
        assert_eq!(asks(&gateway, "metrics", "GET", "/metrics").status(), 200);
        gateway.client().gets("/rule/7").expects(200);
    }

    fn gzip_is_used_if_accepted(driver) {
        let origin = origin();
        let builder = gateway(driver).backend("origin", &[origin.address()]);
        let gateway = with_rules(builder, 100).inspected().start();
        let (text, gzipped) = unzipped(&gateway, "/config_dump?type=routes");
        let dump: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(list(&dump, "routes").len(), 100);
        assert!(gzipped * 5 < text.len(), "{gzipped} of {}", text.len());
    }

    fn long_responses_are_gzipped_if_accepted(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        for (target, says) in [
            ("/", "<!doctype html>"),
            ("/page/main.js", "import "),
            // One sample for each second of CPU time: there is none, and no name to look up.
            ("/debug/pprof/profile?seconds=1&frequency=1&format=flamegraph", "No samples"),
        ] {
            let plain = asks(&gateway, "admin", "GET", target);
            assert_eq!((plain.status(), plain.value("content-encoding")), (200, None), "{target}");
            let (text, gzipped) = unzipped(&gateway, target);
            assert!(text.contains(says), "{target}: {text}");
            assert!(gzipped < text.len(), "{target}: {gzipped} of {}", text.len());
        }
        let mut client = gateway.client_of("admin");
        client.sends(format!("GET /debug/pprof/heap?format=flamegraph HTTP/1.1\r\n{GZIP}\r\n"));
        // A debug build takes longer to look up symbols than the timeout here.
        let head = client.reads_head();
        assert_eq!((head.status(), head.value("content-encoding")), (200, Some("gzip")), "{head}");
    }

    fn a_dump_deserializes_into_its_types(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let answer = asks(&gateway, "admin", "GET", "/config_dump");
        let dump: admin_types::dump::Dump = serde_json::from_slice(&answer.body).expect("a dump");
        let serialized = serde_json::to_value(&dump).expect("JSON");
        let received: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(serialized, received);
    }
}
