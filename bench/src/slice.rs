//! A run in slices: what one comes to, and their sum. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::load::Turn;
use crate::load::latency::Collector;
use crate::noise::Noise;

/// What was measured in one slice.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// Requests that the origin answered.
    pub(crate) requests: u64,
    /// Nanoseconds of CPU of the proxy.
    pub(crate) cpu: u64,
    /// Nanoseconds of CPU of the origin.
    pub(crate) origin_cpu: u64,
    /// What the load tells.
    pub(crate) turn: Turn,
    /// What disturbed it, if anything did.
    pub(crate) noise: Option<Noise>,
}

/// The sum over the slices of a run.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    /// Requests that the origin answered.
    pub(crate) requests: u64,
    /// Seconds under load.
    pub(crate) seconds: f64,
    /// Nanoseconds of CPU of the proxy.
    pub(crate) cpu: u64,
    /// Nanoseconds of CPU of the origin.
    pub(crate) origin_cpu: u64,
    /// Latencies of all slices.
    pub(crate) latency: Option<Collector>,
    /// Requests whose connection broke before an answer.
    pub(crate) lost: u64,
    /// What only this load measures.
    pub(crate) extra: BTreeMap<String, f64>,
    slices: usize,
    disturbed: usize,
    worst: Noise,
}

impl Sum {
    /// One more slice.
    pub(crate) fn add(&mut self, slice: Slice) {
        self.requests += slice.requests;
        self.seconds += slice.turn.seconds;
        self.cpu += slice.cpu;
        self.origin_cpu += slice.origin_cpu;
        self.lost += slice.turn.lost;
        match (&mut self.latency, slice.turn.latency) {
            (Some(sum), Some(latency)) => sum.add(&latency),
            (sum @ None, latency) => *sum = latency,
            (Some(_), None) => {}
        }
        for (name, value) in slice.turn.extra {
            *self.extra.entry(name).or_default() += value;
        }
        self.slices += 1;
        if let Some(noise) = slice.noise {
            self.disturbed += 1;
            self.worst = self.worst.max(noise);
        }
    }

    /// What disturbed the run, if anything did.
    pub(crate) fn noise(&self) -> Option<String> {
        let Self {
            disturbed,
            slices,
            worst,
            ..
        } = self;
        (*disturbed > 0).then(|| format!("{disturbed} of {slices} slices, up to {worst}"))
    }
}

/// How many slices of about `slice` make `duration`, and how long each is.
pub(crate) fn divide(duration: Duration, slice: Duration) -> (u32, Duration) {
    let count = duration.as_micros().div_ceil(slice.as_micros().max(1));
    let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
    (count, duration / count)
}

/// The order of `turns` in this pass. Over as many passes as there are turns each has every place
/// once, so that a steady drift favours none; and of an even number each follows every other once,
/// so that what one leaves behind in caches and memory is not always charged to the same one
/// (a Latin square by E. J. Williams, 1949: 0, last, 1, last but one, …, and from there one on).
pub(crate) fn order(pass: usize, turns: usize) -> impl Iterator<Item = usize> {
    (0..turns).map(move |place| {
        let half = place.div_ceil(2);
        let first = if place % 2 == 0 { half } else { turns - half };
        (first + pass) % turns
    })
}

/// Whether what was under way when a load stopped has come to its end.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    counted: Option<u64>,
}

impl Settling {
    /// Whether the origin's count stood still since the last look, and the proxy with it: `cpu` of
    /// the time since then that has `passed`.
    pub(crate) fn is_over(&mut self, counted: u64, cpu: Duration, passed: Duration) -> bool {
        self.counted.replace(counted) == Some(counted) && cpu < passed / QUIET
    }
}

/// A proxy that uses less than one part in so many of a core works on nothing: timers.
const QUIET: u32 = 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::load::latency::Basis;

    const MS: Duration = Duration::from_millis(1);

    fn slice(requests: u64, latency: Option<Duration>) -> Slice {
        let latency = latency.map(|latency| {
            let mut collector = Collector::new(Basis::Corrected);
            (0..requests).for_each(|_| collector.record(latency));
            collector
        });
        Slice {
            requests,
            cpu: requests * 10,
            origin_cpu: requests * 5,
            turn: Turn {
                seconds: 0.25,
                latency,
                lost: 1,
                extra: [("looks".to_owned(), 2.0)].into(),
            },
            noise: None,
        }
    }

    #[test]
    fn slices_add_up() {
        let mut sum = Sum::default();
        sum.add(slice(100, Some(MS)));
        sum.add(slice(300, Some(4 * MS)));
        assert_eq!((sum.requests, sum.cpu, sum.origin_cpu), (400, 4000, 2000));
        assert_eq!(sum.lost, 2);
        assert!((sum.seconds - 0.5).abs() < 1e-9 && (sum.extra["looks"] - 4.0).abs() < 1e-9);
        let latency = sum.latency.as_ref().and_then(Collector::latency);
        let median = latency.expect("some").at(0.5).expect("kept");
        assert!((3_990.0..4_010.0).contains(&median), "{median}");
        assert_eq!(sum.noise(), None);
    }

    #[test]
    fn a_disturbed_slice_is_told() {
        let mut sum = Sum::default();
        sum.add(slice(100, None));
        let noise = Some(Noise::default());
        sum.add(Slice {
            noise,
            ..slice(100, None)
        });
        assert!(sum.latency.is_none());
        let told = "1 of 2 slices, up to 0 % other work, 0 % stolen";
        assert_eq!(sum.noise().as_deref(), Some(told));
    }

    #[test]
    fn a_run_is_divided_evenly() {
        assert_eq!(divide(5000 * MS, 250 * MS), (20, 250 * MS));
        assert_eq!(divide(5000 * MS, 2000 * MS), (3, 5000 * MS / 3));
        assert_eq!(divide(1000 * MS, 2000 * MS), (1, 1000 * MS));
    }

    #[test]
    fn each_turn_has_every_place_and_follows_every_other_once() {
        let orders: Vec<Vec<_>> = (0..4).map(|pass| order(pass, 4).collect()).collect();
        assert_eq!(
            orders,
            [[0, 3, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 2, 0, 1]]
        );
        for turns in [1, 2, 3, 6, 24] {
            let orders: Vec<Vec<_>> = (0..turns)
                .map(|pass| order(pass, turns).collect())
                .collect();
            let places: BTreeSet<_> = orders.iter().flat_map(|o| o.iter().enumerate()).collect();
            assert_eq!(places.len(), turns * turns);
            let pairs: BTreeSet<_> = orders.iter().flat_map(|o| o.windows(2)).collect();
            assert!(turns % 2 == 1 || pairs.len() == turns * (turns - 1));
        }
    }

    #[test]
    fn it_settles_when_count_and_proxy_stand_still() {
        let mut settling = Settling::default();
        assert!(!settling.is_over(7, Duration::ZERO, 2 * MS), "first look");
        assert!(!settling.is_over(8, Duration::ZERO, 2 * MS), "one more");
        assert!(!settling.is_over(8, MS, 2 * MS), "the proxy works");
        assert!(settling.is_over(8, MS / 100, 2 * MS));
    }
}
