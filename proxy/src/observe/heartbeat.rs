//! Detects stuck shards by the last iteration of their event loops.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time of an event loop's last iteration; written only by its shard.
#[derive(Debug, Default)]
pub struct Heartbeat(AtomicU64);

impl Heartbeat {
    /// Records that the event loop ran at this time.
    pub fn beat(&self, now: Instant) {
        self.0.store(millis(now), Ordering::Relaxed);
    }

    /// Time since the last iteration.
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        Duration::from_millis(millis(now).saturating_sub(self.0.load(Ordering::Relaxed)))
    }
}

fn millis(at: Instant) -> u64 {
    /// The origin of all heartbeats.
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let since = at.saturating_duration_since(*ORIGIN);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Heartbeat;

    #[test]
    fn the_age_of_a_heartbeat_grows_with_time() {
        let beat = Heartbeat::default();
        let now = Instant::now() + Duration::from_secs(1);
        beat.beat(now);
        assert_eq!(beat.age(now), Duration::ZERO);
        assert_eq!(
            beat.age(now + Duration::from_secs(2)),
            Duration::from_secs(2)
        );
    }
}
