//! How hard pressed a shard is, and the ladder of what it does about it.
//!
//! Two things press a shard: clients that fill the room for connections, and an event loop that
//! comes late to its ticks. Each step gives up a little more, so that a shard that can still serve
//! does, and one that cannot says so at once instead of letting everybody wait.

use std::time::Duration;

use super::wheel::Tick;
use crate::limits::{LATE_TICKS, OVERLOAD_LAG, OVERLOAD_ROOM_PERCENT, OVERLOAD_SHORTAGE};

/// A step of the ladder; each one does what those before it do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Nothing is given up.
    #[default]
    Low,
    /// Connections end with their next response.
    CloseSoon,
    /// Idle connections end soon.
    CloseIdle,
    /// Requests are answered with 503.
    Shed,
    /// Nobody is accepted.
    Pause,
}

/// Where a step is reached: lag of the event loop, and share of the room for clients.
const STEPS: [(Pressure, Duration, Option<usize>); 4] = [
    (
        Pressure::CloseSoon,
        OVERLOAD_LAG[0],
        Some(OVERLOAD_ROOM_PERCENT[0]),
    ),
    (
        Pressure::CloseIdle,
        OVERLOAD_LAG[1],
        Some(OVERLOAD_ROOM_PERCENT[1]),
    ),
    (Pressure::Shed, OVERLOAD_LAG[2], None),
    (Pressure::Pause, OVERLOAD_LAG[3], Some(100)),
];

/// What presses a shard.
#[derive(Debug, Default)]
pub(crate) struct Overload {
    /// For how many ticks in a row the loop was late enough for each step.
    late: [u32; STEPS.len()],
    /// The step that this comes to.
    lag: Pressure,
    /// When the kernel last had no descriptor for a connection to an endpoint.
    short: Option<Tick>,
}

impl Overload {
    /// Takes note of how late a tick came. One late tick means nothing: others may run on the core.
    pub(crate) fn note_tick(&mut self, lag: Duration) {
        for (late, (_, least, _)) in self.late.iter_mut().zip(STEPS) {
            *late = if lag >= least {
                late.saturating_add(1)
            } else {
                0
            };
        }
        let mut steps = STEPS.iter().zip(self.late).rev();
        let reached = steps.find(|(_, late)| *late >= LATE_TICKS);
        self.lag = reached.map_or(Pressure::Low, |((step, ..), _)| *step);
    }

    /// Takes note that there was no descriptor.
    pub(crate) fn note_shortage(&mut self, now: Tick) {
        self.short = Some(now);
    }

    /// The step that is reached with so many clients where there is room for `room`.
    pub(crate) fn pressure(&self, clients: usize, room: usize, now: Tick) -> Pressure {
        let full = |percent| clients.saturating_mul(100) >= room.saturating_mul(percent);
        let strain = self.strain(now);
        // Asked for with every request, and hardly ever so.
        if !full(OVERLOAD_ROOM_PERCENT[0]) {
            return strain;
        }
        let mut steps = STEPS.into_iter().rev();
        let by_room = steps.find(|(_, _, percent)| percent.is_some_and(full));
        by_room.map_or(strain, |(step, ..)| step.max(strain))
    }

    /// Whether requests are refused. A room that is full is no reason: that makes no room in it.
    pub(crate) fn sheds(&self, now: Tick) -> bool {
        self.strain(now) >= Pressure::Shed
    }

    /// The step that is reached however many clients there are.
    fn strain(&self, now: Tick) -> Pressure {
        match self.short {
            Some(short) if now < short.after(OVERLOAD_SHORTAGE) => self.lag.max(Pressure::Shed),
            _ => self.lag,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Overload, Pressure, STEPS};
    use crate::limits::{LATE_TICKS, OVERLOAD_SHORTAGE};
    use crate::shard::wheel::Tick;

    fn late(lag: Duration, ticks: u32) -> Overload {
        let mut overload = Overload::default();
        (0..ticks).for_each(|_| overload.note_tick(lag));
        overload
    }

    #[test]
    fn steps_come_one_after_the_other() {
        for [lower, higher] in STEPS.array_windows() {
            assert!(lower.0 < higher.0 && lower.1 < higher.1, "{higher:?}");
        }
    }

    #[test]
    fn a_room_that_fills_closes_connections_and_then_stops_accepting() {
        let calm = Overload::default();
        for (clients, expected) in [
            (0, Pressure::Low),
            (799, Pressure::Low),
            (800, Pressure::CloseSoon),
            (900, Pressure::CloseIdle),
            (999, Pressure::CloseIdle),
            (1000, Pressure::Pause),
        ] {
            assert_eq!(
                calm.pressure(clients, 1000, Tick::default()),
                expected,
                "{clients}"
            );
        }
    }

    #[test]
    fn a_loop_that_is_late_tick_after_tick_climbs_the_ladder() {
        for (step, lag, _) in STEPS {
            assert_eq!(
                late(lag, LATE_TICKS).pressure(1, 1000, Tick::default()),
                step
            );
            let hiccup = late(lag, LATE_TICKS - 1);
            assert!(hiccup.pressure(1, 1000, Tick::default()) < step);
            let sheds = late(lag, LATE_TICKS).sheds(Tick::default());
            assert_eq!(sheds, step >= Pressure::Shed);
        }
        let mut overload = late(Duration::from_secs(9), LATE_TICKS);
        overload.note_tick(Duration::ZERO);
        assert_eq!(overload.pressure(1, 1000, Tick::default()), Pressure::Low);
    }

    #[test]
    fn without_descriptors_requests_are_refused_for_a_while() {
        let mut overload = Overload::default();
        overload.note_shortage(Tick::default());
        assert!(overload.sheds(Tick::default()));
        let later = Tick::default().after(OVERLOAD_SHORTAGE);
        assert!(!overload.sheds(later));
    }
}
