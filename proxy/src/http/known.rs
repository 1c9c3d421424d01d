//! The header names that a proxy treats specially, told apart once while a head is parsed.

/// A header name we act on, or `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Known {
    /// Any other name.
    Other,
    /// `authorization`
    Authorization,
    /// `connection`
    Connection,
    /// `content-length`
    ContentLength,
    /// `content-type`
    ContentType,
    /// `cookie`
    Cookie,
    /// `expect`
    Expect,
    /// `forwarded`
    Forwarded,
    /// `grpc-status`
    GrpcStatus,
    /// `grpc-timeout`
    GrpcTimeout,
    /// `host`
    Host,
    /// `keep-alive`
    KeepAlive,
    /// `origin`
    Origin,
    /// `proxy`
    Proxy,
    /// `proxy-authenticate`
    ProxyAuthenticate,
    /// `proxy-authorization`
    ProxyAuthorization,
    /// `proxy-connection`
    ProxyConnection,
    /// `te`
    Te,
    /// `trailer`
    Trailer,
    /// `transfer-encoding`
    TransferEncoding,
    /// `upgrade`
    Upgrade,
    /// `user-agent`
    UserAgent,
    /// `x-forwarded-for`
    XForwardedFor,
    /// `x-forwarded-host`
    XForwardedHost,
    /// `x-forwarded-port`
    XForwardedPort,
    /// `x-forwarded-proto`
    XForwardedProto,
    /// `x-real-ip`
    XRealIp,
    /// `x-request-id`
    XRequestId,
}

impl Known {
    /// Its bit in the set of names that a head has.
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Tells a name, in any case.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        // Length alone rules out nearly every name; what is left is one comparison or two.
        match name.len() {
            2 => told(name, b"te", Self::Te),
            4 => told(name, b"host", Self::Host),
            5 => told(name, b"proxy", Self::Proxy),
            6 => match name.first() {
                Some(b'c' | b'C') => told(name, b"cookie", Self::Cookie),
                Some(b'e' | b'E') => told(name, b"expect", Self::Expect),
                _ => told(name, b"origin", Self::Origin),
            },
            7 => match name.first() {
                Some(b't' | b'T') => told(name, b"trailer", Self::Trailer),
                _ => told(name, b"upgrade", Self::Upgrade),
            },
            9 => match name.first() {
                Some(b'f' | b'F') => told(name, b"forwarded", Self::Forwarded),
                _ => told(name, b"x-real-ip", Self::XRealIp),
            },
            10 => match name.first() {
                Some(b'c' | b'C') => told(name, b"connection", Self::Connection),
                Some(b'k' | b'K') => told(name, b"keep-alive", Self::KeepAlive),
                _ => told(name, b"user-agent", Self::UserAgent),
            },
            11 => told(name, b"grpc-status", Self::GrpcStatus),
            12 => match name.first() {
                Some(b'c' | b'C') => told(name, b"content-type", Self::ContentType),
                Some(b'g' | b'G') => told(name, b"grpc-timeout", Self::GrpcTimeout),
                _ => told(name, b"x-request-id", Self::XRequestId),
            },
            13 => told(name, b"authorization", Self::Authorization),
            14 => told(name, b"content-length", Self::ContentLength),
            15 => told(name, b"x-forwarded-for", Self::XForwardedFor),
            16 => match name.get(2) {
                Some(b'f' | b'F') => match name.get(12) {
                    Some(b'h' | b'H') => told(name, b"x-forwarded-host", Self::XForwardedHost),
                    _ => told(name, b"x-forwarded-port", Self::XForwardedPort),
                },
                _ => told(name, b"proxy-connection", Self::ProxyConnection),
            },
            17 => match name.first() {
                Some(b't' | b'T') => told(name, b"transfer-encoding", Self::TransferEncoding),
                _ => told(name, b"x-forwarded-proto", Self::XForwardedProto),
            },
            18 => told(name, b"proxy-authenticate", Self::ProxyAuthenticate),
            19 => told(name, b"proxy-authorization", Self::ProxyAuthorization),
            _ => Self::Other,
        }
    }
}

/// `known` where the name is `text`, which is in lower case. Every byte is compared, so that this is
/// a few vector instructions; a comparison that ends early is one branch a byte.
fn told<const LENGTH: usize>(name: &[u8], text: &[u8; LENGTH], known: Known) -> Known {
    let same = name.first_chunk::<LENGTH>().is_some_and(|name| {
        let bytes = name.iter().zip(text);
        bytes.fold(true, |same, (byte, wanted)| {
            same & (byte.to_ascii_lowercase() == *wanted)
        })
    });
    if same { known } else { Known::Other }
}

/// A set of known names: one word, one instruction to ask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownSet(u64);

impl KnownSet {
    /// The set of these names.
    #[must_use]
    pub const fn of(names: &[Known]) -> Self {
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
    pub const fn has(self, known: Known) -> bool {
        self.0 & known.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Known;

    #[test]
    fn tells_every_name_in_any_case_and_no_other() {
        for (name, known) in [
            ("Host", Known::Host),
            ("hOST", Known::Host),
            ("TE", Known::Te),
            ("proxy", Known::Proxy),
            ("cookie", Known::Cookie),
            ("expect", Known::Expect),
            ("origin", Known::Origin),
            ("Trailer", Known::Trailer),
            ("Upgrade", Known::Upgrade),
            ("Forwarded", Known::Forwarded),
            ("X-Real-IP", Known::XRealIp),
            ("Connection", Known::Connection),
            ("Keep-Alive", Known::KeepAlive),
            ("User-Agent", Known::UserAgent),
            ("X-Request-Id", Known::XRequestId),
            ("Authorization", Known::Authorization),
            ("Content-Length", Known::ContentLength),
            ("Content-Type", Known::ContentType),
            ("grpc-status", Known::GrpcStatus),
            ("grpc-timeout", Known::GrpcTimeout),
            ("X-Forwarded-For", Known::XForwardedFor),
            ("X-Forwarded-Host", Known::XForwardedHost),
            ("X-Forwarded-Port", Known::XForwardedPort),
            ("Proxy-Connection", Known::ProxyConnection),
            ("Transfer-Encoding", Known::TransferEncoding),
            ("X-Forwarded-Proto", Known::XForwardedProto),
            ("Proxy-Authenticate", Known::ProxyAuthenticate),
            ("Proxy-Authorization", Known::ProxyAuthorization),
            ("hosts", Known::Other),
            ("hust", Known::Other),
            ("content_length", Known::Other),
            ("", Known::Other),
        ] {
            assert_eq!(Known::of(name.as_bytes()), known, "{name}");
        }
    }
}
