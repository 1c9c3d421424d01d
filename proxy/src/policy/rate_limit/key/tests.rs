use std::net::IpAddr;

use http::HeaderName;
use serde_json::{Value, json};
use xds::model::RateLimitKey;

use super::{KeyPart, hash};
use crate::policy::authorization::{ClaimValues, Subject};
use crate::policy::rate_limit::KeyHash;
use crate::policy::sample::{effective, fields};

/// A request from an address, with fields and claims.
struct Request {
    client: &'static str,
    lines: &'static [(&'static str, &'static str)],
    claims: Value,
}

const NOTHING: Request = Request {
    client: "192.0.2.1",
    lines: &[],
    claims: Value::Null,
};

/// The hashes of requests.
fn hashes(parts: &[RateLimitKey], requests: &[Request]) -> Vec<KeyHash> {
    let parts: Vec<_> = parts.iter().map(KeyPart::compile).collect();
    let hashed = requests.iter().map(|request| {
        let head = fields(request.lines);
        let claims = request.claims.as_object().map(ClaimValues::new);
        let client: IpAddr = request.client.parse().expect("an address");
        let subject = Subject {
            method: b"GET",
            host: "a.test",
            path: "/a",
            fields: effective(&head),
            client,
            claims: claims.as_ref(),
        };
        hash(&parts, &subject)
    });
    hashed.collect()
}

#[track_caller]
fn expect(parts: &[RateLimitKey], requests: &[Request; 2], are_same: bool) {
    let hashes = hashes(parts, requests);
    assert_eq!(hashes[0] == hashes[1], are_same);
}

fn from(client: &'static str) -> Request {
    Request { client, ..NOTHING }
}

fn with(lines: &'static [(&'static str, &'static str)]) -> Request {
    Request { lines, ..NOTHING }
}

fn of(claims: Value) -> Request {
    Request { claims, ..NOTHING }
}

/// Envoy Gateway counts whole IPv6 addresses, of which every client has 2^64.
#[test]
fn a_client_is_a_network_of_ipv6_and_an_address_of_ipv4() {
    let key = [RateLimitKey::ClientAddress {
        ipv4_prefix: 32,
        ipv6_prefix: 64,
    }];
    expect(&key, &[from("2001:db8::1"), from("2001:db8::ffff:2")], true);
    expect(&key, &[from("2001:db8::1"), from("2001:db8:0:1::1")], false);
    expect(&key, &[from("192.0.2.1"), from("192.0.2.2")], false);
    expect(&key, &[from("192.0.2.1"), from("::ffff:192.0.2.1")], true);
    let wide = [RateLimitKey::ClientAddress {
        ipv4_prefix: 24,
        ipv6_prefix: 0,
    }];
    expect(&wide, &[from("192.0.2.1"), from("192.0.2.2")], true);
    expect(&wide, &[from("192.0.2.1"), from("192.0.3.1")], false);
    expect(&wide, &[from("2001:db8::1"), from("3001:db8::1")], true);
}

#[test]
fn headers_are_joined_and_cookies_found_by_name() {
    let header = [RateLimitKey::Header(HeaderName::from_static("x-tenant"))];
    expect(
        &header,
        &[with(&[("X-Tenant", "a")]), with(&[("x-tenant", "a")])],
        true,
    );
    let joined = [
        with(&[("X-Tenant", "a"), ("X-Tenant", "b")]),
        with(&[("X-Tenant", "a, b")]),
    ];
    expect(&header, &joined, true);
    expect(
        &header,
        &[with(&[("X-Tenant", "a")]), with(&[("X-Tenant", "b")])],
        false,
    );
    expect(&header, &[with(&[]), with(&[("X-Tenant", "")])], true);
    let cookie = [RateLimitKey::Cookie("sid".to_owned())];
    expect(
        &cookie,
        &[
            with(&[("Cookie", "x=1; sid=a")]),
            with(&[("Cookie", "sid=a")]),
        ],
        true,
    );
    expect(
        &cookie,
        &[with(&[("Cookie", "sid=a")]), with(&[("Cookie", "sid=b")])],
        false,
    );
    expect(&cookie, &[with(&[("Cookie", "sidx=a")]), with(&[])], true);
}

/// An untrusted client cannot choose its bucket by a header that a proxy sets.
#[test]
fn forwarding_headers_of_untrusted_clients_are_absent() {
    let key = [RateLimitKey::Header(HeaderName::from_static("x-real-ip"))];
    expect(
        &key,
        &[with(&[("X-Real-IP", "1")]), with(&[("X-Real-IP", "2")])],
        true,
    );
}

#[test]
fn claims_are_found_by_their_path() {
    let claim = |name: &str| [RateLimitKey::Claim(name.to_owned())];
    let tenant = |name: &str| of(json!({"realm": {"tenant": name}, "x": 1}));
    expect(&claim("realm.tenant"), &[tenant("a"), tenant("a")], true);
    expect(&claim("realm.tenant"), &[tenant("a"), tenant("b")], false);
    expect(
        &claim("https://x.y"),
        &[of(json!({"https://x.y": 1})), of(json!({"https://x.y": 2}))],
        false,
    );
    expect(
        &claim("n"),
        &[of(json!({"n": true})), of(json!({"n": false}))],
        false,
    );
    expect(
        &claim("n"),
        &[of(json!({"n": 1.5})), of(json!({"n": 2.5}))],
        false,
    );
    for missing in [
        json!({}),
        json!({"n": null}),
        json!({"n": ["a"]}),
        json!({"n": {}}),
        Value::Null,
    ] {
        expect(&claim("n"), &[of(missing), NOTHING], true);
    }
}

/// All of a value counts, however long: two tokens differ at their ends.
#[test]
fn long_values_are_distinguished_by_their_ends() {
    let claim = [RateLimitKey::Claim("n".to_owned())];
    let long = |end: &str| of(json!({"n": format!("{}{end}", "x".repeat(60_000))}));
    expect(&claim, &[long("a"), long("a")], true);
    expect(&claim, &[long("a"), long("b")], false);
    expect(&claim, &[long(""), long("x")], false);
}

#[test]
fn parts_of_a_key_do_not_run_into_each_other() {
    let name = |name| RateLimitKey::Header(HeaderName::from_static(name));
    let key = [name("a"), name("b")];
    expect(
        &key,
        &[
            with(&[("a", "x"), ("b", "")]),
            with(&[("a", ""), ("b", "x")]),
        ],
        false,
    );
    expect(
        &key,
        &[
            with(&[("a", "xy"), ("b", "z")]),
            with(&[("a", "x"), ("b", "yz")]),
        ],
        false,
    );
    expect(&[RateLimitKey::Host], &[NOTHING, from("192.0.2.9")], true);
    let hosts = hashes(&[RateLimitKey::Host], &[NOTHING]);
    assert_ne!(hosts, hashes(&[RateLimitKey::Path], &[NOTHING]));
}
