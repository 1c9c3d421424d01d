use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::{Handle, SLOTS, Tick, Wheel};
use crate::limits::WHEEL_TICK;

const NOBODY: [u32; 0] = [];
const TURN: u64 = SLOTS as u64;

fn fired(wheel: &mut Wheel<u32>, now: u64) -> Vec<u32> {
    let mut fired = Vec::new();
    wheel.advance(Tick(now), |value| {
        fired.push(*value);
        None
    });
    fired
}

#[test]
fn an_entry_fires_once_at_its_tick() {
    let mut wheel = Wheel::new(Tick(5));
    let handle = wheel.insert(1);
    wheel.arm(handle, Tick(8));
    assert_eq!(fired(&mut wheel, 7), NOBODY);
    assert_eq!(fired(&mut wheel, 8), [1]);
    assert_eq!(fired(&mut wheel, 8 + 3 * TURN), NOBODY);
}

#[test]
fn postponing_a_deadline_keeps_the_entry_in_its_slot() {
    let mut wheel = Wheel::new(Tick(0));
    let handle = wheel.insert(1);
    wheel.arm(handle, Tick(10));
    wheel.arm(handle, Tick(20));
    assert_eq!(wheel.at(handle.index).queued, 10);
    assert_eq!(fired(&mut wheel, 15), NOBODY);
    assert_eq!(wheel.at(handle.index).queued, 20);
    wheel.arm(handle, Tick(17));
    assert_eq!(fired(&mut wheel, 17), [1]);
}

#[test]
fn a_deadline_in_the_past_fires_at_the_next_tick() {
    let mut wheel = Wheel::new(Tick(100));
    let handle = wheel.insert(1);
    wheel.arm(handle, Tick(3));
    assert_eq!(fired(&mut wheel, 100), NOBODY);
    assert_eq!(fired(&mut wheel, 101), [1]);
}

#[test]
fn deadlines_beyond_one_turn_of_the_wheel_fire_in_a_later_turn() {
    let mut wheel = Wheel::new(Tick(0));
    let handle = wheel.insert(1);
    wheel.arm(handle, Tick(5 * TURN + 1));
    for turn in 1..=5 {
        assert_eq!(fired(&mut wheel, turn * TURN), NOBODY, "turn {turn}");
    }
    assert_eq!(fired(&mut wheel, 5 * TURN + 1), [1]);
}

#[test]
fn an_entry_can_rearm_itself() {
    let mut wheel = Wheel::new(Tick(0));
    let handle = wheel.insert(0);
    wheel.arm(handle, Tick(1));
    for now in 1..=10 {
        // Every second tick; the past means the next one.
        let again = |value: &mut u32| {
            *value += 1;
            (now < 8).then_some(Tick(if now < 5 { now + 2 } else { 0 }))
        };
        wheel.advance(Tick(now), again);
    }
    assert_eq!(wheel.value(handle), Some(&mut 6));
}

#[test]
fn deadlines_never_fire_early() {
    for (now, time, tick) in [
        (0, 0, 1),
        (0, 1, 2),
        (99, 100, 2),
        (100, 101, 4),
        (250, 1_000, 13),
    ] {
        let (now, time) = (Duration::from_millis(now), Duration::from_millis(time));
        let due = Tick::at(now).after(time);
        assert_eq!(due, Tick(tick), "{now:?} + {time:?}");
        assert!(WHEEL_TICK * u32::try_from(tick).expect("small") > now + time);
    }
    assert_eq!(Tick(3).after(Duration::MAX), Tick(u64::MAX));
}

#[test]
fn a_stale_handle_refers_to_no_entry() {
    let mut wheel = Wheel::new(Tick(0));
    let old = wheel.insert(1);
    assert_eq!(wheel.remove(old), Some(1));
    let new = wheel.insert(2);
    wheel.arm(old, Tick(5));
    assert_eq!(wheel.remove(old), None);
    assert_eq!(fired(&mut wheel, 10), NOBODY);
    assert_eq!(wheel.value(new), Some(&mut 2));
}

#[test]
fn removed_entries_are_reused() {
    let mut wheel = Wheel::new(Tick(0));
    for round in 0..1_000 {
        let handles: Vec<_> = (0..8).map(|value| wheel.insert(value)).collect();
        for handle in &handles {
            wheel.arm(*handle, Tick(round + 50));
        }
        wheel.advance(Tick(round), |_| None);
        for handle in handles {
            wheel.remove(handle);
        }
    }
    assert_eq!(wheel.entries.len(), 8);
}

#[derive(Debug, Clone)]
enum Step {
    Insert,
    Remove(usize),
    Arm(usize, u64),
    Disarm(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let ahead = prop_oneof![0..20_u64, 0..3 * TURN];
    prop_oneof![
        2 => Just(Step::Insert),
        1 => any::<usize>().prop_map(Step::Remove),
        6 => (any::<usize>(), ahead.clone()).prop_map(|(which, in_)| Step::Arm(which, in_)),
        1 => any::<usize>().prop_map(Step::Disarm),
        4 => ahead.prop_map(Step::Advance),
    ]
}

/// A naive model of the wheel, which checks every entry at each tick.
#[derive(Default)]
struct Naive {
    due: BTreeMap<u32, Option<u64>>,
    now: u64,
}

impl Naive {
    fn advance(&mut self, by: u64) -> Vec<u32> {
        self.now += by;
        let now = self.now;
        let mut fired = Vec::new();
        for (value, due) in &mut self.due {
            if due.take_if(|due| *due <= now).is_some() {
                fired.push(*value);
            }
        }
        fired
    }
}

proptest! {
    #[test]
    fn the_wheel_agrees_with_a_naive_model(steps in prop::collection::vec(step(), 1..200)) {
        let mut wheel = Wheel::new(Tick(0));
        let mut naive = Naive::default();
        let mut handles: Vec<(u32, Handle)> = Vec::new();
        for (value, step) in (0..).zip(steps) {
            let pick = |which: usize| handles.get(which % handles.len().max(1)).copied();
            match step {
                Step::Insert => {
                    handles.push((value, wheel.insert(value)));
                    naive.due.insert(value, None);
                }
                Step::Remove(which) => if let Some((value, handle)) = pick(which) {
                    prop_assert_eq!(wheel.remove(handle).is_some(), naive.due.remove(&value).is_some());
                },
                Step::Arm(which, ahead) => if let Some((value, handle)) = pick(which) {
                    wheel.arm(handle, Tick(naive.now + ahead));
                    let due = naive.now + ahead.max(1);
                    naive.due.entry(value).and_modify(|entry| *entry = Some(due));
                },
                Step::Disarm(which) => if let Some((value, handle)) = pick(which) {
                    wheel.disarm(handle);
                    naive.due.entry(value).and_modify(|entry| *entry = None);
                },
                Step::Advance(by) => {
                    let expected = naive.advance(by);
                    let mut actual = fired(&mut wheel, naive.now);
                    actual.sort_unstable();
                    prop_assert_eq!(actual, expected);
                }
            }
        }
    }
}
