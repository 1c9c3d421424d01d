//! When requests are due, and what their latency is measured from. Pure: time is passed in.

use std::time::{Duration, Instant};

/// A schedule of requests: at a fixed rate, or each as soon as there is a connection for it.
///
/// At a fixed rate a request that finds no free connection stays due, and its latency runs from
/// that moment: the schedule does not wait for a slow server, as a closed loop would (coordinated
/// omission).
#[derive(Debug)]
pub(crate) struct Pacer {
    start: Instant,
    end: Instant,
    interval: Option<Duration>,
    taken: u32,
}

impl Pacer {
    /// From `start` for `duration`, `rate` requests per second or flat out.
    pub(crate) fn new(start: Instant, duration: Duration, rate: Option<u32>) -> Self {
        let interval = rate.map(|rate| Duration::from_secs(1) / rate.max(1));
        Self {
            start,
            end: start + duration,
            interval,
            taken: 0,
        }
    }

    /// When the next request is due; none once all have been taken.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let due = match self.interval {
            None => now,
            Some(interval) => self.start + interval * self.taken,
        };
        (due < self.end).then_some(due)
    }

    /// Takes the next request, if it is due: the moment its latency runs from.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.due(now).filter(|due| *due <= now)?;
        self.taken += 1;
        Some(due)
    }

    /// From when on nothing is due.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::latency::{Collector, LatencyBasis};

    const MS: Duration = Duration::from_millis(1);

    /// One connection, 1 000 requests/s for a second, answers in 100 µs, but the one at 500 ms
    /// takes 200 ms. Every request due in the stall waits for it: a fifth of all.
    #[test]
    fn a_stall_counts_for_every_request_it_delays() {
        let start = Instant::now();
        let mut pacer = Pacer::new(start, 1000 * MS, Some(1000));
        let mut corrected = Collector::new(LatencyBasis::Corrected);
        let mut naive = Collector::new(LatencyBasis::ClosedLoop);
        let (mut now, mut count) = (start, 0);
        while let Some(due) = pacer.due(now) {
            now = now.max(due);
            let due = pacer.take(now).expect("due");
            let sent = now;
            now += if count == 500 { 200 * MS } else { MS / 10 };
            corrected.record(now - due);
            naive.record(now - sent);
            count += 1;
        }
        assert_eq!(count, 1000);
        let at = |c: &Collector, q| c.latency().expect("some").at(q).expect("kept");
        assert!(
            at(&naive, 0.99) < 110.0,
            "a closed loop sees one slow request only"
        );
        assert!(at(&corrected, 0.5) < 110.0);
        assert!((150_000.0..200_000.0).contains(&at(&corrected, 0.99)));
        // The backlog of 200 drains at 0.9 ms a request: 222 requests were delayed.
        assert!(at(&corrected, 0.75) < 110.0 && at(&corrected, 0.9) > 90_000.0);
    }

    #[test]
    fn requests_are_scheduled_only_when_due_and_before_the_end() {
        let start = Instant::now();
        let mut pacer = Pacer::new(start, 3 * MS, Some(1000));
        assert_eq!(pacer.take(start), Some(start));
        assert_eq!(pacer.take(start), None);
        assert_eq!(pacer.due(start), Some(start + MS));
        assert_eq!(pacer.take(start + 9 * MS), Some(start + MS));
        assert_eq!(pacer.take(start + 9 * MS), Some(start + 2 * MS));
        assert_eq!(pacer.due(start + 9 * MS), None);
    }

    #[test]
    fn without_a_rate_requests_are_always_due() {
        let start = Instant::now();
        let mut pacer = Pacer::new(start, MS, None);
        assert_eq!(pacer.take(start), Some(start));
        assert_eq!(pacer.take(start), Some(start));
        assert_eq!(pacer.take(start + MS), None);
    }
}
