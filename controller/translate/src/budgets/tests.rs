use std::collections::BTreeSet;

use super::*;

#[test]
fn every_budget_has_a_name_of_its_own_and_a_default_within_its_cap() {
    let names: BTreeSet<&str> = Budget::ALL.iter().map(|it| it.definition().name).collect();
    assert_eq!(names.len(), Budget::ALL.len());
    for budget in Budget::ALL {
        let definition = budget.definition();
        assert!(definition.default <= definition.cap, "{budget}");
        let is_fixed = definition.default == definition.cap;
        assert_eq!(is_fixed, definition.raised_by == "nobody", "{budget}");
    }
}

#[test]
fn a_limit_is_at_most_its_cap() {
    let limits = Limits::default().with(Budget::RouteRules, u64::MAX);
    assert_eq!(limits, Limits::default());
    let limits = limits.with(Budget::RouteRules, 2);
    assert_eq!(limits.of(Budget::RouteRules), 2);
    assert_eq!(limits.of(Budget::ResourceBytes), 5 * MIB / 4);
}

#[test]
fn numbers_are_written_with_their_unit() {
    assert_eq!(Unit::Bytes.text(2 * MIB), "2 MiB");
    assert_eq!(Unit::Bytes.text(MIB + KIB), "1025 KiB");
    assert_eq!(Unit::Bytes.text(7), "7 bytes");
    assert_eq!(Unit::Count.text(4_096), "4096");
}
