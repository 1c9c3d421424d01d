//! Host names as Gateway API has them: exact, or a wildcard for one or more leading labels.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;
use thiserror::Error;

/// A lower-case DNS name, or `*.` and one. Never an IP address, never with a port or trailing dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Hostname(Box<str>);

/// A text that is not a valid [`Hostname`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a host name: {remedy}", remedy = remedy(.0))]
pub struct InvalidHostname(pub String);

fn remedy(text: &str) -> &'static str {
    match text {
        "*" => "leave it out for all hosts",
        _ => "use lower-case DNS labels, such as `example.com` or `*.example.com`",
    }
}

/// A text that is not an exact [`Hostname`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not an exact host name: use lower-case DNS labels, such as `example.com`")]
pub struct InvalidExactHostname(pub String);

impl Hostname {
    /// Parses an exact or wildcard name (RFC 1123 labels, at most 253 bytes).
    ///
    /// # Errors
    /// The text is empty, too long, an IP address, or has a label that DNS does not allow.
    pub fn parse(text: &str) -> Result<Self, InvalidHostname> {
        let name = text.strip_prefix("*.").unwrap_or(text);
        let valid = text.len() <= MAX_HOSTNAME_BYTES
            && name.split('.').all(is_label)
            && text.parse::<IpAddr>().is_err();
        if valid {
            Ok(Self(text.into()))
        } else {
            Err(InvalidHostname(text.to_owned()))
        }
    }

    /// Parses an exact name, without wildcard.
    ///
    /// # Errors
    ///
    /// The text is not a host name, or a wildcard.
    pub fn parse_exact(text: &str) -> Result<Self, InvalidExactHostname> {
        match Self::parse(text) {
            Ok(name) if name.wildcard_suffix().is_none() => Ok(name),
            _ => Err(InvalidExactHostname(text.to_owned())),
        }
    }

    /// The name as written, `*.` included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name below the wildcard: `example.com` of `*.example.com`.
    #[must_use]
    pub fn wildcard_suffix(&self) -> Option<&str> {
        self.0.strip_prefix("*.")
    }

    /// Whether it matches `host` (lower case, no port): equal, or one or more labels under the
    /// wildcard, never the bare domain.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        match self.wildcard_suffix() {
            None => *self.0 == *host,
            Some(suffix) => host
                .strip_suffix(suffix)
                .and_then(|labels| labels.strip_suffix('.'))
                .is_some_and(|labels| !labels.is_empty()),
        }
    }

    /// The hosts that both match: the narrower of the two if one contains the other.
    #[must_use]
    pub fn intersect<'a>(&'a self, other: &'a Self) -> Option<&'a Self> {
        if self.contains(other) {
            Some(other)
        } else if other.contains(self) {
            Some(self)
        } else {
            None
        }
    }

    fn contains(&self, other: &Self) -> bool {
        match other.wildcard_suffix() {
            // `*.a.b` contains `*.a.b` and everything deeper, such as `*.c.a.b`.
            Some(suffix) => {
                self == other || (self.wildcard_suffix().is_some() && self.matches(suffix))
            }
            None => self.matches(&other.0),
        }
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !label.is_empty()
        && label.len() <= 63
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether an address leads to the machine itself or to its link, where cloud providers have their
/// metadata servers, or to one that they have elsewhere: those hand out the machine's credentials.
#[must_use]
pub fn is_local_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => is_local_v4(it),
        IpAddr::V6(it) => {
            it.is_loopback()
                || it.is_unspecified()
                || it.is_unicast_link_local()
                || METADATA_V6
                    .iter()
                    .any(|(network, length)| shares_prefix(it, *network, *length))
                || embedded_v4(it).is_some_and(is_local_v4)
        }
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_link_local()
        || METADATA_V4.contains(&address)
}

fn shares_prefix(address: Ipv6Addr, network: Ipv6Addr, length: u32) -> bool {
    let differing = address.to_bits() ^ network.to_bits();
    differing.leading_zeros() >= length
}

