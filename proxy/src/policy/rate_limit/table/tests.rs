use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xds::model::{Rate, RatePeriod};

use super::{Exhausted, KeyHash, Pace, Table, Taken};

/// Looks for the place of a key, and counts a request there.
fn take(table: &Table, key: KeyHash, pace: &Pace, now: u64) -> Result<Taken, Exhausted> {
    table.take((key, table.find(key, (pace, now))), pace, now)
}

fn pace(requests: u32, per: RatePeriod, burst: u32) -> Pace {
    let number = |it| NonZeroU32::new(it).expect("not 0");
    Pace::new(Rate::new(number(requests), per, number(burst)).expect("a rate"))
}

/// A hash of a number: splitmix64, the same in every run.
fn key(number: u64) -> KeyHash {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    KeyHash(hash ^ (hash >> 31))
}

/// Requests of a key that are allowed at a time, of so many.
fn allowed(table: &Table, pace: &Pace, number: u64, at: Duration, requests: u32) -> u32 {
    let taken = (0..requests).map(|_| take(table, key(number), pace, pace.at(at)));
    u32::try_from(taken.flatten().count()).expect("few")
}

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

#[test]
fn a_burst_is_allowed_at_once_and_then_the_rate() {
    let (table, pace) = (Table::new(1024), pace(10, RatePeriod::Second, 25));
    let at = Duration::from_millis;
    assert_eq!(allowed(&table, &pace, 1, at(0), 100), 25);
    let Exhausted { wait } = take(&table, key(1), &pace, 0).expect_err("it is spent");
    let wait = pace.time(wait);
    assert!(
        wait > at(99) && wait <= Duration::from_micros(100_001),
        "{wait:?}"
    );
    assert_eq!(allowed(&table, &pace, 1, at(99), 100), 0);
    assert_eq!(allowed(&table, &pace, 1, at(101), 100), 1);
    assert_eq!(allowed(&table, &pace, 1, at(1_101), 100), 10);
    assert_eq!(allowed(&table, &pace, 2, at(1_101), 100), 25, "another key");
    assert_eq!(allowed(&table, &pace, 1, at(60_000), 100), 25);
}

/// 70 000 a second are 14.3 µs each: whole microseconds would be 2 % off.
#[test]
fn no_rate_is_rounded() {
    let second = Duration::from_secs(1);
    for requests in [3, 7, 999, 70_000, 333_333, 1_000_000] {
        let (table, pace) = (Table::new(8), pace(requests, RatePeriod::Second, 10));
        let spent = allowed(&table, &pace, 1, second, 10);
        assert_eq!(spent, 10);
        let calls = 2_u64.saturating_mul(requests.into());
        let times =
            (1..=calls).map(|call| second + Duration::from_nanos(1_000_000_000 * call / calls));
        let passed: u32 = times.map(|at| allowed(&table, &pace, 1, at, 1)).sum();
        assert!(passed.abs_diff(requests) <= 1, "{passed} of {requests}");
    }
}

#[test]
fn slow_rates_are_exact_too() {
    let (table, pace) = (Table::new(8), pace(1, RatePeriod::Day, 30));
    let start = 400 * DAY;
    assert_eq!(allowed(&table, &pace, 1, start, 40), 30);
    // A unit is a 1024th of the time between two requests, here 84 s.
    let soon = DAY.saturating_sub(Duration::from_mins(3));
    assert_eq!(allowed(&table, &pace, 1, start + soon, 9), 0);
    assert_eq!(allowed(&table, &pace, 1, start + DAY + HOUR, 9), 1);
    assert_eq!(allowed(&table, &pace, 1, start + 31 * DAY, 99), 30);
}

/// A key that returns after any time has its burst, whatever turn the 40 bits are in.
#[test]
fn the_clock_may_jump() {
    for (requests, per, burst) in [
        (1_000_000, RatePeriod::Second, 1_000_000),
        (10, RatePeriod::Second, 10),
        (1, RatePeriod::Day, 30),
    ] {
        let (table, pace) = (Table::new(8), pace(requests, per, burst));
        let mut at = Duration::ZERO;
        for jump in [DAY, 31 * DAY, 365 * DAY, 3650 * DAY, 36_500 * DAY] {
            at += jump;
            assert_eq!(allowed(&table, &pace, 1, at, burst + 9), burst, "{at:?}");
            // The time of another shard may be a little earlier.
            let before = at.saturating_sub(Duration::from_secs(5));
            assert_eq!(allowed(&table, &pace, 1, before, 9), 0, "{at:?}");
        }
    }
}

