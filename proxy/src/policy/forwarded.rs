//! Forwarding headers for backends: `X-Forwarded-For`, `-Proto` and `-Host`.
//!
//! Headers of an untrusted peer are dropped and replaced by what the gateway observes. For a trusted hop
//! `X-Forwarded-For` is extended, `X-Forwarded-Proto` states the scheme that was decided by it, and its
//! other headers are kept. `X-Forwarded-Host` includes the port, so `X-Forwarded-Port` is only ever
//! forwarded.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use xds::model::{Scheme, Trust};

use super::headers::HeaderEdits;
use super::networks::Networks;
use crate::http::authority::Authority;
use crate::http::grammar;
use crate::http::head::Fields;
use crate::http::known::KnownHeader;

/// The previous hop, stored once per connection.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    address: IpAddr,
    scheme: Scheme,
    text: [u8; MAX_ADDRESS_BYTES],
    /// One byte, since every idle connection has it.
    text_len: u8,
}

impl Hop {
    /// A peer: its address (from the PROXY protocol if used), and its scheme.
    #[must_use]
    pub fn new(peer: IpAddr, scheme: Scheme) -> Self {
        let address = peer.to_canonical();
        let mut text = [0; MAX_ADDRESS_BYTES];
        let mut rest = text.as_mut_slice();
        // An address always fits; otherwise the line would be truncated.
        let _ = write!(rest, "{address}");
        let text_len = MAX_ADDRESS_BYTES.saturating_sub(rest.len());
        let text_len = u8::try_from(text_len).unwrap_or(u8::MAX);
        Self {
            address,
            scheme,
            text,
            text_len,
        }
    }

    /// The peer's address; IPv4-mapped addresses as IPv4.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The scheme of its connection.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    fn text(&self) -> &[u8] {
        self.text
            .get(..usize::from(self.text_len))
            .unwrap_or_default()
    }
}

/// The trusted hops: a compiled [`Trust`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TrustedHops {
    /// No hop is trusted.
    #[default]
    Nobody,
    /// This many hops, the last ones, are trusted.
    Last(usize),
    /// Hops in these networks are trusted.
    In(Networks),
}

impl TrustedHops {
    /// Compiles a trust setting; `None` trusts no hop.
    #[must_use]
    pub fn compile(trust: Option<&Trust>) -> Self {
        match trust {
            None => Self::Nobody,
            Some(Trust::Hops(hops)) => {
                Self::Last(usize::try_from(hops.get()).unwrap_or(usize::MAX))
            }
            Some(Trust::Sources(networks)) => Self::In(Networks::compile(networks)),
        }
    }

    /// Whether the peer's forwarding headers are trusted.
    #[must_use]
    pub fn header_trust(&self, hop: &Hop) -> HeaderTrust {
        if self.is_trusted(0, hop.address) {
            HeaderTrust::Trusted
        } else {
            HeaderTrust::Untrusted
        }
    }

    /// The client's address: the first one, counted back from the gateway, that was not added by a
    /// trusted hop.
    ///
    /// Each hop adds the address of the previous one, so an address is as trustworthy as the hop
    /// that added it. An invalid address ends the chain.
    #[must_use]
    pub fn client(&self, hop: &Hop, fields: &Fields, head: &[u8]) -> IpAddr {
        let mut client = hop.address;
        for (passed, entry) in entries_backwards(fields, head).enumerate() {
            if !self.is_trusted(passed, client) {
                break;
            }
            let Some(address) = address_of(entry) else {
                break;
            };
            client = address;
        }
        client
    }

    /// Whether an address is in the networks of the trusted sources.
    #[must_use]
    pub fn has_source(&self, address: IpAddr) -> bool {
        matches!(self, Self::In(_)) && self.is_trusted(0, address)
    }

    /// Whether the hop `passed` hops behind the peer is trusted.
    fn is_trusted(&self, passed: usize, address: IpAddr) -> bool {
        match self {
            Self::Nobody => false,
            Self::Last(hops) => passed < *hops,
            Self::In(networks) => networks.contains(address),
        }
    }
}

/// Whether a request's forwarding headers are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderTrust {
    /// They come from a trusted hop.
    Trusted,
    /// They may be forged.
    Untrusted,
}

impl HeaderTrust {
    /// Whether a request header is dropped: those that are generated, and untrusted ones.
    #[must_use]
    pub fn drops(self, known: KnownHeader, name: &[u8]) -> bool {
        match known {
            KnownHeader::XForwardedFor | KnownHeader::XForwardedProto => true,
            known => self.hides(known, name),
        }
    }

    /// Whether routing must not see a request header, since its sender is not trusted to set it.
    #[must_use]
    pub fn hides(self, known: KnownHeader, name: &[u8]) -> bool {
        match known {
            KnownHeader::Forwarded
            | KnownHeader::XForwardedFor
            | KnownHeader::XForwardedHost
            | KnownHeader::XForwardedPort
            | KnownHeader::XForwardedProto
            | KnownHeader::XRealIp => self == Self::Untrusted,
            KnownHeader::Other => self == Self::Untrusted && is_unlisted(name),
            _ => false,
        }
    }

