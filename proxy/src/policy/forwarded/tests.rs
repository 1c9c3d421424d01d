use std::net::IpAddr;
use std::num::NonZeroU32;

use http::HeaderValue;
use xds::model::{HeaderEdit, Scheme, Trust};

use super::{HeaderTrust, Hop, TrustedHops};
use crate::policy::headers::HeaderEdits;
use crate::policy::sample::{fields, written};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn hop(peer: &str) -> Hop {
    Hop::new(ip(peer), Scheme::Http)
}

fn last(hops: u32) -> TrustedHops {
    let hops = NonZeroU32::new(hops).expect("not zero");
    TrustedHops::compile(Some(&Trust::Hops(hops)))
}

fn within(networks: &[(&str, u8)]) -> TrustedHops {
    let networks = networks
        .iter()
        .map(|(address, length)| (ip(address), *length));
    TrustedHops::compile(Some(&Trust::Sources(networks.collect())))
}

fn lines(
    header_trust: HeaderTrust,
    request: &[(&str, &str)],
    edits: Option<&HeaderEdits>,
) -> String {
    let (fields, head) = fields(request);
    let host = b"example.org:8080";
    let hop = hop("203.0.113.7");
    let scheme = header_trust.scheme(&hop, &fields, &head);
    let address = (scheme, host.as_slice());
    written(|out| header_trust.write_lines(&hop, address, (&fields, &head), edits, out))
}

const SPOOFED: [(&str, &str); 6] = [
    ("X-Forwarded-For", "10.0.0.1"),
    ("x-forwarded-proto", "https"),
    ("X-FORWARDED-HOST", "admin.internal"),
    ("X-Forwarded-Port", "443"),
    ("Forwarded", "for=10.0.0.1"),
    ("X-Real-IP", "10.0.0.1"),
];

fn kept_names(header_trust: HeaderTrust, request: &[(&str, &str)]) -> Vec<String> {
    let (fields, head) = fields(request);
    let text = |name: &[u8]| String::from_utf8(name.to_owned()).expect("ASCII");
    let names = fields
        .iter()
        .map(|field| (field.known, field.name.of(&head)));
    names
        .filter(|(known, name)| !header_trust.drops(*known, name))
        .map(|(_, name)| text(name))
        .collect()
}

#[test]
fn headers_of_an_untrusted_client_are_replaced() {
    assert!(kept_names(HeaderTrust::Untrusted, &SPOOFED).is_empty());
    assert_eq!(
        lines(HeaderTrust::Untrusted, &SPOOFED, None),
        "x-forwarded-for: 203.0.113.7\r\nx-forwarded-proto: http\r\n\
         x-forwarded-host: example.org:8080\r\n"
    );
}

#[test]
fn headers_of_a_trusted_hop_are_extended() {
    assert_eq!(
        kept_names(HeaderTrust::Trusted, &SPOOFED),
        [
            "X-FORWARDED-HOST",
            "X-Forwarded-Port",
            "Forwarded",
            "X-Real-IP"
        ]
    );
    assert_eq!(
        lines(HeaderTrust::Trusted, &SPOOFED, None),
        "x-forwarded-for: 10.0.0.1, 203.0.113.7\r\nx-forwarded-proto: https\r\n"
    );
    let two_lines = [
        ("x-forwarded-for", "1.1.1.1, 2.2.2.2"),
        ("x-forwarded-for", ""),
        ("x-forwarded-for", "3.3.3.3"),
    ];
    assert!(
        lines(HeaderTrust::Trusted, &two_lines, None)
            .starts_with("x-forwarded-for: 1.1.1.1, 2.2.2.2, 3.3.3.3, 203.0.113.7\r\n")
    );
    assert_eq!(
        lines(HeaderTrust::Trusted, &[], None),
        lines(HeaderTrust::Untrusted, &[], None)
    );
}

