//! Headers of the PROXY protocol: an answer comes as soon as it can and is final, waiting is bounded,
//! and what a header tells of is sent on as it was read.

use proxy::limits::PROXY_HEADER_BYTES;
use proxy::policy::proxy_protocol::{Endpoints, Progress, Version, parse, write};

/// Checks `data` as the first bytes of a connection.
pub(crate) fn check(data: &[u8]) {
    let mut record_response = Ok(Progress::Partial);
    for end in 0..=data.len() {
        let before = std::mem::replace(&mut record_response, parse(&data[..end]));
        if before != Ok(Progress::Partial) {
            assert_eq!(record_response, before, "after {end} bytes");
            continue;
        }
        match record_response {
            Ok(Progress::Partial) => assert!(end < PROXY_HEADER_BYTES),
            Ok(Progress::Complete { len, .. }) => {
                assert_eq!(len, end);
                assert!(len <= PROXY_HEADER_BYTES);
            }
            Ok(Progress::NotProxy) | Err(_) => {}
        }
    }
    if let Ok(Progress::Complete { endpoints, .. }) = record_response {
        for version in [Version::V1, Version::V2] {
            check_sent_on(version, endpoints);
        }
    }
}

/// The header that a backend gets tells of the same two ends, whichever way they are written.
fn check_sent_on(version: Version, endpoints: Option<Endpoints>) {
    let mut header = Vec::new();
    write(version, endpoints, &mut header);
    let record_response = parse(&header);
    let Ok(Progress::Complete {
        len,
        endpoints: read,
    }) = record_response
    else {
        panic!("{record_response:?} of {}", header.escape_ascii());
    };
    assert_eq!(len, header.len());
    assert_eq!(read.map(canonical), endpoints.map(canonical));
}

/// An IPv4 address is the same one where a header with an IPv6 address beside it maps it into IPv6.
fn canonical(mut ends: Endpoints) -> Endpoints {
    for end in [&mut ends.source, &mut ends.destination] {
        end.set_ip(end.ip().to_canonical());
    }
    ends
}
