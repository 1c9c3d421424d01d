//! Which fields end at us (RFC 9110 section 7.6.1) and which may never be a trailer (section 6.5.1).

use super::grammar;
use super::head::Fields;
use super::known::{Known, KnownSet};

/// Fields of one connection, and those that we write ourselves. `Proxy` is no field of HTTP but of
/// CGI's making (CVE-2016-5385).
pub const REGENERATED: KnownSet = KnownSet::of(&[
    Known::Connection,
    Known::ContentLength,
    Known::Host,
    Known::KeepAlive,
    Known::Proxy,
    Known::ProxyAuthenticate,
    Known::ProxyAuthorization,
    Known::ProxyConnection,
    Known::Te,
    Known::Trailer,
    Known::TransferEncoding,
    Known::Upgrade,
]);

/// Fields that Connection cannot take out, whoever lists them: who asks for what, and for whom.
const PROTECTED: KnownSet = KnownSet::of(&[
    Known::Authorization,
    Known::ContentLength,
    Known::Forwarded,
    Known::Host,
    Known::XForwardedFor,
    Known::XForwardedHost,
    Known::XForwardedPort,
    Known::XForwardedProto,
    Known::XRealIp,
]);

/// Whether a field of this name is sent on, as far as its name and Connection tell.
#[must_use]
pub fn passes(fields: &Fields, head: &[u8], name: &[u8], known: Known) -> bool {
    let ends_here = REGENERATED.has(known)
        || (known == Known::Other && has_prefix(name, b"proxy-"))
        || (fields.connection_lists() && is_listed(fields, head, name, known));
    !ends_here
}

/// Whether Connection lists this name and may.
fn is_listed(fields: &Fields, head: &[u8], name: &[u8], known: Known) -> bool {
    if PROTECTED.has(known) || has_prefix(name, b"x-forwarded-") {
        return false;
    }
    fields
        .iter()
        .filter(|field| field.known == Known::Connection)
        .flat_map(|field| grammar::list(field.value.of(head)))
        .any(|option| option.eq_ignore_ascii_case(name))
}

/// Whether a trailer of this name is dropped: whatever frames, routes, authenticates or changes how
/// the message is read has to come before the body.
#[must_use]
pub fn is_forbidden_trailer(name: &[u8]) -> bool {
    let known = Known::of(name);
    REGENERATED.has(known)
        || PROTECTED.has(known)
        || has_prefix(name, b"x-forwarded-")
        || has_prefix(name, b"proxy-")
        || NO_TRAILERS.iter().any(|no| name.eq_ignore_ascii_case(no))
}

fn has_prefix(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

const NO_TRAILERS: [&[u8]; 29] = [
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
    b"x-request-id",
];

#[cfg(test)]
mod tests {
    use super::is_forbidden_trailer;

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
            ("grpc-status", false),
            ("x-checksum", false),
            ("digest", false),
        ] {
            assert_eq!(is_forbidden_trailer(name.as_bytes()), forbidden, "{name}");
        }
    }
}
