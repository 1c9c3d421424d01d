//! The key of a request: what distinguishes those that a rule counts separately.

use std::net::IpAddr;

use xds::model::RateLimitKey;

use super::table::KeyHash;
use crate::http::grammar::trim;
use crate::http::known::KnownHeader;
use crate::policy::authorization::{ClaimPath, Subject};
use crate::policy::effective_fields::EffectiveFields;
use crate::policy::key_hasher::KeyHasher;

/// A part of the key of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::policy) enum KeyPart {
    /// The first bits of the client's address, as one of IPv6.
    ClientAddress {
        v4: u128,
        v6: u128,
    },
    /// Name in lower case.
    Header(Box<str>),
    Claim(ClaimPath),
    Cookie(Box<[u8]>),
    Host,
    Path,
}

impl KeyPart {
    pub(in crate::policy) fn compile(part: &RateLimitKey) -> Self {
        match part {
            RateLimitKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            } => {
                // Of an IPv4-mapped address, the mapping stays.
                let (v4, v6) = (
                    u32::from(*ipv4_prefix).saturating_add(MAPPED),
                    (*ipv6_prefix).into(),
                );
                let mask = |prefix: u32| {
                    let rest = u128::BITS.saturating_sub(prefix);
                    u128::MAX.checked_shl(rest).unwrap_or(0)
                };
                Self::ClientAddress {
                    v4: mask(v4),
                    v6: mask(v6),
                }
            }
            RateLimitKey::Header(name) => Self::Header(name.as_str().into()),
            RateLimitKey::Claim(name) => Self::Claim(ClaimPath::new(name)),
            RateLimitKey::Cookie(name) => Self::Cookie(name.as_bytes().into()),
            RateLimitKey::Host => Self::Host,
            RateLimitKey::Path => Self::Path,
        }
    }

    /// Adds the part of a request to a hash. One that is missing is as one that is empty.
    fn hash(&self, subject: &Subject<'_>, hasher: &mut KeyHasher) {
        match self {
            Self::ClientAddress { v4, v6 } => hasher.address(masked(subject.client, (*v4, *v6))),
            Self::Header(_) | Self::Claim(_) | Self::Cookie(_) | Self::Host | Self::Path => {
                self.hash_text(subject, hasher);
            }
        }
    }

    /// The same of a part that is a text. Apart, since all that is read of a request for any of them would be read for
    /// an address too.
    #[inline(never)]
    fn hash_text(&self, subject: &Subject<'_>, hasher: &mut KeyHasher) {
        self.with_text(subject, |text| hasher.text(text));
    }

    /// Calls `read` with a part that is a text: an empty one if the request lacks it.
    pub(in crate::policy) fn with_text<R>(
        &self,
        subject: &Subject<'_>,
        mut read: impl FnMut(&[u8]) -> R,
    ) -> R {
        match self {
            Self::ClientAddress { .. } => read(b""),
            Self::Header(name) => read_lines(subject.fields, name, read),
            Self::Claim(path) => {
                let mut value = None;
                if let Some(claims) = subject.claims {
                    claims.with_text(path, |text| value = Some(read(text)));
                }
                value.unwrap_or_else(|| read(b""))
            }
            Self::Cookie(name) => read(cookie(subject.fields, name)),
            Self::Host => read(subject.host.as_bytes()),
            Self::Path => read(subject.path.as_bytes()),
        }
    }

    /// The first bits of an address, if it is a part of them.
    pub(in crate::policy) fn masked_address(&self, client: IpAddr) -> Option<u128> {
        match self {
            Self::ClientAddress { v4, v6 } => Some(masked(client, (*v4, *v6))),
            _ => None,
        }
    }

    pub(super) fn is_client_address(&self) -> bool {
        matches!(self, Self::ClientAddress { .. })
    }

    pub(super) fn reads_claims(&self) -> bool {
        matches!(self, Self::Claim(_))
    }

    /// The header that it reads.
    pub(in crate::policy) fn header(&self) -> Option<&str> {
        match self {
            Self::Header(name) => Some(name),
            _ => None,
        }
    }
}

/// The hash of a request's key.
pub(super) fn hash(parts: &[KeyPart], subject: &Subject<'_>) -> KeyHash {
    let mut hasher = KeyHasher::new();
    for part in parts {
        part.hash(subject, &mut hasher);
    }
    KeyHash(hasher.finish())
}

/// The first bits of an address, as one of IPv6: of IPv4 by the first mask. Apart, for the same reason.
#[inline(never)]
fn masked(client: IpAddr, (v4, v6): (u128, u128)) -> u128 {
    const V4: u128 = 0xffff << 32;
    let bits = match client {
        IpAddr::V4(address) => V4 | u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let is_v4 = bits >> 32 == V4 >> 32;
    bits & if is_v4 { v4 } else { v6 }
}

/// Several lines count as one, joined by commas (RFC 9110 section 5.3).
fn read_lines<R>(fields: EffectiveFields<'_>, name: &str, mut read: impl FnMut(&[u8]) -> R) -> R {
    let named = |own: &[u8]| own.eq_ignore_ascii_case(name.as_bytes());
    let lines = fields.lines(|_| true);
    let mut lines = lines.filter_map(|(own, value)| named(own).then_some(value));
    let first = lines.next().unwrap_or_default();
    match lines.next() {
        None => read(first),
        Some(second) => {
            let all: Vec<&[u8]> = [first, second].into_iter().chain(lines).collect();
            read(&all.join(&b", "[..]))
        }
    }
}

/// The first cookie of this name.
fn cookie<'a>(fields: EffectiveFields<'a>, name: &[u8]) -> &'a [u8] {
    let lines = fields.fields.iter();
    let lines = lines.filter(|field| field.known == KnownHeader::Cookie);
    let mut pairs =
        lines.flat_map(|field| field.value.of(fields.bytes).split(|byte| *byte == b';'));
    let value = pairs.find_map(|pair| trim(pair).strip_prefix(name)?.strip_prefix(b"="));
    value.unwrap_or_default()
}

/// Bits before those of IPv4 in an IPv4-mapped address (RFC 4291 section 2.5.5.2).
const MAPPED: u32 = 96;

#[cfg(test)]
mod tests;
