use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::{Entry, OpenConnections};
use crate::names::Interned;

fn v4(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

#[test]
fn a_key_has_at_most_as_many_as_allowed_and_gets_them_back() {
    let open = OpenConnections::new(64);
    let key = open.client(0, v4(1));
    assert_eq!(open.enter(key, 2), Entry::Counted);
    assert_eq!(open.enter(key, 2), Entry::Counted);
    assert_eq!(open.enter(key, 2), Entry::Full);
    assert_eq!(open.enter(key, 3), Entry::Counted, "a raised limit");
    assert_eq!(open.enter(key, 1), Entry::Full, "a lowered one");
    for left in [2, 1, 0] {
        open.leave(key);
        assert_eq!(open.count(key), left);
    }
    open.leave(key);
    assert_eq!(open.count(key), 0, "no more than were counted");
    assert_eq!(open.enter(key, 1), Entry::Counted);
}

#[test]
fn clients_are_counted_by_address_and_port() {
    let open = OpenConnections::new(64);
    let of = |text: &str| open.client(0, text.parse().expect("an address"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_ne!(of("192.0.2.1"), open.client(1, v4(1)));
    assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"), "one /64");
    assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
    let mapped = Ipv6Addr::from_bits(u128::from(u64::MAX) << 64);
    assert_ne!(open.client(0, mapped.into()), of("255.255.255.255"));
}

/// As many clients as there are connections find a place, but for very few.
#[test]
fn a_full_process_counts_nearly_all() {
    const CONNECTIONS: u32 = 1 << 16;
    let open = OpenConnections::new(CONNECTIONS as usize);
    let keys = (0..CONNECTIONS).map(|index| open.client(0, Ipv4Addr::from_bits(index).into()));
    let keys: Vec<_> = keys.collect();
    let entered = keys.iter().map(|key| open.enter(*key, 1));
    let uncounted = entered.filter(|entry| *entry == Entry::Uncounted).count();
    assert!(uncounted <= CONNECTIONS as usize / 1_000, "{uncounted}");
    for key in &keys {
        open.leave(*key);
    }
    let is_free = |key| open.enter(key, 1) == Entry::Counted;
    assert!(
        keys.into_iter().take(64).all(is_free),
        "places are free again"
    );
}

/// Shards that count the same few keys at once never exceed a limit by more than places taken at the same
/// moment, and leave nothing behind.
#[test]
fn threads_keep_the_limit_and_leave_nothing() {
    const MAX: u32 = 3;
    let open = OpenConnections::new(64);
    let endpoint = |index| Interned {
        index,
        generation: 0,
    };
    let inside: Vec<AtomicU32> = (0..4).map(|_| AtomicU32::new(0)).collect();
    thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (open, inside) = (&open, &inside);
            scope.spawn(move || {
                for round in 0..20_000_u32 {
                    let index = (round ^ thread) % 4;
                    let key = open.endpoint(endpoint(index));
                    if open.enter(key, MAX) == Entry::Counted {
                        let inside = &inside[index as usize];
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(now <= 2 * MAX, "{now} at once");
                        inside.fetch_sub(1, Ordering::SeqCst);
                        open.leave(key);
                    }
                }
            });
        }
    });
    for index in 0..4 {
        assert_eq!(open.count(open.endpoint(endpoint(index))), 0);
    }
}