#[test]
fn the_scheme_is_decided_by_trust() {
    use Scheme::{Http, Https};
    for (value, trusted) in [
        ("https", Https),
        ("HTTPS", Https),
        ("wss", Https),
        ("http", Http),
        ("ws", Http),
        ("https, http", Https),
        ("http, https", Http),
        ("", Http),
        ("gopher", Http),
    ] {
        let (fields, head) = fields(&[("X-Forwarded-Proto", value)]);
        let scheme = |trust: HeaderTrust| trust.scheme(&hop("10.0.0.1"), &fields, &head);
        assert_eq!(scheme(HeaderTrust::Trusted), trusted, "{value}");
        assert_eq!(scheme(HeaderTrust::Untrusted), Http, "{value}");
    }
}

#[test]
fn the_port_of_a_url_is_that_of_the_trusted_hop() {
    use Scheme::{Http, Https};
    let proto = ("X-Forwarded-Proto", "https");
    for (request, scheme, authority, expected) in [
        (&[][..], Http, "a.test:8080", None),
        (&[proto], Https, "a.test", Some(443)),
        (&[proto], Https, "a.test:8443", Some(8443)),
        (&[proto], Http, "a.test", Some(80)),
        (&[("X-Forwarded-Port", "8443")], Http, "a.test", Some(8443)),
        (
            &[("X-Forwarded-Port", "8443, 80"), proto],
            Https,
            "a.test:1",
            Some(8443),
        ),
        (&[("X-Forwarded-Port", "+80")], Http, "a.test", None),
        (&[("X-Forwarded-Port", "0")], Http, "a.test", None),
        (&[("X-Forwarded-Port", "x"), proto], Https, "", Some(443)),
    ] {
        let (fields, head) = fields(request);
        let request = (&fields, head.as_slice());
        let port = |trust: HeaderTrust| trust.port(scheme, authority.as_bytes(), request);
        assert_eq!(port(HeaderTrust::Trusted), expected, "{authority} {head:?}");
        assert_eq!(port(HeaderTrust::Untrusted), None);
    }
}

#[test]
fn forwarding_headers_of_untrusted_clients_are_dropped_and_other_names_kept() {
    let request = [
        ("X-Forwarded-Prefix", "/admin"),
        ("X-Forward", "kept"),
        ("X-Real-IPs", "kept"),
        ("X-Frame-Options", "kept"),
        ("x", "kept"),
    ];
    let neighbours = ["X-Forward", "X-Real-IPs", "X-Frame-Options", "x"];
    assert_eq!(kept_names(HeaderTrust::Untrusted, &request), neighbours);
    assert_eq!(
        kept_names(HeaderTrust::Trusted, &request)[0],
        "X-Forwarded-Prefix"
    );
    assert_eq!(kept_names(HeaderTrust::Trusted, &request)[1..], neighbours);
}

#[test]
fn filters_apply_last() {
    let https = HeaderValue::from_static("https");
    let edit = HeaderEdit {
        set: vec![("x-forwarded-proto".parse().expect("a name"), https)],
        remove: vec!["x-forwarded-host".parse().expect("a name")],
        ..HeaderEdit::default()
    };
    let edits = HeaderEdits::compose(&[Some(&edit)]);
    let lines = lines(HeaderTrust::Untrusted, &[], Some(&edits));
    assert_eq!(lines, "x-forwarded-for: 203.0.113.7\r\n");
}