/// The IPv4 address that an IPv6 address stands for.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let is_embedded = V4_NETWORKS
        .iter()
        .any(|network| shares_prefix(address, *network, 96));
    let [.., a, b, c, d] = address.octets();
    is_embedded.then(|| Ipv4Addr::new(a, b, c, d))
}

/// Networks of 96 bits in front of an IPv4 address: mapped (RFC 4291 section 2.5.5.2), compatible
/// (2.5.5.1), NAT64 (RFC 6052).
const V4_NETWORKS: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0),
    Ipv6Addr::UNSPECIFIED,
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
];

/// Metadata servers that are not link-local: Alibaba Cloud, Azure.
const METADATA_V4: [Ipv4Addr; 2] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
];

/// The same with IPv6, and length of the prefix: AWS, which has its metadata server at `::254` and
/// the credentials of pods at `::23` of a network that it uses for nothing else; Google Cloud.
const METADATA_V6: [(Ipv6Addr, u32); 2] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128),
];

/// RFC 1035: a name is at most 253 bytes in text form.
const MAX_HOSTNAME_BYTES: usize = 253;

#[cfg(test)]
mod tests {
    use super::{Hostname, is_local_address};

    fn host(text: &str) -> Hostname {
        Hostname::parse(text).expect("a valid name")
    }

    #[test]
    fn wildcard_covers_many_labels_but_never_the_bare_domain() {
        let wildcard = host("*.example.com");
        assert!(wildcard.matches("a.example.com"));
        assert!(wildcard.matches("a.b.example.com"));
        assert!(!wildcard.matches("example.com"));
        assert!(!wildcard.matches("badexample.com"));
    }

    #[test]
    fn the_intersection_is_the_more_specific_hostname() {
        let cases = [
            ("*.example.com", "a.example.com", Some("a.example.com")),
            ("*.example.com", "*.a.example.com", Some("*.a.example.com")),
            ("a.example.com", "a.example.com", Some("a.example.com")),
            ("*.example.com", "example.com", None),
            ("a.example.com", "b.example.com", None),
        ];
        for (a, b, expected) in cases {
            let (a, b) = (host(a), host(b));
            assert_eq!(a.intersect(&b).map(Hostname::as_str), expected);
            assert_eq!(b.intersect(&a).map(Hostname::as_str), expected);
        }
    }

    #[test]
    fn rejects_invalid_dns_names() {
        for text in [
            "", "*", "*.", "A.com", "a..b", "-a.com", "a_b.com", "1.2.3.4", "a.com.", "a:80",
        ] {
            assert!(Hostname::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn loopback_and_link_local_addresses_are_local_in_every_form() {
        for local in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "169.254.169.254",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.0.1",
            "::ffff:a9fe:a9fe",
            "::127.0.0.1",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
        ] {
            assert!(
                is_local_address(local.parse().expect("an address")),
                "{local}"
            );
        }
        for other in [
            "10.0.0.1",
            "192.168.0.1",
            "203.0.113.1",
            "fd00::1",
            "2001:db8::1",
            "100.100.100.201",
            "168.63.129.17",
            "fd00:ec3::254",
            "fd20:ce::253",
            "::ffff:10.0.0.1",
            "64:ff9b::203.0.113.1",
        ] {
            assert!(
                !is_local_address(other.parse().expect("an address")),
                "{other}"
            );
        }
    }

    #[test]
    fn metadata_servers_of_clouds_are_local_in_every_form() {
        for server in [
            "100.100.100.200",
            "::ffff:100.100.100.200",
            "::ffff:6464:64c8",
            "64:ff9b::100.100.100.200",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "::168.63.129.16",
            "fd00:ec2::254",
            "fd00:0ec2:0:0:0:0:0:0254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd20:00ce:0000::0254",
        ] {
            assert!(
                is_local_address(server.parse().expect("an address")),
                "{server}"
            );
        }
    }

    #[test]
    fn an_exact_name_is_not_a_wildcard() {
        assert_eq!(Hostname::parse_exact("a.com"), Ok(host("a.com")));
        assert!(Hostname::parse_exact("*.a.com").is_err());
        assert!(Hostname::parse_exact("A.com").is_err());
    }
}
