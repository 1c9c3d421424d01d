//! Networks (CIDR) and addresses as people write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

/// Why a text is not a network, with advice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidNetwork {
    /// It is neither an address nor a network.
    #[error("`{0}` is not a network: write an address and a prefix length, such as 10.0.0.0/8")]
    Form(String),
    /// A network without a length.
    #[error("`{0}` has no prefix length: write `{0}/{1}` for this address alone")]
    NoLength(String, u8),
    /// The address has bits beyond the prefix length, so maybe the length is wrong.
    #[error("`{0}` has bits beyond its prefix length: write `{1}`, or correct the length")]
    HostBits(String, String),
}

/// Parses a network: an address, `/` and a prefix length. One of IPv4-mapped addresses becomes that of IPv4.
///
/// # Errors
///
/// It is not a network, or the address has bits beyond the length.
pub fn parse(text: &str) -> Result<(IpAddr, u8), InvalidNetwork> {
    let Some((address, length)) = text.split_once('/') else {
        let address: Option<IpAddr> = text.parse().ok();
        return Err(match address {
            Some(address) => InvalidNetwork::NoLength(text.to_owned(), bits(address)),
            None => InvalidNetwork::Form(shortened(text)),
        });
    };
    let invalid = || InvalidNetwork::Form(shortened(text));
    let address: IpAddr = address.parse().map_err(|_| invalid())?;
    let is_number = !length.is_empty() && length.bytes().all(|it| it.is_ascii_digit());
    let length: u8 = length.parse().map_err(|_| invalid())?;
    if !is_number || length > bits(address) {
        return Err(invalid());
    }
    let masked = masked(address, length);
    if masked != address {
        let (corrected, length) = unmapped(masked, length);
        let corrected = format!("{corrected}/{length}");
        return Err(InvalidNetwork::HostBits(text.to_owned(), corrected));
    }
    Ok(unmapped(address, length))
}

/// Parses a network, or an address for itself alone.
///
/// # Errors
///
/// It is neither.
pub fn parse_or_address(text: &str) -> Result<(IpAddr, u8), InvalidNetwork> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(unmapped(address, bits(address))),
        Err(_) => parse(text),
    }
}

/// What a text compared with a client's address is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AddressText {
    /// An address as it is compared.
    Canonical,
    /// An address that is compared as this text.
    Other(String),
    Network,
    /// It never equals an address.
    Neither,
}

/// Classifies a text that is compared with a client's address.
pub(crate) fn classify(text: &str) -> AddressText {
    if let Ok(address) = text.parse::<IpAddr>() {
        let canonical = address.to_canonical().to_string();
        return if canonical == text {
            AddressText::Canonical
        } else {
            AddressText::Other(canonical)
        };
    }
    let network = text.split_once('/');
    let is_network = network.is_some_and(|(address, length)| {
        address.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok()
    });
    if is_network {
        AddressText::Network
    } else {
        AddressText::Neither
    }
}

/// Whether a network has all addresses of its family.
pub(crate) fn is_everything(text: &str) -> bool {
    matches!(parse(text), Ok((_, 0)))
}

/// Number of bits of an address.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// Addresses of peers are compared as IPv4 where they are mapped.
pub(crate) fn unmapped(address: IpAddr, length: u8) -> (IpAddr, u8) {
    match (address.to_canonical(), length.checked_sub(MAPPED_BITS)) {
        (canonical @ IpAddr::V4(_), Some(length)) if address.is_ipv6() => (canonical, length),
        _ => (address, length),
    }
}

/// A text from a file, in a message.
fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Bits that IPv4-mapped addresses have before that of IPv4 (RFC 4291 section 2.5.5.2).
const MAPPED_BITS: u8 = 96;
/// Most characters of an invalid network in a message: 64.
const SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parsed: Result<(IpAddr, u8), InvalidNetwork>) -> Result<String, String> {
        let text = |(address, length)| format!("{address}/{length}");
        parsed.map(text).map_err(|why| why.to_string())
    }

    #[test]
    fn networks_are_parsed() {
        for (given, expected) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:a00:0/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:1.2.3.4/128", "1.2.3.4/32"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
        ] {
            let parsed = text(parse(given));
            if given.ends_with("/95") {
                assert!(parsed.expect_err(given).contains(expected));
            } else {
                assert_eq!(parsed.as_deref(), Ok(expected), "{given}");
            }
        }
        assert_eq!(
            text(parse_or_address("10.0.0.1")).as_deref(),
            Ok("10.0.0.1/32")
        );
        assert_eq!(
            text(parse_or_address("::ffff:10.0.0.1")).as_deref(),
            Ok("10.0.0.1/32")
        );
        assert_eq!(text(parse_or_address("::1")).as_deref(), Ok("::1/128"));
    }

    #[test]
    fn what_is_no_network_is_refused_with_advice() {
        for (given, advice) in [
            ("10.1.2.3/8", "write `10.0.0.0/8`"),
            ("2001:db8::1/32", "write `2001:db8::/32`"),
            ("::ffff:10.1.2.3/104", "write `10.0.0.0/8`"),
            ("10.0.0.1", "write `10.0.0.1/32`"),
            ("::1", "write `::1/128`"),
            ("10.0.0.0/33", "is not a network"),
            ("10.0.0.0/+8", "is not a network"),
            ("10.0.0.0/", "is not a network"),
            ("010.0.0.0/8", "is not a network"),
            ("10.0.0/8", "is not a network"),
            ("fe80::1%eth0/64", "is not a network"),
            ("", "is not a network"),
        ] {
            let why = text(parse(given)).expect_err(given);
            assert!(why.contains(advice), "{given}: {why}");
        }
    }

    #[test]
    fn texts_beside_addresses_are_classified() {
        for (given, expected) in [
            ("10.0.0.1", AddressText::Canonical),
            ("2001:db8::1", AddressText::Canonical),
            (
                "2001:DB8:0::1",
                AddressText::Other("2001:db8::1".to_owned()),
            ),
            ("::ffff:10.0.0.1", AddressText::Other("10.0.0.1".to_owned())),
            ("10.0.0.0/8", AddressText::Network),
            ("10.", AddressText::Neither),
            ("", AddressText::Neither),
        ] {
            assert_eq!(classify(given), expected, "{given}");
        }
    }
}
