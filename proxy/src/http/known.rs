//! The header names that are treated specially, recognised once while a head is parsed.

use super::ascii;

/// A recognised header name, or `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is named after its header")]
#[repr(u8)]
pub enum KnownHeader {
    /// Any name that the gateway does not treat specially.
    Other,
    Authorization,
    Connection,
    ContentLength,
    ContentType,
    Cookie,
    Expect,
    Forwarded,
    GrpcStatus,
    GrpcTimeout,
    Host,
    KeepAlive,
    Origin,
    Proxy,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    UserAgent,
    XForwardedFor,
    XForwardedHost,
    XForwardedPort,
    XForwardedProto,
    XRealIp,
    XRequestId,
}

impl KnownHeader {
    /// Its bit in the set of names in a head.
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Recognises a name, in any case.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        let is = |text: &str, known: Self| {
            if ascii::eq_ignore_case(name, text.as_bytes()) {
                known
            } else {
                Self::Other
            }
        };
        // Length alone rules out nearly every name; one or two comparisons remain.
        match name.len() {
            2 => is("te", Self::Te),
            4 => is("host", Self::Host),
            5 => is("proxy", Self::Proxy),
            6 => match name.first() {
                Some(b'c' | b'C') => is("cookie", Self::Cookie),
                Some(b'e' | b'E') => is("expect", Self::Expect),
                _ => is("origin", Self::Origin),
            },
            7 => match name.first() {
                Some(b't' | b'T') => is("trailer", Self::Trailer),
                _ => is("upgrade", Self::Upgrade),
            },
            9 => match name.first() {
                Some(b'f' | b'F') => is("forwarded", Self::Forwarded),
                _ => is("x-real-ip", Self::XRealIp),
            },
            10 => match name.first() {
                Some(b'c' | b'C') => is("connection", Self::Connection),
                Some(b'k' | b'K') => is("keep-alive", Self::KeepAlive),
                _ => is("user-agent", Self::UserAgent),
            },
            11 => is("grpc-status", Self::GrpcStatus),
            12 => match name.first() {
                Some(b'c' | b'C') => is("content-type", Self::ContentType),
                Some(b'g' | b'G') => is("grpc-timeout", Self::GrpcTimeout),
                _ => is("x-request-id", Self::XRequestId),
            },
            13 => is("authorization", Self::Authorization),
            14 => is("content-length", Self::ContentLength),
            15 => is("x-forwarded-for", Self::XForwardedFor),
            16 => match name.get(2) {
                Some(b'f' | b'F') => match name.get(12) {
                    Some(b'h' | b'H') => is("x-forwarded-host", Self::XForwardedHost),
                    _ => is("x-forwarded-port", Self::XForwardedPort),
                },
                _ => is("proxy-connection", Self::ProxyConnection),
            },
            17 => match name.first() {
                Some(b't' | b'T') => is("transfer-encoding", Self::TransferEncoding),
                _ => is("x-forwarded-proto", Self::XForwardedProto),
            },
            18 => is("proxy-authenticate", Self::ProxyAuthenticate),
            19 => is("proxy-authorization", Self::ProxyAuthorization),
            _ => Self::Other,
        }
    }
}

/// A set of known names in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownSet(u64);

impl KnownSet {
    /// The set of these names.
    #[must_use]
    pub const fn of(names: &[KnownHeader]) -> Self {
        let mut bits = 0;
        let mut rest = names;
        while let [name, others @ ..] = rest {
            bits |= name.bit();
            rest = others;
        }
        Self(bits)
    }

    /// Whether the name is in it.
    #[must_use]
    pub const fn has(self, known: KnownHeader) -> bool {
        self.0 & known.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::KnownHeader;

    #[test]
    fn recognises_every_known_name_in_any_case_and_no_other() {
        for (name, known) in [
            ("Host", KnownHeader::Host),
            ("hOST", KnownHeader::Host),
            ("TE", KnownHeader::Te),
            ("proxy", KnownHeader::Proxy),
            ("cookie", KnownHeader::Cookie),
            ("expect", KnownHeader::Expect),
            ("origin", KnownHeader::Origin),
            ("Trailer", KnownHeader::Trailer),
            ("Upgrade", KnownHeader::Upgrade),
            ("Forwarded", KnownHeader::Forwarded),
            ("X-Real-IP", KnownHeader::XRealIp),
            ("Connection", KnownHeader::Connection),
            ("Keep-Alive", KnownHeader::KeepAlive),
            ("User-Agent", KnownHeader::UserAgent),
            ("X-Request-Id", KnownHeader::XRequestId),
            ("Authorization", KnownHeader::Authorization),
            ("Content-Length", KnownHeader::ContentLength),
            ("Content-Type", KnownHeader::ContentType),
            ("grpc-status", KnownHeader::GrpcStatus),
            ("grpc-timeout", KnownHeader::GrpcTimeout),
            ("X-Forwarded-For", KnownHeader::XForwardedFor),
            ("X-Forwarded-Host", KnownHeader::XForwardedHost),
            ("X-Forwarded-Port", KnownHeader::XForwardedPort),
            ("Proxy-Connection", KnownHeader::ProxyConnection),
            ("Transfer-Encoding", KnownHeader::TransferEncoding),
            ("X-Forwarded-Proto", KnownHeader::XForwardedProto),
            ("Proxy-Authenticate", KnownHeader::ProxyAuthenticate),
            ("Proxy-Authorization", KnownHeader::ProxyAuthorization),
            ("hosts", KnownHeader::Other),
            ("hust", KnownHeader::Other),
            ("content_length", KnownHeader::Other),
            ("", KnownHeader::Other),
        ] {
            assert_eq!(KnownHeader::of(name.as_bytes()), known, "{name}");
        }
    }
}
