//! The key of a request: what distinguishes those that a rule counts separately.

use std::hash::{BuildHasher as _, Hasher, RandomState};
use std::net::IpAddr;

use xds::model::RateLimitKey;

use super::table::KeyHash;
use crate::http::grammar::trim;
use crate::http::known::KnownHeader;
use crate::policy::authorization::{ClaimPath, Subject};
use crate::policy::effective_fields::EffectiveFields;

/// A part of the key of a rule.
#[derive(Debug)]
pub(super) enum KeyPart {
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
    pub(super) fn compile(part: &RateLimitKey) -> Self {
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
    fn hash(&self, subject: &Subject<'_>, hasher: &mut impl Hasher) {
        match self {
            Self::ClientAddress { v4, v6 } => {
                let (address, mask) = match subject.client.to_canonical() {
                    IpAddr::V4(address) => (address.to_ipv6_mapped(), v4),
                    IpAddr::V6(address) => (address, v6),
                };
                // All have the same length, so that nothing has to tell where it ends.
                return hasher.write_u128(address.to_bits() & mask);
            }
            Self::Header(name) => hash_lines(subject.fields, name, hasher),
            Self::Claim(path) => {
                if let Some(claims) = subject.claims {
                    claims.with_text(path, |text| hash_text(text, hasher));
                }
            }
            Self::Cookie(name) => hash_text(cookie(subject.fields, name), hasher),
            Self::Host => hash_text(subject.host.as_bytes(), hasher),
            Self::Path => hash_text(subject.path.as_bytes(), hasher),
        }
        // Ends the part: what one part begins with is not what another ends with.
        hasher.write_u8(0xff);
    }

    pub(super) fn is_client_address(&self) -> bool {
        matches!(self, Self::ClientAddress { .. })
    }

    pub(super) fn reads_claims(&self) -> bool {
        matches!(self, Self::Claim(_))
    }

    /// The header that it reads.
    pub(super) fn header(&self) -> Option<&str> {
        match self {
            Self::Header(name) => Some(name),
            _ => None,
        }
    }
}

/// The hash of a request's key.
pub(super) fn hash(parts: &[KeyPart], subject: &Subject<'_>, seed: &RandomState) -> KeyHash {
    let mut hasher = seed.build_hasher();
    for part in parts {
        part.hash(subject, &mut hasher);
    }
    KeyHash(hasher.finish())
}

fn hash_text(text: &[u8], hasher: &mut impl Hasher) {
    hasher.write(text);
    hasher.write_usize(text.len());
}

/// Several lines count as one, joined by commas (RFC 9110 section 5.3).
fn hash_lines(fields: EffectiveFields<'_>, name: &str, hasher: &mut impl Hasher) {
    let mut length = 0_usize;
    let mut lines = 0_u8;
    for (own, value) in fields.lines(|_| true) {
        if own.eq_ignore_ascii_case(name.as_bytes()) {
            if lines > 0 {
                hasher.write(b", ");
                length = length.saturating_add(2);
            }
            lines = lines.saturating_add(1);
            hasher.write(value);
            length = length.saturating_add(value.len());
        }
    }
    hasher.write_usize(length);
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
