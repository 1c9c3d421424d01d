//! Fields that are not forwarded (RFC 9110 section 7.6.1) or forbidden in trailers (section 6.5.1).

use super::grammar::{self, folded};
use super::head::Fields;
use super::known::{KnownHeader, KnownSet};

/// Hop-by-hop fields, and those that the proxy generates. `Proxy` is not an HTTP field, but
/// dangerous to CGI (CVE-2016-5385).
pub const REGENERATED: KnownSet = KnownSet::of(&[
    KnownHeader::Connection,
    KnownHeader::ContentLength,
    KnownHeader::Host,
    KnownHeader::KeepAlive,
    KnownHeader::Proxy,
    KnownHeader::ProxyAuthenticate,
    KnownHeader::ProxyAuthorization,
    KnownHeader::ProxyConnection,
    KnownHeader::Te,
    KnownHeader::Trailer,
    KnownHeader::TransferEncoding,
    KnownHeader::Upgrade,
]);

/// Fields that Connection cannot remove: they identify the client and the requested resource.
const PROTECTED: KnownSet = KnownSet::of(&[
    KnownHeader::Authorization,
    KnownHeader::ContentLength,
    KnownHeader::Forwarded,
    KnownHeader::Host,
    KnownHeader::XForwardedFor,
    KnownHeader::XForwardedHost,
    KnownHeader::XForwardedPort,
    KnownHeader::XForwardedProto,
    KnownHeader::XRealIp,
]);

/// Whether a field is forwarded, judging by its name and Connection.
#[must_use]
#[inline]
pub fn passes(fields: &Fields, head: &[u8], name: &[u8], known: KnownHeader) -> bool {
    let ends_here = REGENERATED.has(known)
        || (known == KnownHeader::Other && may_be_reserved(name) && reads_as_reserved(name))
        || (fields.connection_lists() && is_listed(fields, head, name, known));
    !ends_here
}

/// Whether a name has the first letter and length of a reserved name with a dash: a cheap check
/// that suffices for most fields.
fn may_be_reserved(name: &[u8]) -> bool {
    match name.first() {
        Some(b'p' | b'P' | b'x' | b'X') => true,
        Some(b'c' | b'C') => name.len() == "content-length".len(),
        Some(b'k' | b'K') => name.len() == "keep-alive".len(),
        Some(b't' | b'T') => name.len() == "transfer-encoding".len(),
        _ => false,
    }
}

/// Whether it is a `Proxy-` field, or has underscores and would be taken for a reserved field by a
/// backend that reads them as dashes (CGI, WSGI). No legitimate hop sends such a name.
#[inline(never)]
fn reads_as_reserved(name: &[u8]) -> bool {
    has_prefix(name, b"proxy-") || is_reserved_with_underscores(name)
}

/// Whether a name has underscores, and a backend that reads them as dashes takes it for a reserved
/// field.
#[must_use]
pub fn is_reserved_with_underscores(name: &[u8]) -> bool {
    name.contains(&b'_') && {
        let mut room = [0; LONGEST_NAME];
        is_reserved(fold(name, &mut room))
    }
}

/// The name as read by a backend that reads underscores as dashes.
#[must_use]
pub fn known_with_underscores(name: &[u8]) -> KnownHeader {
    KnownHeader::of(fold(name, &mut [0; LONGEST_NAME]))
}

/// Whether a lower-case name is one of those that identify the client and its path.
fn is_reserved(name: &[u8]) -> bool {
    let known = KnownHeader::of(name);
    REGENERATED.has(known)
        || PROTECTED.has(known)
        || known == KnownHeader::XRequestId
        || name.starts_with(b"x-forwarded-")
        || name.starts_with(b"proxy-")
}

/// Whether a lower-case name is one with which the gateway tells a backend where a request comes from:
/// a forwarding header, or the request's id.
#[must_use]
pub fn describes_path(name: &[u8]) -> bool {
    matches!(
        KnownHeader::of(name),
        KnownHeader::Forwarded | KnownHeader::XRealIp | KnownHeader::XRequestId
    ) || name.starts_with(b"x-forwarded-")
}