/// Every key gets its burst and what its rate allows, whichever thread its requests come to.
#[test]
fn two_threads_count_many_keys_exactly() {
    const KEYS: u64 = 20_000;
    let (table, pace) = (Table::new(1 << 20), pace(10, RatePeriod::Second, 5));
    let passed: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let rounds = 12;
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for round in 0..rounds {
                    // 50 ms, half of a request.
                    let at = Duration::from_millis(50 * round);
                    for (number, passed) in (0..KEYS).zip(&passed) {
                        if take(&table, key(number), &pace, pace.at(at)).is_ok() {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    // 24 requests in 550 ms: a burst of 5, and 5 more. The threads are in different rounds, and a request
    // that comes with an earlier time may be refused that would have passed in order.
    for (number, passed) in passed.iter().enumerate() {
        let passed = passed.load(Ordering::Relaxed);
        assert!((5..=11).contains(&passed), "{passed} of key {number}");
    }
    let all: u64 = passed.iter().map(|it| it.load(Ordering::Relaxed)).sum();
    assert!(all >= KEYS * 9, "{all}");
}

#[test]
fn threads_that_race_for_a_key_get_one_burst_together() {
    let (table, pace) = (Table::new(8), pace(1, RatePeriod::Hour, 500));
    let passed = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let own = u64::from(allowed(&table, &pace, 1, HOUR, 10_000));
                passed.fetch_add(own, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(passed.into_inner(), 500);
}

/// The table of a rule with keys that are being refused, after a flood of so many keys that come once.
fn flood(table: u32, limited: u64, keys: u64) {
    let (table, pace) = (Table::new(table), pace(10, RatePeriod::Minute, 10));
    let limited = 0..limited;
    for number in limited.clone() {
        assert_eq!(allowed(&table, &pace, number, HOUR, 11), 10);
    }
    let (mut replaced, mut mistaken) = (0, 0);
    for number in 0..keys {
        // A second in all, in which no limited key is allowed a request.
        let at = HOUR + Duration::from_nanos(1_000_000_000 * number / keys);
        match take(&table, key(number + 1_000_000), &pace, pace.at(at)) {
            Ok(taken) => replaced += u64::from(taken.replaced),
            Err(_) => mistaken += 1,
        }
    }
    for number in limited {
        let after = HOUR + Duration::from_secs(1);
        assert_eq!(
            allowed(&table, &pace, number, after, 1),
            0,
            "{number} was freed"
        );
    }
    assert!(replaced > 0, "those who watch are told");
    // Of as many tags as there are, some are those of keys that are being refused, in the same sets.
    assert!(mistaken <= keys / 1_000_000, "{mistaken}");
}

#[test]
fn a_flood_of_keys_that_come_once_frees_no_limited_key() {
    flood(65_536, 500, 200_000);
}

/// As above, at the size that a machine reaches in minutes.
#[test]
#[ignore = "takes a minute in a debug build"]
fn a_flood_of_ten_million_keys_frees_no_limited_key() {
    let began = Instant::now();
    flood(1 << 20, 200_000, 10_000_000);
    eprintln!("{:?}", began.elapsed());
}

/// Some of the sets would have 8 keys that are being refused, or more: no place for another one.
#[test]
fn a_key_without_a_place_in_its_first_set_has_one_in_the_second() {
    const KEYS: u64 = 50_000;
    let (table, pace) = (Table::new(1 << 18), pace(1, RatePeriod::Hour, 2));
    let passed: u32 = (0..KEYS)
        .map(|number| allowed(&table, &pace, number, HOUR, 3))
        .sum();
    assert_eq!(u64::from(passed), 2 * KEYS);
    for number in 0..4 * KEYS {
        let new = take(&table, key(number + 1_000_000), &pace, pace.at(HOUR));
        assert!(new.is_ok(), "{number}");
    }
    let freed: u32 = (0..KEYS)
        .map(|number| allowed(&table, &pace, number, HOUR, 1))
        .sum();
    assert_eq!(freed, 0);
}

/// A new key is limited even where the set is full of keys that are being refused: one of them has its burst
/// once more.
#[test]
fn a_new_key_is_counted_where_all_keys_of_its_set_are_refused() {
    let (table, pace) = (Table::new(8), pace(1, RatePeriod::Hour, 3));
    for number in 0..8 {
        assert_eq!(allowed(&table, &pace, number, HOUR, 9), 3);
    }
    assert_eq!(allowed(&table, &pace, 99, HOUR, 1000), 3);
    let freed = (0..8).filter(|number| table.debt(key(*number), &pace, pace.at(HOUR)) == 0);
    assert_eq!(freed.count(), 1);
}

/// A key that returns after any time has what its rate has allowed since, and never less.
#[test]
fn no_age_of_a_key_is_mistaken_for_a_debt() {
    for (requests, per, burst) in [
        (1024, RatePeriod::Day, 1024),
        (1000, RatePeriod::Day, 1000),
        (1, RatePeriod::Day, 30),
        (5, RatePeriod::Hour, 5),
    ] {
        let pace = pace(requests, per, burst);
        // 64 ages of a burst, up to 60 bursts and at least two months.
        let (ages, start) = (60 * 64_u32, 100 * DAY);
        for age in 0..ages {
            let table = Table::new(8);
            assert_eq!(allowed(&table, &pace, 1, start, burst), burst);
            let age = pace.whole() / 64 * age;
            let due = age.as_secs_f64() * f64::from(requests) / per.length().as_secs_f64();
            let due = due.min(burst.into());
            let passed = f64::from(allowed(&table, &pace, 1, start + age, burst + 1));
            assert!((passed - due).abs() <= 1.01, "{passed} of {due} at {age:?}");
        }
    }
}

#[test]
fn of_equal_keys_the_older_stays() {
    let (table, pace) = (Table::new(8), pace(1, RatePeriod::Hour, 3));
    for number in 0..9 {
        let taken = take(&table, key(number), &pace, pace.at(HOUR)).expect("it passes");
        assert_eq!(taken.replaced, number == 8);
    }
    let owes = |number| table.debt(key(number), &pace, pace.at(HOUR)) > 0;
    let kept: Vec<u64> = (0..9).filter(|number| owes(*number)).collect();
    assert_eq!(kept, [0, 1, 2, 3, 4, 5, 6, 8]);
}

#[test]
fn what_is_given_back_can_be_taken_again() {
    let (table, pace) = (Table::new(8), pace(1, RatePeriod::Hour, 3));
    let now = pace.at(HOUR);
    assert_eq!(allowed(&table, &pace, 1, HOUR, 9), 3);
    table.give_back(key(1), &pace, now);
    table.give_back(key(2), &pace, now);
    assert_eq!(allowed(&table, &pace, 1, HOUR, 9), 1);
}

#[test]
fn another_size_or_pace_keeps_what_keys_owe() {
    let (small, fast) = (Table::new(4096), pace(10, RatePeriod::Minute, 10));
    for number in 0..200 {
        assert_eq!(allowed(&small, &fast, number, HOUR, 99), 10);
    }
    let slow = pace(1, RatePeriod::Minute, 5);
    for keys in [1024, 4096, 65_536] {
        let same = small.changed(keys, (&fast, fast.at(HOUR)), (&fast, fast.at(HOUR)));
        assert_eq!(same.keys(), keys as usize);
        let other = small.changed(keys, (&fast, fast.at(HOUR)), (&slow, slow.at(HOUR)));
        for number in 0..200 {
            assert_eq!(
                allowed(&same, &fast, number, HOUR, 9),
                0,
                "{number} of {keys}"
            );
            // A minute of debt is one request of the slower rate: four are left of five, less what is rounded.
            let left = allowed(&other, &slow, number, HOUR, 9);
            assert!((3..=4).contains(&left), "{left} of {number} of {keys}");
        }
    }
}

#[test]
fn memory_is_a_word_for_each_key() {
    for (keys, kept) in [
        (1, 8),
        (8, 8),
        (1024, 1024),
        (1025, 2048),
        (4_194_304, 4_194_304),
    ] {
        assert_eq!(Table::new(keys).keys(), kept);
    }
}
