//! How requests are spread over endpoints.

use std::time::Duration;

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    Balance, BoundedLoad, HashBalance, HashKey, HashTableSize, Locality, LocalityMode, SlowStart,
    Spill,
};

use super::value::header_name;

prop_compose! {
    pub(super) fn balance()(
        hash in option::of(hash()),
        slow_start in option::of((1_000..=900_000_u64, 1..=100_u32, 10..=1000_u32)),
        locality in option::of(locality()),
    ) -> Balance {
        let slow_start = slow_start.map(|(window, minimum, aggression)| {
            SlowStart::new(Duration::from_millis(window), minimum, aggression).expect("in range")
        });
        Balance { hash, slow_start, locality }
    }
}

prop_compose! {
    fn locality()(
        mode in prop_oneof![
            Just(LocalityMode::Off),
            Just(LocalityMode::Hints),
            Just(LocalityMode::PreferZone),
            Just(LocalityMode::PreferNode),
        ],
        spill in prop_oneof![Just(Spill::Proportional), Just(Spill::Never)],
    ) -> Locality {
        Locality { mode, spill }
    }
}

prop_compose! {
    fn hash()(
        by in vec(key(), 1..=4),
        table in prop_oneof![Just(1021), Just(65_537), Just(131_071)],
        bound in option::of(101..=1000_u32),
    ) -> HashBalance {
        let table = HashTableSize::new(table).expect("a prime number");
        let bound = bound.map(|percent| BoundedLoad::new(percent).expect("in range"));
        HashBalance::new(by, table, bound).expect("1 to 4 keys")
    }
}

fn key() -> impl Strategy<Value = HashKey> {
    prop_oneof![
        (0..=32_u8, 0..=128_u8).prop_map(|(ipv4_prefix, ipv6_prefix)| HashKey::ClientAddress {
            ipv4_prefix,
            ipv6_prefix,
        }),
        header_name().prop_map(HashKey::Header),
        "[a-z]{1,8}".prop_map(HashKey::Claim),
        "[a-z]{1,8}".prop_map(HashKey::Cookie),
        "[a-z]{1,8}".prop_map(HashKey::Query),
    ]
}
