//! What the tiers of a service had in the last minutes, and what they should have by that.

use std::time::Instant;

use super::preference::Preference;
use crate::limits::{LOCALITY_MEMORY, LOCALITY_SAMPLE};

/// What the tiers of a service had in the last minutes.
#[derive(Debug, Default)]
pub(super) struct Histories {
    /// Why its endpoints are in tiers now.
    current: Preference,
    /// For each reason, the nearest tier first. While a reason does not hold, there is nothing new to remember.
    of: Box<[(Preference, Box<[History]>)]>,
}

impl Histories {
    /// That of the tiers with these weights, the nearest first, after what was known `before`.
    pub(super) fn new(
        before: Option<&Self>,
        (preference, weights): (Preference, &[u64]),
        now: Instant,
    ) -> Self {
        let known = |preference| before.and_then(|before| before.of(preference));
        let tiers = weights.iter().enumerate().map(|(tier, weight)| {
            let behind = weights.iter().skip(tier + 1).sum();
            let before = known(preference).and_then(|it| it.get(tier));
            History::of(before, (*weight, behind), now)
        });
        let current = (preference != Preference::Nothing).then(|| (preference, tiers.collect()));
        let others = before.into_iter().flat_map(|before| &before.of);
        let others = others.filter(|(other, _)| *other != preference);
        let others = others.map(|(other, tiers)| {
            let ended = tiers.iter().map(|it| it.ended(now));
            (*other, ended.collect::<Box<[_]>>())
        });
        let others = others.filter(|(_, tiers)| are_recent(tiers, now));
        Self {
            current: preference,
            of: current.into_iter().chain(others).collect(),
        }
    }

    fn of(&self, preference: Preference) -> Option<&[History]> {
        let mut of = self.of.iter();
        of.find_map(|(other, tiers)| (*other == preference).then_some(&**tiers))
    }

    /// Whether any of it still counts.
    pub(super) fn are_recent(&self, now: Instant) -> bool {
        self.of.iter().any(|(_, tiers)| are_recent(tiers, now))
    }

    /// The weight that a tier should have.
    pub(super) fn expected(&self, tier: usize, now: Instant) -> u64 {
        let current = self.of(self.current).and_then(|it| it.get(tier));
        current.map_or(1, |it| it.expected(now))
    }
}

fn are_recent(tiers: &[History], now: Instant) -> bool {
    let mut samples = tiers.iter().flat_map(|it| &it.samples);
    samples.any(|it| it.is_recent(now))
}

/// What a tier had in the last minutes, compared with those behind it.
#[derive(Debug, Clone)]
struct History {
    /// The oldest first.
    samples: Vec<Sample>,
    /// What the tier should have, each until a time; the last one from then on.
    expected: Box<[(Option<Instant>, u64)]>,
}

/// The most that a tier had for a time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    /// Until when; `None` for what it has now.
    until: Option<Ended>,
    /// Its weight divided by that of those behind it.
    ratio: f64,
    /// Its weight.
    weight: u64,
}

/// When the states of a sample ended: the first and the last one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ended {
    first: Instant,
    last: Instant,
}

impl Sample {
    fn is_recent(&self, now: Instant) -> bool {
        self.forgotten_at().is_none_or(|at| now < at)
    }

    fn forgotten_at(&self) -> Option<Instant> {
        self.until.map(|until| until.last + LOCALITY_MEMORY)
    }

    /// Both as one, unless that would remember the older one for much too long.
    fn joined(&self, younger: &Self) -> Option<Self> {
        let (first, last) = (self.until?.first, younger.until?.last);
        let is_short = last.saturating_duration_since(first) <= LOCALITY_SAMPLE;
        is_short.then(|| Self {
            until: Some(Ended { first, last }),
            ratio: self.ratio.max(younger.ratio),
            weight: self.weight.max(younger.weight),
        })
    }
}

