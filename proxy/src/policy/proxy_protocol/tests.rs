use std::net::IpAddr;

use xds::model::{ProxyProtocolIn, ProxyProtocolMode};

use super::{
    Acceptance, Endpoints, Expectation, Malformed, Progress, Start, StartWatch, Version, parse, v1,
    v2, write,
};

fn ends(source: &str, destination: &str) -> Endpoints {
    Endpoints {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
    }
}

/// A version 2 header: command, family, declared length, body.
fn binary(command: u8, family: u8, len: u16, body: &[u8]) -> Vec<u8> {
    let mut header = v2::SIGNATURE.to_vec();
    header.extend_from_slice(&[command, family]);
    header.extend_from_slice(&len.to_be_bytes());
    header.extend_from_slice(body);
    header
}

const TCP4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 1, 0x30, 0x39, 0, 80];

/// Complete headers, and their addresses.
fn whole() -> Vec<(Vec<u8>, Option<Endpoints>)> {
    let v4 = Some(ends("192.0.2.1:12345", "198.51.100.1:80"));
    let with_tlvs = [&TCP4[..], &[0x03, 0, 4, 1, 2, 3, 4]].concat();
    let mut tcp6 = [0; 36];
    tcp6[15] = 1;
    tcp6[31] = 2;
    tcp6[32..].copy_from_slice(&[0, 7, 0, 8]);
    vec![
        (
            b"PROXY TCP4 192.0.2.1 198.51.100.1 12345 80\r\n".to_vec(),
            v4,
        ),
        (
            b"PROXY TCP6 ::1 ::2 0 65535\r\n".to_vec(),
            Some(ends("[::1]:0", "[::2]:65535")),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (
            b"PROXY UNKNOWN ffff:f...f:ffff anything 0 0\r\n".to_vec(),
            None,
        ),
        (binary(0x21, 0x11, 12, &TCP4), v4),
        (binary(0x21, 0x11, 19, &with_tlvs), v4),
        (
            binary(0x21, 0x21, 36, &tcp6),
            Some(ends("[::1]:7", "[::2]:8")),
        ),
        (binary(0x20, 0x00, 0, &[]), None),
        (binary(0x20, 0x11, 12, &TCP4), None),
        (binary(0x20, 0x11, 0, &[]), None),
        (binary(0x21, 0x00, 0, &[]), None),
        (binary(0x21, 0x12, 12, &TCP4), None),
        (binary(0x21, 0x31, 216, &[0; 216]), None),
        (binary(0x21, 0x00, 4080, &[0; 4080]), None),
    ]
}

#[test]
fn complete_headers_are_parsed_and_data_after_them_is_left() {
    for (header, endpoints) in whole() {
        let len = header.len();
        let expected = Ok(Progress::Complete { len, endpoints });
        assert_eq!(parse(&header), expected);
        let with_data = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(parse(&with_data), expected);
    }
}

#[test]
fn every_truncated_header_is_partial() {
    for (header, _) in whole() {
        for at in 0..header.len() {
            assert_eq!(parse(&header[..at]), Ok(Progress::Partial), "{at}");
        }
    }
}

#[test]
fn bytes_that_do_not_start_like_a_header_are_data() {
    for data in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"POST / HTTP/1.1\r\n",
        b"PROPFIND / HTTP/1.1\r\n",
        b"PROXYING",
        b"\r\nGET",
        b"\r\n\r\nGET",
        b"\x16\x03\x01",
        b"proxy TCP4",
    ] {
        assert_eq!(parse(data), Ok(Progress::NotProxy));
    }
}

#[test]
fn malformed_v1_headers_are_rejected() {
    use Malformed::{Address, Form, Line, Port};
    for (line, expected) in [
        ("PROXY \r\n", Form),
        ("PROXY TCP\r\n", Form),
        ("PROXY tcp4 192.0.2.1 198.51.100.1 1 2\r\n", Form),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n", Form),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n", Form),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1 2 \r\n", Form),
        ("PROXY  TCP4 192.0.2.1 198.51.100.1 1 2\r\n", Form),
        ("PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n", Address),
        ("PROXY TCP4 ::1 ::2 1 2\r\n", Address),
        ("PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n", Address),
        ("PROXY TCP4 192.0.2.01 198.51.100.1 1 2\r\n", Address),
        ("PROXY TCP4 192.0.2 198.51.100.1 1 2\r\n", Address),
        ("PROXY TCP4 localhost 198.51.100.1 1 2\r\n", Address),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 65536 2\r\n", Port),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 +1 2\r\n", Port),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 01 2\r\n", Port),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1 \r\n", Port),
        ("PROXY UNKNOWN\n", Line),
        ("PROXY UNKNOWN\rx", Line),
        ("PROXY UNKNOWN\r\r\n", Line),
    ] {
        assert_eq!(parse(line.as_bytes()), Err(expected), "{line:?}");
    }
    let not_text = b"PROXY TCP4 \xff\xff 198.51.100.1 1 2\r\n";
    assert_eq!(parse(not_text), Err(Form));
}