/// A name as read by a backend that treats `_` as `-`; only its start if it is longer than any
/// reserved one.
fn fold<'a>(name: &[u8], room: &'a mut [u8; LONGEST_NAME]) -> &'a [u8] {
    let length = name.len().min(room.len());
    for (to, from) in room.iter_mut().zip(name) {
        *to = folded(from);
    }
    room.get(..length).unwrap_or_default()
}

/// Whether Connection lists this name and may do so.
fn is_listed(fields: &Fields, head: &[u8], name: &[u8], known: KnownHeader) -> bool {
    if PROTECTED.has(known) || has_prefix(name, b"x-forwarded-") {
        return false;
    }
    fields
        .iter()
        .filter(|field| field.known == KnownHeader::Connection)
        .flat_map(|field| grammar::list(field.value.of(head)))
        .any(|option| option.eq_ignore_ascii_case(name))
}

/// Whether a trailer of this name is dropped: fields that affect framing, routing, authentication
/// or interpretation have to come before the body.
#[must_use]
pub fn is_forbidden_trailer(name: &[u8]) -> bool {
    let mut room = [0; LONGEST_NAME];
    let name = fold(name, &mut room);
    is_reserved(name) || NO_TRAILERS.contains(&name)
}

fn has_prefix(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// One byte more than the longest name compared here, so that the start of a longer one is
/// distinct.
const LONGEST_NAME: usize = 26;

const NO_TRAILERS: [&[u8]; 28] = [
    b"accept-encoding",
    b"age",
    b"allow",
    b"cache-control",
    b"content-encoding",
    b"content-location",
    b"content-range",
    b"content-type",
    b"cookie",
    b"date",
    b"expect",
    b"expires",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"location",
    b"max-forwards",
    b"origin",
    b"pragma",
    b"range",
    b"retry-after",
    b"set-cookie",
    b"strict-transport-security",
    b"vary",
    b"via",
    b"www-authenticate",
];

#[cfg(test)]
mod tests {
    use super::{LONGEST_NAME, NO_TRAILERS, is_forbidden_trailer, passes};
    use crate::http::head::Fields;
    use crate::http::known::KnownHeader;

    #[test]
    fn forbidden_trailer_names_fit_the_buffer_for_lowercasing() {
        assert!(NO_TRAILERS.iter().all(|name| name.len() < LONGEST_NAME));
        let long = ["www-authenticate", &"x".repeat(LONGEST_NAME)].concat();
        assert!(!is_forbidden_trailer(long.as_bytes()));
    }

    #[test]
    fn lookalikes_of_reserved_fields_are_not_forwarded() {
        for (name, dropped) in [
            ("x_forwarded_for", true),
            ("X_Forwarded-Whatever", true),
            ("X_Real_IP", true),
            ("Content_Length", true),
            ("transfer_encoding", true),
            ("Proxy_Whatever", true),
            ("keep_alive", true),
            ("x_request-id", true),
            ("x_user", false),
            ("content_type", false),
            ("x_real_ips", false),
            ("_", false),
        ] {
            let known = KnownHeader::of(name.as_bytes());
            let passes = passes(&Fields::default(), b"", name.as_bytes(), known);
            assert_eq!(passes, !dropped, "{name}");
            if dropped {
                assert!(is_forbidden_trailer(name.as_bytes()), "{name}");
            }
        }
    }

    #[test]
    fn trailers_cannot_frame_route_or_authenticate() {
        for (name, forbidden) in [
            ("Content-Length", true),
            ("transfer-encoding", true),
            ("HOST", true),
            ("authorization", true),
            ("X-Forwarded-Whatever", true),
            ("Proxy-Whatever", true),
            ("set-cookie", true),
            ("set_cookie", true),
            ("X-Request-Id", true),
            ("grpc-status", false),
            ("x-checksum", false),
            ("digest", false),
        ] {
            assert_eq!(is_forbidden_trailer(name.as_bytes()), forbidden, "{name}");
        }
    }
}
