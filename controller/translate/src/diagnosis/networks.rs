//! Networks, and which of them contains another one.

use std::net::IpAddr;

use crate::network;

/// Networks in the order of their addresses. Of two, one contains the other or they have nothing in common.
pub(super) struct NetworkSet<'a> {
    /// First and last address, and the text.
    networks: Vec<(Address, Address, &'a str)>,
    /// For each of them, which one before it, or itself, reaches farthest.
    farthest: Vec<usize>,
}

/// The family and the bits of an address.
type Address = (bool, u128);

impl<'a> NetworkSet<'a> {
    /// The valid ones of these texts.
    pub(super) fn new(texts: impl Iterator<Item = &'a str>) -> Self {
        let networks =
            texts.filter_map(|text| range(text).map(|(first, last)| (first, last, text)));
        let mut networks: Vec<_> = networks.collect();
        networks.sort_unstable();
        let mut farthest: Vec<usize> = Vec::with_capacity(networks.len());
        for (index, network) in networks.iter().enumerate() {
            let before = farthest.last().copied();
            let reaching = before.filter(|it| networks[*it].1 >= network.1);
            farthest.push(reaching.unwrap_or(index));
        }
        Self { networks, farthest }
    }

    /// One of them that contains a network.
    pub(super) fn containing(&self, text: &str) -> Option<&'a str> {
        let (first, last) = range(text)?;
        let behind = self.networks.partition_point(|it| it.0 <= first);
        let farthest = self.farthest.get(behind.checked_sub(1)?)?;
        let (_, end, wide) = self.networks[*farthest];
        (end >= last).then_some(wide)
    }
}

/// The first and the last address of a network.
fn range(text: &str) -> Option<(Address, Address)> {
    let (address, length) = network::parse(text).ok()?;
    let (first, bits) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let rest = u128::MAX.checked_shr(128 - (bits - u32::from(length)));
    let family = address.is_ipv6();
    Some(((family, first), (family, first | rest.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::NetworkSet;

    #[test]
    fn a_network_is_found_in_the_one_that_contains_it() {
        let texts = ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.0/24", "::/0", "no"];
        let set = NetworkSet::new(texts.into_iter());
        for (text, expected) in [
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("10.1.2.0/24", Some("10.0.0.0/8")),
            ("10.200.0.0/16", Some("10.0.0.0/8")),
            ("192.0.2.7/32", Some("192.0.2.0/24")),
            ("192.0.0.0/16", None),
            ("0.0.0.0/0", None),
            ("2001:db8::/32", Some("::/0")),
            ("::/0", Some("::/0")),
            ("no", None),
        ] {
            assert_eq!(set.containing(text), expected, "{text}");
        }
        assert_eq!(NetworkSet::new([].into_iter()).containing("::/0"), None);
    }
}