impl History {
    fn of(before: Option<&Self>, (weight, behind): (u64, u64), now: Instant) -> Self {
        let sample = Sample {
            until: None,
            ratio: ratio(weight, behind),
            weight,
        };
        let mut samples = before.map(|it| it.samples.clone()).unwrap_or_default();
        samples.retain(|it| it.is_recent(now));
        if samples.last() != Some(&sample) {
            end_last(&mut samples, now);
            samples.push(sample);
        }
        let remembered = (0..samples.len()).filter_map(|from| samples.get(from..));
        let expected = remembered.filter_map(|samples| {
            let until = samples.first()?.forgotten_at();
            Some((until, expected(samples, behind)))
        });
        let expected = expected.collect();
        Self { samples, expected }
    }

    /// The same, of which nothing goes on.
    fn ended(&self, now: Instant) -> Self {
        let mut ended = self.clone();
        end_last(&mut ended.samples, now);
        ended
    }

    fn expected(&self, now: Instant) -> u64 {
        let mut expected = self.expected.iter();
        let current = expected.find(|(until, _)| until.is_none_or(|until| now < until));
        current.map_or(1, |(_, expected)| *expected)
    }
}

/// Ends what goes on. What ended a moment before is joined with it, so that a service that changes all the time is
/// remembered in little room.
fn end_last(samples: &mut Vec<Sample>, now: Instant) {
    let Some(last) = samples.last_mut().filter(|it| it.until.is_none()) else {
        return;
    };
    last.until = Some(Ended {
        first: now,
        last: now,
    });
    if let [.., older, younger] = samples.as_mut_slice()
        && let Some(joined) = older.joined(younger)
    {
        *older = joined;
        samples.pop();
    }
}

/// Without any behind it, nothing but its own peak says what a tier should have.
#[expect(
    clippy::cast_precision_loss,
    reason = "a ratio of weights need not be exact"
)]
fn ratio(weight: u64, behind: u64) -> f64 {
    if behind == 0 {
        f64::INFINITY
    } else {
        weight as f64 / behind as f64
    }
}