#[test]
fn the_client_address_is_found_behind_trusted_hops() {
    let inside = [("10.0.0.0", 8), ("2001:db8::", 32)];
    let spoof = "6.6.6.6, 198.51.100.1, 10.0.0.2";
    for (trust, peer, chain, expected) in [
        (TrustedHops::Nobody, "10.0.0.1", spoof, "10.0.0.1"),
        (last(1), "10.0.0.1", spoof, "10.0.0.2"),
        (last(2), "10.0.0.1", spoof, "198.51.100.1"),
        (last(3), "10.0.0.1", spoof, "6.6.6.6"),
        (last(9), "10.0.0.1", spoof, "6.6.6.6"),
        (last(1), "10.0.0.1", "", "10.0.0.1"),
        (within(&inside), "10.0.0.1", spoof, "198.51.100.1"),
        (within(&inside), "203.0.113.7", spoof, "203.0.113.7"),
        (within(&inside), "10.0.0.1", "", "10.0.0.1"),
        (
            within(&inside),
            "10.0.0.1",
            "10.0.0.9, 10.0.0.8",
            "10.0.0.9",
        ),
        (
            within(&inside),
            "10.0.0.1",
            "1.1.1.1, unknown, 10.0.0.8",
            "10.0.0.8",
        ),
        (
            within(&inside),
            "::ffff:10.0.0.1",
            "198.51.100.1:4711",
            "198.51.100.1",
        ),
        (
            within(&inside),
            "2001:db8::1",
            "[2001:db9::1]:80, 2001:db8::2",
            "2001:db9::1",
        ),
        (within(&inside), "10.0.0.1", "[2001:db9::1]", "2001:db9::1"),
        (
            within(&inside),
            "10.0.0.1",
            "198.51.100.1,,  ,",
            "198.51.100.1",
        ),
        (last(2), "10.0.0.1", "198.51.100.1, _hidden", "10.0.0.1"),
    ] {
        let (fields, head) = fields(&[("x-forwarded-for", chain)]);
        let client = trust.client(&hop(peer), &fields, &head);
        assert_eq!(client, ip(expected), "{trust:?} {peer} {chain}");
    }
}

#[test]
fn several_x_forwarded_for_lines_form_one_chain() {
    let request = [
        ("x-forwarded-for", "6.6.6.6, 198.51.100.1"),
        ("accept", "*/*"),
        ("x-forwarded-for", "10.0.0.2"),
    ];
    let (fields, head) = fields(&request);
    let client = last(2).client(&hop("10.0.0.1"), &fields, &head);
    assert_eq!(client, ip("198.51.100.1"));
}

#[test]
fn header_trust_depends_on_the_peer_address() {
    assert_eq!(
        TrustedHops::compile(None).header_trust(&hop("10.0.0.1")),
        HeaderTrust::Untrusted
    );
    assert_eq!(
        last(1).header_trust(&hop("203.0.113.7")),
        HeaderTrust::Trusted
    );
    let inside = within(&[("10.0.0.0", 8)]);
    assert_eq!(inside.header_trust(&hop("10.0.0.1")), HeaderTrust::Trusted);
    assert_eq!(
        inside.header_trust(&hop("203.0.113.7")),
        HeaderTrust::Untrusted
    );
    assert_eq!(
        within(&[]).header_trust(&hop("10.0.0.1")),
        HeaderTrust::Untrusted
    );
}

/// The longest chain that a head can hold: linear work, linear output, no allocation but the
/// caller's buffer.
#[test]
fn a_chain_of_64_kib_is_forwarded() {
    let name = "x-forwarded-for";
    for part in ["10.0.0.1,", ",", "a", "[[[[,"] {
        let long = part.repeat((65_535 - name.len()) / part.len());
        let (fields, head) = fields(&[(name, &long)]);
        let everyone = within(&[("0.0.0.0", 0)]);
        let client = everyone.client(&hop("10.0.0.9"), &fields, &head);
        assert!(client == ip("10.0.0.1") || client == ip("10.0.0.9"));
        assert!(lines(HeaderTrust::Trusted, &[(name, &long)], None).len() < long.len() + 128);
        assert!(lines(HeaderTrust::Untrusted, &[(name, &long)], None).len() < 128);
    }
}

#[test]
fn the_longest_addresses_are_written_completely() {
    for (peer, expected) in [
        (
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ),
        ("::ffff:255.255.255.255", "255.255.255.255"),
        ("64:ff9b::255.255.255.255", "64:ff9b::ffff:ffff"),
    ] {
        assert_eq!(hop(peer).text(), expected.as_bytes());
        assert_eq!(hop(peer).address(), ip(expected));
    }
}
