//! Sets of networks (CIDR).
//!
//! A set is kept as ranges of addresses that neither overlap nor touch, in their order, with an index of levels: of
//! each block of ranges, the level above has the first address. A look-up compares with all addresses of one block of
//! each level, four blocks among 64 Ki networks, whose cache lines are read together. With a binary search, each of its
//! 16 steps would wait for the one before: of IPv6 it takes a fifth longer, and of IPv4 a fifth less.

use std::net::IpAddr;

/// A set of networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

/// Ranges of addresses. The first addresses are apart from the last ones: a search reads only those.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ranges<A> {
    /// The first address of each block of the level below, from the level of one block down to that of the blocks of
    /// ranges.
    index: Box<[Box<[A]>]>,
    firsts: Box<[A]>,
    lasts: Box<[A]>,
}

impl Networks {
    /// Compiles addresses with prefix lengths; bits beyond the length are ignored.
    #[must_use]
    pub fn compile<'a>(networks: impl IntoIterator<Item = &'a (IpAddr, u8)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (address, length) in networks {
            match address {
                IpAddr::V4(address) => {
                    let hosts = u32::MAX.checked_shr(u32::from(*length)).unwrap_or(0);
                    let first = address.to_bits() & !hosts;
                    v4.push((first, first | hosts));
                }
                IpAddr::V6(address) => {
                    let hosts = u128::MAX.checked_shr(u32::from(*length)).unwrap_or(0);
                    let first = address.to_bits() & !hosts;
                    v6.push((first, first | hosts));
                }
            }
        }
        Self {
            v4: Ranges::join(v4, |address| address.checked_add(1)),
            v6: Ranges::join(v6, |address| address.checked_add(1)),
        }
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v4.firsts.is_empty() && self.v6.firsts.is_empty()
    }

    /// Whether an address is in one of the networks. IPv4-mapped addresses count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.contains(address.to_bits()),
            IpAddr::V6(address) => self.v6.contains(address.to_bits()),
        }
    }
}

impl<A: Copy + Ord> Ranges<A> {
    /// Joins ranges that overlap or touch. `next` is the address after one, if there is any.
    fn join(mut ranges: Vec<(A, A)>, next: impl Fn(A) -> Option<A>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(A, A)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if next(*end).is_none_or(|next| first <= next) => {
                    *end = last.max(*end);
                }
                _ => joined.push((first, last)),
            }
        }
        let (firsts, lasts): (Vec<A>, Vec<A>) = joined.into_iter().unzip();
        let above = |below: &[A]| -> Option<Box<[A]>> {
            (below.len() > BLOCK).then(|| below.iter().copied().step_by(BLOCK).collect())
        };
        let levels = std::iter::successors(above(&firsts), |below| above(below));
        let mut index: Vec<Box<[A]>> = levels.collect();
        index.reverse();
        Self {
            index: index.into(),
            firsts: firsts.into(),
            lasts: lasts.into(),
        }
    }

    fn contains(&self, address: A) -> bool {
        self.last_begun_at(address)
            .is_some_and(|last| address <= last)
    }

    /// The last address of the last range that begins at an address or before it.
    fn last_begun_at(&self, address: A) -> Option<A> {
        let mut block = 0_usize;
        for level in &self.index {
            block = last_at_most(level, block, address)?;
        }
        let at = last_at_most(&self.firsts, block, address)?;
        self.lasts.get(at).copied()
    }
}

/// Where the last address of a level's block is that is at most this one.
fn last_at_most<A: Copy + Ord>(level: &[A], block: usize, address: A) -> Option<usize> {
    let start = block.checked_mul(BLOCK)?;
    let block = level.get(start..)?;
    let block = block.get(..BLOCK).unwrap_or(block);
    // Of all, since whether one is below is hardly ever foreseen.
    let begun = block.iter().filter(|first| **first <= address).count();
    start
        .checked_add(begun)?
        .checked_sub(1)
        .filter(|at| *at >= start)
}