    /// The scheme of the client's URL: the first hop's statement if trusted, otherwise that of the
    /// peer's connection. A WebSocket scheme counts as the one that it is based on (RFC 6455 section 3).
    #[must_use]
    pub fn scheme(self, hop: &Hop, fields: &Fields, head: &[u8]) -> Scheme {
        if self == Self::Untrusted {
            return hop.scheme;
        }
        // If each hop has added its own, the client's is the first.
        match first_value(KnownHeader::XForwardedProto, fields, head) {
            Some(value) if is_any_of(value, [b"https", b"wss"]) => Scheme::Https,
            Some(value) if is_any_of(value, [b"http", b"ws"]) => Scheme::Http,
            _ => hop.scheme,
        }
    }

    /// The port of the client's URL, if its connection ended at a trusted hop: the one that the hop
    /// states, otherwise that of `authority`, otherwise the scheme's. `None` if it ended here.
    #[must_use]
    pub fn port(
        self,
        scheme: Scheme,
        authority: &[u8],
        (fields, head): (&Fields, &[u8]),
    ) -> Option<u16> {
        if self == Self::Untrusted {
            return None;
        }
        let stated = first_value(KnownHeader::XForwardedPort, fields, head).and_then(port_of);
        if stated.is_none() && !fields.has(KnownHeader::XForwardedProto) {
            return None;
        }
        let own = || Authority::parse(authority)?.port;
        Some(stated.or_else(own).unwrap_or(well_known_port(scheme)))
    }

    /// Writes the forwarding headers of a request with these fields, this scheme and this authority,
    /// except names set by `edits`: filters take precedence.
    pub fn write_lines(
        self,
        hop: &Hop,
        (scheme, authority): (Scheme, &[u8]),
        request: (&Fields, &[u8]),
        edits: Option<&HeaderEdits>,
        out: &mut Vec<u8>,
    ) {
        let (fields, head) = request;
        let kept = |known| self == Self::Trusted && fields.has(known);
        let edited = |name: &str| edits.is_some_and(|edits| edits.drops(name.as_bytes()));
        if !edited("x-forwarded-for") {
            out.extend_from_slice(b"x-forwarded-for: ");
            if kept(KnownHeader::XForwardedFor) {
                write_chain(fields, head, out);
            }
            out.extend_from_slice(hop.text());
            out.extend_from_slice(b"\r\n");
        }
        if !edited("x-forwarded-proto") {
            out.extend_from_slice(match scheme {
                Scheme::Http => b"x-forwarded-proto: http\r\n",
                Scheme::Https => b"x-forwarded-proto: https\r\n",
            });
        }
        let host_known = !kept(KnownHeader::XForwardedHost) && !authority.is_empty();
        if host_known && !edited("x-forwarded-host") {
            out.extend_from_slice(b"x-forwarded-host: ");
            out.extend_from_slice(authority);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The first value of a field that may be a list.
fn first_value<'a>(known: KnownHeader, fields: &Fields, head: &'a [u8]) -> Option<&'a [u8]> {
    grammar::list(fields.value(known, head)?).next()
}

fn is_any_of<const N: usize>(value: &[u8], names: [&[u8]; N]) -> bool {
    names.iter().any(|name| value.eq_ignore_ascii_case(name))
}

fn port_of(digits: &[u8]) -> Option<u16> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let port = str::from_utf8(digits).ok()?.parse().ok();
    port.filter(|port| is_number && *port != 0)
}

/// The port of URLs without one.
#[must_use]
pub(super) fn well_known_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    }
}

/// Whether it is another forwarding header, such as `x-forwarded-prefix` or `x-forwarded-ssl`,
/// which some backends trust. Names with underscores never pass.
fn is_unlisted(name: &[u8]) -> bool {
    // Most names fail the first comparison.
    matches!(name, [b'x' | b'X', b'-', ..])
        && name
            .get(..PREFIX.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

const PREFIX: &[u8] = b"x-forwarded-";

/// Writes the received `X-Forwarded-For` lines as one list, with a comma after each.
fn write_chain(fields: &Fields, head: &[u8], out: &mut Vec<u8>) {
    for value in chain(fields, head).filter(|value| !value.is_empty()) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
}

fn chain<'a>(
    fields: &'a Fields,
    head: &'a [u8],
) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a> {
    let lines = if fields.has(KnownHeader::XForwardedFor) {
        fields.iter()
    } else {
        [].iter()
    };
    lines
        .filter(|field| field.known == KnownHeader::XForwardedFor)
        .map(|field| field.value.of(head))
}

/// Addresses of the chain, the last one first.
fn entries_backwards<'a>(
    fields: &'a Fields,
    head: &'a [u8],
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    chain(fields, head)
        .rev()
        .flat_map(|value| value.rsplit(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
}

/// An entry's address: plain, in brackets, or with a port.
fn address_of(entry: &[u8]) -> Option<IpAddr> {
    if entry.len() > MAX_ENTRY_BYTES {
        return None;
    }
    let text = std::str::from_utf8(entry).ok()?;
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok();
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    let address: IpAddr = address.or_else(with_port)?;
    Some(address.to_canonical())
}

/// `255.255.255.255`, or eight groups of IPv6.
const MAX_ADDRESS_BYTES: usize = 39;
/// An IPv6 address with brackets, zone index and port.
const MAX_ENTRY_BYTES: usize = 64;

#[cfg(test)]
mod tests;
