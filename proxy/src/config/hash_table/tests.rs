use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::HashTable;
use crate::config::{EndpointIdentity, EndpointRef};
use crate::names::Interned;
use crate::policy::hash_key::RequestKey;

const SLOTS: NonZeroU32 = NonZeroU32::new(65_537).expect("not 0");
const KEYS: u32 = 100_000;

fn address(number: u32) -> String {
    format!("10.0.{}.{}:8080", number / 256, number % 256)
}

fn id(index: u32) -> Interned {
    Interned {
        index,
        generation: 0,
    }
}

/// A table with the endpoints of these numbers and weights.
struct Replica {
    table: HashTable,
    serving: Vec<EndpointRef>,
}

impl Replica {
    fn new(endpoints: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let weight = |weight| NonZeroU32::new(weight).expect("not 0");
        let (serving, members): (Vec<_>, Vec<_>) = endpoints
            .into_iter()
            .map(|(number, share)| {
                let identity = EndpointIdentity::new("Service/app/shop:80", &address(number));
                let (id, weight) = (id(number), weight(share));
                (EndpointRef { id, weight }, (identity, weight))
            })
            .unzip();
        Self {
            table: HashTable::build(SLOTS, &members),
            serving,
        }
    }

    fn equal(numbers: impl IntoIterator<Item = u32>) -> Self {
        Self::new(numbers.into_iter().map(|number| (number, 1)))
    }

    fn of(&self, key: u32, may: impl Fn(Interned) -> bool) -> Option<u32> {
        let key = RequestKey::of_text(key.to_string().as_bytes());
        let may = |_, id| may(id);
        self.table.first(key, &self.serving, may).map(|id| id.index)
    }

    fn any(&self, key: u32) -> u32 {
        self.of(key, |_| true).expect("there are endpoints")
    }
}

#[test]
fn three_replicas_agree_on_all_keys() {
    let [one, two, three] = [(); 3].map(|()| Replica::equal(0..100));
    for key in 0..KEYS {
        let endpoint = one.any(key);
        assert_eq!((two.any(key), three.any(key)), (endpoint, endpoint));
    }
}

#[test]
fn few_keys_of_others_move_when_one_of_100_endpoints_leaves_or_comes() {
    let all = Replica::equal(0..100);
    for gone in [0, 37, 99] {
        let rest = Replica::equal((0..100).filter(|number| *number != gone));
        let of_others = (0..KEYS).filter(|key| all.any(*key) != gone);
        let moved = of_others
            .filter(|key| all.any(*key) != rest.any(*key))
            .count();
        assert!(moved * 50 <= KEYS as usize, "{moved} of {KEYS} keys moved");
    }
}

#[test]
fn endpoints_get_as_many_slots_as_their_weights_say() {
    for weights in [
        &[1; 10][..],
        &[1, 2, 3],
        &[5, 1, 1, 1],
        &[1_000_000, 500_000],
    ] {
        let replica = Replica::new((0..).zip(weights.iter().copied()));
        let mut slots = BTreeMap::<u16, f64>::new();
        for slot in &replica.table.slots {
            *slots.entry(*slot).or_default() += 1.0;
        }
        let total: f64 = weights.iter().copied().map(f64::from).sum();
        for (position, weight) in weights.iter().enumerate() {
            let share = slots[&u16::try_from(position).expect("few")] / f64::from(SLOTS.get());
            let off = share / (f64::from(*weight) / total) - 1.0;
            assert!(off.abs() < 0.01, "{weights:?}: {slots:?}");
        }
    }
}

#[test]
fn a_key_goes_to_the_next_distinct_endpoint_and_back() {
    let replica = Replica::equal(0..10);
    let mut next = BTreeMap::<u32, u32>::new();
    for key in 0..1_000 {
        let first = replica.any(key);
        let second = replica.of(key, |id| id.index != first).expect("others");
        assert_ne!(first, second);
        let third = replica.of(key, |id| ![first, second].contains(&id.index));
        assert!(third.is_some_and(|third| ![first, second].contains(&third)));
        *next.entry(second).or_default() += 1;
        assert_eq!(replica.any(key), first);
    }
    // The keys of one that is out of service are spread over all others.
    assert_eq!(next.len(), 10, "{next:?}");
}

#[test]
fn the_only_endpoint_that_is_left_is_found() {
    let replica = Replica::equal(0..5_000);
    for key in 0..20 {
        assert_eq!(replica.of(key, |id| id.index == 4_321), Some(4_321));
        assert_eq!(replica.of(key, |_| false), None);
    }
    let none = Replica::equal([]);
    assert!(none.table.is_empty());
    assert_eq!(none.of(1, |_| true), None);
}