/// Addresses of a block: 16, which are one cache line of IPv4 and four of IPv6.
const BLOCK: usize = 16;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use rand::rngs::SmallRng;
    use rand::{RngExt as _, SeedableRng as _};

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
            ("255.255.255.255", 32, "255.255.255.255", true),
            ("10.0.0.0", 8, "::ffff:10.1.1.1", true),
            ("2001:db8::", 32, "2001:db8:1::1", true),
            ("2001:db8::", 32, "2001:db9::1", false),
            ("::", 0, "::1", true),
            ("::", 0, "10.0.0.1", false),
            ("::1", 128, "::1", true),
        ] {
            let networks = Networks::compile(&[(ip(network), length)]);
            let case = format!("{address} in {network}/{length}");
            assert_eq!(networks.contains(ip(address)), expected, "{case}");
        }
        assert!(!Networks::default().contains(ip("10.0.0.1")));
    }

    #[test]
    fn networks_that_touch_or_overlap_are_one() {
        let all = [
            ("10.0.0.0", 9),
            ("10.128.0.0", 9),
            ("10.1.0.0", 16),
            ("255.0.0.0", 8),
        ];
        let networks = Networks::compile(&all.map(|(address, length)| (ip(address), length)));
        assert_eq!(networks.v4.firsts.len(), 2);
        assert!(networks.contains(ip("10.200.0.1")) && !networks.contains(ip("11.0.0.0")));
        assert!(networks.contains(ip("255.255.255.255")));
    }

    #[test]
    fn ranges_of_all_blocks_are_found() {
        for count in [1, 15, 16, 17, 255, 256, 257, 5000_u16] {
            let of = |number: u16, last| {
                let [high, low] = number.to_be_bytes();
                IpAddr::from([10, high, low, last])
            };
            let list: Vec<(IpAddr, u8)> = (0..count).map(|it| (of(it, 0), 25)).collect();
            let networks = Networks::compile(&list);
            for it in 0..count {
                assert!(networks.contains(of(it, 127)), "{it} of {count}");
                assert!(!networks.contains(of(it, 128)), "{it} of {count}");
            }
            assert!(!networks.contains([9, 255, 255, 255].into()));
            assert!(!networks.contains(of(count, 0)));
        }
    }

    /// Whether an address differs from that of a network only in bits beyond its length.
    fn covers((network, length): (IpAddr, u8), address: IpAddr) -> bool {
        match (network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= length.into()
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= length.into()
            }
            _ => false,
        }
    }

    /// Against a search of all networks.
    #[test]
    fn a_set_has_the_addresses_of_its_networks_alone() {
        let mut rng = SmallRng::seed_from_u64(44);
        for _ in 0..200 {
            let count = rng.random_range(0..12);
            // From few addresses, so that they overlap and touch.
            let list: Vec<(IpAddr, u8)> = (0..count)
                .map(|_| {
                    let last: u8 = rng.random_range(0..64);
                    if rng.random() {
                        ([10, 0, 0, last].into(), rng.random_range(26..=32))
                    } else {
                        let address = u128::from(last) | 0x2001_0db8 << 96;
                        (
                            IpAddr::from(address.to_be_bytes()),
                            rng.random_range(122..=128),
                        )
                    }
                })
                .collect();
            let networks = Networks::compile(&list);
            let is_in = |address: IpAddr| list.iter().any(|one| covers(*one, address));
            for last in 0..80_u8 {
                let v4 = IpAddr::from([10, 0, 0, last]);
                let v6 = u128::from(last) | 0x2001_0db8 << 96;
                let v6 = IpAddr::from(v6.to_be_bytes());
                assert_eq!(networks.contains(v4), is_in(v4), "{v4} in {list:?}");
                assert_eq!(networks.contains(v6), is_in(v6), "{v6} in {list:?}");
            }
        }
    }
}
