//! A run in slices: the result of one, and their sum. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::load::latency::Collector;
use crate::load::turn::LoadResult;
use crate::noise::Noise;
use crate::procfs::{Usage, ticks_to_us};
use crate::record::{Measured, OneTurn};
use crate::stats::count64;

/// The measurements of one slice.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// Requests that the origin answered.
    pub(crate) requests: u64,
    /// Nanoseconds of CPU of the proxy.
    pub(crate) cpu: u64,
    /// Nanoseconds of CPU of the origin.
    pub(crate) origin_cpu: u64,
    /// Other resources used by the proxy.
    pub(crate) usage: Usage,
    /// Result of the load.
    pub(crate) turn: LoadResult,
    /// The noise, if there was any.
    pub(crate) noise: Option<Noise>,
}

/// The sum over the slices of a run.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    requests: u64,
    seconds: f64,
    cpu: u64,
    origin_cpu: u64,
    usage: Usage,
    latency: Option<Collector>,
    lost: u64,
    extra: BTreeMap<String, f64>,
    turns: Vec<OneTurn>,
    disturbed: usize,
    worst: Noise,
}

impl Slice {
    fn numbers(&self) -> OneTurn {
        let requests = count64(self.requests);
        let latency = self.turn.latency.as_ref().and_then(Collector::latency);
        let at = |quantile| latency.as_ref()?.at(quantile);
        OneTurn {
            rate: requests / self.turn.seconds,
            cpu_us: count64(self.cpu) / 1e3 / requests,
            p50_us: at(0.5),
            p99_us: at(0.99),
        }
    }
}

impl Sum {
    pub(crate) fn add(&mut self, slice: Slice) {
        self.turns.push(slice.numbers());
        self.requests += slice.requests;
        self.seconds += slice.turn.seconds;
        self.cpu += slice.cpu;
        self.origin_cpu += slice.origin_cpu;
        self.usage.add(&slice.usage);
        self.lost += slice.turn.lost;
        match (&mut self.latency, slice.turn.latency) {
            (Some(sum), Some(latency)) => sum.add(&latency),
            (sum @ None, latency) => *sum = latency,
            (Some(_), None) => {}
        }
        for (name, value) in slice.turn.extra {
            *self.extra.entry(name).or_default() += value;
        }
        if let Some(noise) = slice.noise {
            self.disturbed += 1;
            self.worst = self.worst.max(noise);
        }
    }

    /// The result of the run.
    pub(crate) fn measured(&self) -> Result<Measured> {
        ensure!(self.requests > 0, "no request was answered");
        let per_request = |sum: f64| sum / count64(self.requests);
        let user = ticks_to_us(self.usage.user_ticks);
        let system = ticks_to_us(self.usage.system_ticks);
        Ok(Measured {
            requests: self.requests,
            seconds: self.seconds,
            cpu_us: per_request(count64(self.cpu) / 1e3),
            user_share: user / (user + system).max(f64::MIN_POSITIVE),
            origin_cpu_us: per_request(count64(self.origin_cpu) / 1e3),
            latency: self.latency.as_ref().and_then(Collector::latency),
            rss: Some(self.usage.rss),
            voluntary: per_request(count64(self.usage.voluntary)),
            syscalls: None,
            lost: self.lost,
            noise: self.noise(),
            extra: self.extra.clone(),
            turns: None,
        })
    }

    /// The numbers of each slice, in their order.
    pub(crate) fn turns(&self) -> &[OneTurn] {
        &self.turns
    }

    /// The noise of the run, if there was any.
    fn noise(&self) -> Option<String> {
        let Self {
            disturbed,
            turns,
            worst,
            ..
        } = self;
        let slices = turns.len();
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

/// Detects when the work in flight at the end of a load is done.
#[derive(Debug, Default)]
pub(crate) struct SettlingDetector {
    counted: Option<u64>,
}

impl SettlingDetector {
    /// Whether the origin's count and the proxy's CPU time have not changed since the last check;
    /// `cpu` is what it used of the time that has `passed`.
    pub(crate) fn is_over(&mut self, counted: u64, cpu: Duration, passed: Duration) -> bool {
        self.counted.replace(counted) == Some(counted) && cpu < passed / IDLE_CORE_FRACTION
    }
}

/// A proxy that uses less than this fraction of a core is idle: timers.
const IDLE_CORE_FRACTION: u32 = 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::load::latency::LatencyBasis;

    const MS: Duration = Duration::from_millis(1);

    fn slice(requests: u64, latency: Option<Duration>) -> Slice {
        let latency = latency.map(|latency| {
            let mut collector = Collector::new(LatencyBasis::Corrected);
            (0..requests).for_each(|_| collector.record(latency));
            collector
        });
        Slice {
            requests,
            cpu: requests * 10,
            origin_cpu: requests * 5,
            usage: Usage {
                user_ticks: 3,
                system_ticks: 1,
                voluntary: requests / 2,
                rss: requests * 1000,
            },
            turn: LoadResult {
                seconds: 0.25,
                latency,
                lost: 1,
                extra: [("looks".to_owned(), 2.0)].into(),
            },
            noise: None,
        }
    }

    #[test]
    fn slices_are_summed() {
        let mut sum = Sum::default();
        sum.add(slice(100, Some(MS)));
        sum.add(slice(300, Some(4 * MS)));
        let measured = sum.measured().expect("some");
        assert_eq!((measured.requests, measured.lost), (400, 2));
        assert_eq!(measured.rss, Some(300_000), "that of the last");
        let numbers = [
            (measured.seconds, 0.5),
            (measured.cpu_us, 0.01),
            (measured.origin_cpu_us, 0.005),
            (measured.user_share, 0.75),
            (measured.voluntary, 0.5),
            (measured.extra["looks"], 4.0),
        ];
        for (got, wanted) in numbers {
            assert!((got - wanted).abs() < 1e-9, "{got} is not {wanted}");
        }
        let median = measured.latency.expect("some").at(0.5).expect("kept");
        assert!((3_990.0..4_010.0).contains(&median), "{median}");
        assert_eq!(measured.noise, None);
    }

    #[test]
    fn no_input_is_an_error() {
        assert!(Sum::default().measured().is_err());
    }

    #[test]
    fn a_noisy_slice_is_reported() {
        let mut sum = Sum::default();
        sum.add(slice(100, None));
        let noise = Some(Noise::default());
        sum.add(Slice {
            noise,
            ..slice(100, None)
        });
        let measured = sum.measured().expect("some");
        assert_eq!(measured.latency, None);
        let expected = "1 of 2 slices, up to 0 % other work, 0 % stolen";
        assert_eq!(measured.noise.as_deref(), Some(expected));
    }

    #[test]
    fn a_run_is_divided_evenly() {
        assert_eq!(divide(5000 * MS, 250 * MS), (20, 250 * MS));
        assert_eq!(divide(5000 * MS, 2000 * MS), (3, 5000 * MS / 3));
        assert_eq!(divide(1000 * MS, 2000 * MS), (1, 1000 * MS));
    }

    #[test]
    fn the_order_of_turns_is_balanced() {
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
    fn settling_ends_when_request_count_and_cpu_time_stop_growing() {
        let mut settling = SettlingDetector::default();
        assert!(!settling.is_over(7, Duration::ZERO, 2 * MS), "first look");
        assert!(!settling.is_over(8, Duration::ZERO, 2 * MS), "one more");
        assert!(!settling.is_over(8, MS, 2 * MS), "the proxy works");
        assert!(settling.is_over(8, MS / 100, 2 * MS));
    }
}