/// The weight that a tier should have: to those behind it now as it was at its best, but no less than it has, and no
/// more than it had.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a weight that no endpoint has need not be exact, and the result is between two weights"
)]
fn expected(samples: &[Sample], behind: u64) -> u64 {
    let current = samples.last().map_or(0, |it| it.weight);
    let peak = samples.iter().map(|it| it.weight).max().unwrap_or(current);
    if behind == 0 {
        return current;
    }
    let ratio = samples.iter().map(|it| it.ratio).fold(0.0, f64::max);
    let wanted = (behind as f64 * ratio).min(peak as f64);
    (wanted.round() as u64).clamp(current, peak)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::preference::Preference::{NodeHints, Nothing, Zone, ZoneHints};
    use super::Histories;
    use crate::limits::{LOCALITY_MEMORY, LOCALITY_SAMPLE};

    const SECOND: Duration = Duration::from_secs(1);

    /// What the first tier should have after these weights of it and of those behind, one a second.
    fn expected(weights: &[(u64, u64)]) -> u64 {
        let begun = Instant::now();
        let mut histories = Histories::default();
        let mut now = begun;
        for (own, behind) in weights {
            now += SECOND;
            histories = Histories::new(Some(&histories), (Zone, &[*own, *behind]), now);
        }
        histories.expected(0, now)
    }

    #[test]
    fn a_tier_should_have_what_it_had_compared_with_those_behind_it() {
        assert_eq!(expected(&[(4, 8)]), 4, "a new proxy knows nothing else");
        assert_eq!(expected(&[(4, 8), (2, 8)]), 4, "it is drained");
        assert_eq!(
            expected(&[(4, 8), (1, 8), (1, 16)]),
            4,
            "no more than it had"
        );
        assert_eq!(expected(&[(10, 10), (5, 5)]), 5, "all are scaled in");
        assert_eq!(expected(&[(10, 10), (1, 5)]), 5, "this one more");
        assert_eq!(expected(&[(1, 8), (30, 8)]), 30, "it grows");
        assert_eq!(expected(&[(3, 0), (1, 0)]), 1, "there are no others");
        assert_eq!(expected(&[(3, 0), (1, 2)]), 3, "there were no others");
        assert_eq!(expected(&[(4, 8), (0, 8), (1, 8)]), 4, "it comes back");
    }

    #[test]
    fn what_it_had_is_forgotten_after_ten_minutes() {
        let begun = Instant::now();
        let full = Histories::new(None, (Zone, &[4, 8]), begun);
        let half_at = begun + 60 * SECOND;
        let half = Histories::new(Some(&full), (Zone, &[2, 8]), half_at);
        let until = half_at + LOCALITY_MEMORY;
        assert_eq!(
            half.expected(0, half_at + LOCALITY_MEMORY.saturating_sub(SECOND)),
            4
        );
        assert_eq!(half.expected(0, until), 2, "without any change");
        assert!(half.are_recent(until + 60 * SECOND), "it is so now");
    }

    /// The last endpoint of a zone goes, and with it every hint; the first that comes back is not crushed.
    #[test]
    fn what_it_had_is_remembered_while_nothing_is_preferred() {
        let begun = Instant::now();
        let full = Histories::new(None, (Zone, &[4, 8]), begun);
        let none = Histories::new(Some(&full), (Nothing, &[8]), begun + SECOND);
        let back = Histories::new(Some(&none), (Zone, &[1, 8]), begun + 2 * SECOND);
        assert_eq!(back.expected(0, begun + 2 * SECOND), 4);
        assert!(none.are_recent(begun + LOCALITY_MEMORY));
        assert!(!none.are_recent(begun + SECOND + LOCALITY_MEMORY));
        let late = begun + SECOND + LOCALITY_MEMORY;
        let late_back = Histories::new(Some(&none), (Zone, &[1, 8]), late);
        assert_eq!(late_back.expected(0, late), 1);
    }

    /// Slices of a Service with `PreferSameNode` have hints of both kinds: the last endpoint of the node goes, and the zone
    /// counts again.
    #[test]
    fn what_it_had_by_one_kind_of_hints_is_remembered_while_the_other_one_counts() {
        let begun = Instant::now();
        let zone = Histories::new(None, (ZoneHints, &[4, 8]), begun);
        let node = Histories::new(Some(&zone), (NodeHints, &[1, 11]), begun + SECOND);
        assert_eq!(node.expected(0, begun + SECOND), 1);
        let back = Histories::new(Some(&node), (ZoneHints, &[1, 8]), begun + 2 * SECOND);
        assert_eq!(back.expected(0, begun + 2 * SECOND), 4);
        let late = begun + SECOND + LOCALITY_MEMORY;
        let late_back = Histories::new(Some(&node), (ZoneHints, &[1, 8]), late);
        assert_eq!(late_back.expected(0, late), 1);
    }

    #[test]
    fn a_service_that_changes_all_the_time_is_remembered_in_little_room() {
        let mut histories = Histories::default();
        let mut now = Instant::now();
        for round in 0..100_000 {
            now += SECOND / 100;
            histories = Histories::new(Some(&histories), (Zone, &[1 + round % 7, 7]), now);
        }
        let most = LOCALITY_MEMORY.as_secs() / LOCALITY_SAMPLE.as_secs() + 3;
        let (_, tiers) = &histories.of[0];
        assert!(tiers[0].samples.len() as u64 <= most);
        assert_eq!(histories.expected(0, now), 7);
    }

    /// However often it changes, ten minutes end.
    #[test]
    fn a_peak_is_forgotten_by_a_service_that_changes_all_the_time() {
        let begun = Instant::now();
        let mut histories = Histories::new(None, (Zone, &[20, 8]), begun);
        let mut now = begun;
        for round in 0..180 {
            now += 10 * SECOND;
            histories = Histories::new(Some(&histories), (Zone, &[4 + round % 2, 8]), now);
            let expected = histories.expected(0, now);
            let age = now - begun;
            if age <= LOCALITY_MEMORY {
                assert_eq!(expected, 20, "after {age:?}");
            } else if age > LOCALITY_MEMORY + LOCALITY_SAMPLE + 10 * SECOND {
                assert_eq!(expected, 5, "after {age:?}");
            }
        }
    }
}