#[test]
fn a_v1_header_is_limited_to_107_bytes() {
    let line = |len: usize| {
        let mut line = format!("PROXY UNKNOWN {}", "x".repeat(len - 16));
        line.push_str("\r\n");
        line.into_bytes()
    };
    assert!(matches!(
        parse(&line(107)),
        Ok(Progress::Complete { len: 107, .. })
    ));
    assert_eq!(parse(&line(107)[..106]), Ok(Progress::Partial));
    assert_eq!(parse(&line(108)), Err(Malformed::Line));
    assert_eq!(parse(&line(108)[..107]), Err(Malformed::Line));
}

#[test]
fn malformed_v2_headers_are_rejected_at_the_first_invalid_byte() {
    for (header, shown, expected) in [
        (
            binary(0x11, 0x11, 12, &TCP4),
            13,
            Malformed::VersionOrCommand,
        ),
        (
            binary(0x22, 0x11, 12, &TCP4),
            13,
            Malformed::VersionOrCommand,
        ),
        (binary(0x21, 0x41, 12, &TCP4), 14, Malformed::Family),
        (binary(0x21, 0x13, 12, &TCP4), 14, Malformed::Family),
        (binary(0x21, 0x11, 11, &TCP4), 16, Malformed::Length),
        (binary(0x21, 0x21, 35, &[0; 36]), 16, Malformed::Length),
        (binary(0x21, 0x31, 215, &[0; 216]), 16, Malformed::Length),
        (binary(0x21, 0x11, 4081, &TCP4), 16, Malformed::Length),
        (binary(0x20, 0x00, u16::MAX, &[]), 16, Malformed::Length),
    ] {
        assert_eq!(parse(&header[..shown - 1]), Ok(Progress::Partial));
        assert_eq!(parse(&header[..shown]), Err(expected));
        assert_eq!(parse(&header), Err(expected));
    }
}

#[test]
fn encoded_headers_parse_back() {
    let mapped = ends("[::ffff:192.0.2.1]:1", "198.51.100.1:2");
    for (sent, read) in [
        (
            ends("192.0.2.1:1", "198.51.100.1:2"),
            ends("192.0.2.1:1", "198.51.100.1:2"),
        ),
        (
            ends("[2001:db8::1]:1", "[::1]:2"),
            ends("[2001:db8::1]:1", "[::1]:2"),
        ),
        (mapped, ends("192.0.2.1:1", "198.51.100.1:2")),
        (
            ends("192.0.2.1:1", "[::1]:2"),
            ends("[::ffff:192.0.2.1]:1", "[::1]:2"),
        ),
    ] {
        for version in [Version::V1, Version::V2] {
            let mut header = Vec::new();
            write(version, Some(sent), &mut header);
            let endpoints = Some(read);
            let len = header.len();
            assert_eq!(parse(&header), Ok(Progress::Complete { len, endpoints }));
        }
    }
    for version in [Version::V1, Version::V2] {
        let mut header = Vec::new();
        write(version, None, &mut header);
        let len = header.len();
        let endpoints = None;
        assert_eq!(parse(&header), Ok(Progress::Complete { len, endpoints }));
    }
}

#[test]
fn headers_are_read_from_trusted_sources_only() {
    use Expectation::{Forbidden, Nothing, Optional, Refused, Required};
    let inside: IpAddr = "10.0.0.1".parse().expect("an address");
    let outside: IpAddr = "203.0.113.7".parse().expect("an address");
    let network = vec![(inside, 8)];
    for (mode, trusted_sources, expected) in [
        (ProxyProtocolMode::Off, vec![], [Nothing, Nothing]),
        (ProxyProtocolMode::Optional, vec![], [Optional, Optional]),
        (ProxyProtocolMode::Required, vec![], [Required, Required]),
        (
            ProxyProtocolMode::Optional,
            network.clone(),
            [Optional, Forbidden],
        ),
        (ProxyProtocolMode::Required, network, [Required, Refused]),
    ] {
        let policy = ProxyProtocolIn {
            mode,
            trusted_sources,
        };
        let acceptance = Acceptance::compile(Some(&policy));
        assert_eq!(
            [inside, outside].map(|peer| acceptance.expectation(peer)),
            expected
        );
    }
    assert_eq!(Acceptance::compile(None).expectation(inside), Nothing);
}

#[test]
fn a_header_is_recognised_by_its_first_bytes_at_every_split() {
    for (bytes, version) in [(v1::START, Version::V1), (v2::SIGNATURE, Version::V2)] {
        for at in 0..bytes.len() {
            let (first, rest) = bytes.split_at(at);
            let mut watch = StartWatch::default();
            assert_eq!(watch.advance(first), Start::Undecided);
            assert_eq!(watch.advance(rest), Start::Header(version));
            let mut watch = StartWatch::default();
            watch.advance(first);
            assert_eq!(watch.advance(b"?"), Start::Data, "another byte at {at}");
            assert_eq!(watch.advance(bytes), Start::Data, "later bytes are data");
        }
    }
}
