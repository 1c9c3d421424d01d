//! What requests are spread by over the endpoints of a cluster: the hash of a header, cookie, parameter, claim or
//! address. It has no secret, so that every replica computes the same.

use std::net::IpAddr;
use std::num::NonZeroU64;

use xds::model::{HashBalance, HashKey, RateLimitKey};

use super::authorization::Subject;
use super::key_hasher::KeyHasher;
use super::rate_limit::KeyPart;
use crate::route::query;

/// What is hashed: the first of these that a request has.
#[derive(Debug, PartialEq, Eq)]
pub struct HashKeys {
    parts: Box<[Part]>,
    /// For traces.
    names: Box<[Box<str>]>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// As those that rate limits count by.
    Shared(KeyPart),
    Query(Box<[u8]>),
}

impl HashKeys {
    /// Compiles the keys of a hash.
    #[must_use]
    pub fn compile(hash: &HashBalance) -> Self {
        let parts = hash.by().iter().map(|key| match key {
            HashKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            } => Part::Shared(KeyPart::compile(&RateLimitKey::ClientAddress {
                ipv4_prefix: *ipv4_prefix,
                ipv6_prefix: *ipv6_prefix,
            })),
            HashKey::Header(name) => {
                Part::Shared(KeyPart::compile(&RateLimitKey::Header(name.clone())))
            }
            HashKey::Claim(name) => {
                Part::Shared(KeyPart::compile(&RateLimitKey::Claim(name.clone())))
            }
            HashKey::Cookie(name) => {
                Part::Shared(KeyPart::compile(&RateLimitKey::Cookie(name.clone())))
            }
            HashKey::Query(name) => Part::Query(name.as_bytes().into()),
        });
        Self {
            parts: parts.collect(),
            names: hash.by().iter().map(|it| it.to_string().into()).collect(),
        }
    }

    /// The key of a request with this query, and which of the keys it is.
    pub(crate) fn of_request(
        &self,
        subject: &Subject<'_>,
        query: Option<&str>,
    ) -> Option<(RequestKey, &str)> {
        let mut parts = self.parts.iter().zip(&self.names);
        parts.find_map(|(part, name)| Some((part.of_request(subject, query)?, &**name)))
    }

    /// The key of a connection or datagram, which has a client's address alone.
    pub(crate) fn of_address(&self, client: IpAddr) -> Option<(RequestKey, &str)> {
        let mut parts = self.parts.iter().zip(&self.names);
        parts.find_map(|(part, name)| match part {
            Part::Shared(part) => {
                let key = RequestKey::of_address(part.masked_address(client)?);
                Some((key, &**name))
            }
            Part::Query(_) => None,
        })
    }

    /// Whether it reads header fields that the gateway may set.
    pub(crate) fn reads_headers(&self) -> bool {
        let reads = |part: &Part| matches!(part, Part::Shared(part) if part.header().is_some());
        self.parts.iter().any(reads)
    }
}

/// Whether a hash reads claims of tokens.
#[must_use]
pub fn reads_claims(hash: &HashBalance) -> bool {
    hash.by().iter().any(|key| matches!(key, HashKey::Claim(_)))
}

impl Part {
    /// The key of a request that has this part, and where it is not empty.
    fn of_request(&self, subject: &Subject<'_>, query: Option<&str>) -> Option<RequestKey> {
        let of_text = |text: &[u8]| (!text.is_empty()).then(|| RequestKey::of_text(text));
        match self {
            Self::Shared(part) => match part.masked_address(subject.client) {
                Some(address) => Some(RequestKey::of_address(address)),
                None => part.with_text(subject, of_text),
            },
            Self::Query(name) => {
                let value = query::first(query?.as_bytes(), name)?;
                if query::is_plain(value) {
                    return of_text(value);
                }
                of_text(&query::decoded(value).collect::<Vec<u8>>())
            }
        }
    }
}

/// The hash of what requests are spread by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey(NonZeroU64);

impl RequestKey {
    pub(crate) fn of_text(text: &[u8]) -> Self {
        let mut hasher = KeyHasher::without_secret();
        hasher.text(text);
        Self::new(hasher.finish())
    }

    fn of_address(bits: u128) -> Self {
        let mut hasher = KeyHasher::without_secret();
        hasher.address(bits);
        Self::new(hasher.finish())
    }

    fn new(hash: u64) -> Self {
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    /// One of so many slots.
    pub(crate) fn slot(self, slots: usize) -> usize {
        usize::try_from(scaled(self.0.get(), slots as u64)).unwrap_or_default()
    }

    /// One of so many shares of backends, independent of the slot: where a share goes says nothing about the endpoint.
    pub(crate) fn share(self, shares: u64) -> u64 {
        // The finalizer of `SplitMix64` (Steele and others, 2014) over another number.
        let mixed = self.0.get() ^ SHARE_SEED;
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        scaled(mixed ^ (mixed >> 31), shares)
    }
}

/// A hash scaled to numbers below `end`.
fn scaled(hash: u64, end: u64) -> u64 {
    let scaled = u128::from(hash).wrapping_mul(end.into()) >> u64::BITS;
    u64::try_from(scaled).unwrap_or_default()
}

/// The golden ratio in 64 bits, as in `SplitMix64`.
const SHARE_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
