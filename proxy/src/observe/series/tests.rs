use std::collections::HashMap;

use proptest::prelude::*;

use super::{Key, MethodClass, NO_BACKEND_INDEX, Owner, Series, SeriesTable, low_u32, registered};
use crate::failure::FailureKind;
use crate::names::Interned;

fn id(index: u32, generation: u32) -> Interned {
    Interned { index, generation }
}

fn series(route: Interned, status: u16) -> Series {
    Series {
        owner: Owner::Route(route),
        backend: None,
        method: MethodClass::Get,
        status: registered(status),
        reason: None,
    }
}

fn read(table: &SeriesTable) -> HashMap<Series, u64> {
    let mut counts = HashMap::new();
    table.for_each(|series, count| assert_eq!(counts.insert(series, count), None));
    counts
}

#[test]
fn series_are_counted_separately() {
    let table = SeriesTable::default();
    let mut expected = HashMap::new();
    for round in 0..3 {
        for route in 0..200 {
            for status in [200, 404, 503] {
                if route % 3 >= round {
                    table.count(&series(id(route, 0), status));
                    *expected.entry(series(id(route, 0), status)).or_insert(0) += 1;
                }
            }
        }
    }
    assert_eq!(read(&table), expected);
    assert_eq!(table.overflow(), 0);
}

#[test]
fn a_new_owner_replaces_the_entries_of_the_old_one() {
    let table = SeriesTable::default();
    for generation in 0..1_000 {
        table.count(&series(id(1, generation), 200));
        table.count(&series(id(1, generation), 200));
        assert_eq!(
            read(&table),
            HashMap::from([(series(id(1, generation), 200), 2)])
        );
    }
}

#[test]
fn unregistered_statuses_share_a_label() {
    for (status, label) in [
        (200, Some(200)),
        (499, Some(499)),
        (299, None),
        (999, None),
        (306, None),
    ] {
        assert_eq!(registered(status), label, "{status}");
    }
}

#[test]
fn unusual_methods_share_a_label() {
    assert_eq!(MethodClass::of(b"PATCH"), MethodClass::Patch);
    for method in [&b"get"[..], b"other", b"PROPFIND", b""] {
        assert_eq!(MethodClass::of(method), MethodClass::Other);
    }
}

#[test]
fn a_table_can_be_read_while_it_grows() {
    let table = SeriesTable::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for route in 0..5_000 {
                table.count(&series(id(route, 0), 200));
            }
        });
        let mut last = 0;
        while last < 5_000 {
            let counts = read(&table);
            assert!(counts.len() >= last);
            last = counts.len();
        }
    });
}

fn interned(max: u32, generations: u32) -> impl Strategy<Value = Interned> {
    (0..max, 0..generations).prop_map(|(index, generation)| id(index, generation))
}

proptest! {
    #[test]
    fn packed_series_round_trip(
        owner in interned(u32::MAX, u32::MAX),
        is_route: bool,
        backend in proptest::option::of(interned(low_u32(NO_BACKEND_INDEX), 1 << 17)),
        method in 0..8_usize,
        status in 0..1_000_u16,
        reason in proptest::option::of(0..FailureKind::ALL.len()),
    ) {
        let series = Series {
            owner: if is_route { Owner::Route(owner) } else { Owner::Listener(owner) },
            backend,
            method: MethodClass::ALL[method],
            status: registered(status),
            reason: reason.map(|at| FailureKind::ALL[at].into()),
        };
        let key = Key::pack(&series);
        prop_assert_ne!(key.labels, 0);
        prop_assert_eq!(key.unpack(), series);
    }
}
