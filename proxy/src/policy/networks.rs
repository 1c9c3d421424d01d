//! Sets of networks (CIDR).

use std::net::IpAddr;

/// A set of networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Box<[Network]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    V4 { bits: u32, mask: u32 },
    V6 { bits: u128, mask: u128 },
}

impl Networks {
    /// Compiles addresses with prefix lengths; bits beyond the length are ignored.
    #[must_use]
    pub fn compile(list: &[(IpAddr, u8)]) -> Self {
        let network = |&(address, length): &(IpAddr, u8)| match address {
            IpAddr::V4(address) => {
                let host_bits = 32_u32.saturating_sub(u32::from(length));
                let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
                let bits = address.to_bits() & mask;
                Network::V4 { bits, mask }
            }
            IpAddr::V6(address) => {
                let host_bits = 128_u32.saturating_sub(u32::from(length));
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                let bits = address.to_bits() & mask;
                Network::V6 { bits, mask }
            }
        };
        Self(list.iter().map(network).collect())
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is in one of the networks. IPv4-mapped addresses count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| match (network, address) {
            (Network::V4 { bits, mask }, IpAddr::V4(address)) => address.to_bits() & mask == *bits,
            (Network::V6 { bits, mask }, IpAddr::V6(address)) => address.to_bits() & mask == *bits,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::Networks;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn contains_by_prefix() {
        for (network, length, address, expected) in [
            ("10.0.0.0", 8, "10.255.0.1", true),
            ("10.0.0.0", 8, "11.0.0.1", false),
            ("10.1.2.3", 8, "10.9.9.9", true),
            ("10.1.2.3", 32, "10.1.2.3", true),
            ("10.1.2.3", 32, "10.1.2.2", false),
            ("0.0.0.0", 0, "203.0.113.9", true),
            ("0.0.0.0", 0, "2001:db8::1", false),
            ("10.0.0.0", 8, "::ffff:10.1.1.1", true),
            ("2001:db8::", 32, "2001:db8:1::1", true),
            ("2001:db8::", 32, "2001:db9::1", false),
            ("::", 0, "::1", true),
            ("::1", 128, "::1", true),
        ] {
            let networks = Networks::compile(&[(ip(network), length)]);
            let case = format!("{address} in {network}/{length}");
            assert_eq!(networks.contains(ip(address)), expected, "{case}");
        }
        assert!(!Networks::default().contains(ip("10.0.0.1")));
    }
}
