//! The overload level of a shard, and the measures at each level.
//!
//! Three causes: clients close to the connection limit, a late event loop, and a process close to
//! its memory limit. Each level gives up a little more, so that a shard that can still serve does,
//! and one that cannot rejects requests at once instead of letting all of them wait.

use std::time::Duration;

use super::wheel::Tick;
use crate::limits::{
    LATE_TICKS, OVERLOAD_LAG, OVERLOAD_MEMORY_PERCENT, OVERLOAD_ROOM_PERCENT, OVERLOAD_SHORTAGE,
};
use crate::observe::shed::ShedCause;

/// A level of overload, which includes the measures of lower ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// No overload: no measures.
    #[default]
    Low,
    /// Connections close after their next response.
    CloseSoon,
    /// Idle connections close soon.
    CloseIdle,
    /// New requests are answered with 503.
    Shed,
    Pause,
}

/// The thresholds of a level.
struct Threshold {
    pressure: Pressure,
    /// Delay of the event loop.
    lag: Duration,
    /// Percentage of the client limit.
    room_percent: Option<usize>,
    /// Percentage of the memory limit.
    memory_percent: usize,
}

const STEPS: [Threshold; 4] = [
    step(Pressure::CloseSoon, 0, Some(OVERLOAD_ROOM_PERCENT[0])),
    step(Pressure::CloseIdle, 1, Some(OVERLOAD_ROOM_PERCENT[1])),
    step(Pressure::Shed, 2, None),
    step(Pressure::Pause, 3, Some(100)),
];

const fn step(pressure: Pressure, nth: usize, room_percent: Option<usize>) -> Threshold {
    Threshold {
        pressure,
        lag: OVERLOAD_LAG[nth],
        room_percent,
        memory_percent: OVERLOAD_MEMORY_PERCENT[nth],
    }
}

/// The causes of overload.
#[derive(Debug, Default)]
pub(crate) struct Overload {
    /// Consecutive late ticks, for each level.
    late: [u32; STEPS.len()],
    /// The level by delay.
    lag: Pressure,
    /// The level by memory.
    memory: Pressure,
    /// When a connection to an endpoint last failed for lack of descriptors.
    short: Option<Tick>,
}

impl Overload {
    /// Records the delay of a tick. A single late tick is ignored: other processes may run on the
    /// core.
    pub(crate) fn record_tick(&mut self, lag: Duration) {
        for (late, step) in self.late.iter_mut().zip(&STEPS) {
            *late = if lag >= step.lag {
                late.saturating_add(1)
            } else {
                0
            };
        }
        let mut steps = STEPS.iter().zip(self.late).rev();
        let reached = steps.find(|(_, late)| *late >= LATE_TICKS);
        self.lag = reached.map_or(Pressure::Low, |(step, _)| step.pressure);
    }

    /// Records the percentage of the memory limit in use.
    pub(crate) fn record_memory(&mut self, percent: usize) {
        let mut steps = STEPS.iter().rev();
        let reached = steps.find(|step| percent >= step.memory_percent);
        self.memory = reached.map_or(Pressure::Low, |step| step.pressure);
    }

    /// The level by memory.
    pub(super) fn memory(&self) -> Pressure {
        self.memory
    }

    /// Whether memory should be returned to the system as soon as it is free.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.memory > Pressure::Low
    }

    /// Records a lack of descriptors.
    pub(crate) fn record_shortage(&mut self, now: Tick) {
        self.short = Some(now);
    }

    /// The level for this many clients, with a limit of `room`.
    pub(crate) fn pressure(&self, clients: usize, room: usize, now: Tick) -> Pressure {
        let full = |percent| clients.saturating_mul(100) >= room.saturating_mul(percent);
        let resource_pressure = self.resource_pressure(now);
        // Checked for every request, and rarely true.
        if !full(OVERLOAD_ROOM_PERCENT[0]) {
            return resource_pressure;
        }
        let mut steps = STEPS.iter().rev();
        let by_room = steps.find(|step| step.room_percent.is_some_and(full));
        by_room.map_or(resource_pressure, |step| {
            step.pressure.max(resource_pressure)
        })
    }

    /// Why requests are rejected, if they are. A full client limit is not a reason: rejecting requests
    /// does not free connections.
    pub(crate) fn should_shed(&self, now: Tick) -> Option<ShedCause> {
        if self.resource_pressure(now) < Pressure::Shed {
            return None;
        }
        Some(if self.memory >= Pressure::Shed {
            ShedCause::Memory
        } else if self.lag >= Pressure::Shed {
            ShedCause::Late
        } else {
            ShedCause::Descriptors
        })
    }

    /// The level regardless of the number of clients.
    fn resource_pressure(&self, now: Tick) -> Pressure {
        let resource_pressure = self.lag.max(self.memory);
        match self.short {
            Some(short) if now < short.after(OVERLOAD_SHORTAGE) => {
                resource_pressure.max(Pressure::Shed)
            }
            _ => resource_pressure,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Overload, Pressure, STEPS, Threshold};
    use crate::limits::{LATE_TICKS, OVERLOAD_SHORTAGE};
    use crate::observe::shed::ShedCause;
    use crate::shard::wheel::Tick;

    fn late(lag: Duration, ticks: u32) -> Overload {
        let mut overload = Overload::default();
        (0..ticks).for_each(|_| overload.record_tick(lag));
        overload
    }

    #[test]
    fn overload_thresholds_are_strictly_increasing() {
        for [lower, higher] in STEPS.array_windows() {
            assert!(lower.pressure < higher.pressure && lower.lag < higher.lag);
            assert!(lower.memory_percent < higher.memory_percent);
        }
    }

    #[test]
    fn pressure_rises_with_the_number_of_connections() {
        let idle = Overload::default();
        for (clients, expected) in [
            (0, Pressure::Low),
            (799, Pressure::Low),
            (800, Pressure::CloseSoon),
            (900, Pressure::CloseIdle),
            (999, Pressure::CloseIdle),
            (1000, Pressure::Pause),
        ] {
            assert_eq!(
                idle.pressure(clients, 1000, Tick::default()),
                expected,
                "{clients}"
            );
        }
    }

    #[test]
    fn pressure_rises_with_sustained_loop_lag() {
        for Threshold { pressure, lag, .. } in STEPS {
            assert_eq!(
                late(lag, LATE_TICKS).pressure(1, 1000, Tick::default()),
                pressure
            );
            let hiccup = late(lag, LATE_TICKS - 1);
            assert!(hiccup.pressure(1, 1000, Tick::default()) < pressure);
            let should_shed = late(lag, LATE_TICKS).should_shed(Tick::default());
            assert_eq!(
                should_shed,
                (pressure >= Pressure::Shed).then_some(ShedCause::Late)
            );
        }
        let mut overload = late(Duration::from_secs(9), LATE_TICKS);
        overload.record_tick(Duration::ZERO);
        assert_eq!(overload.pressure(1, 1000, Tick::default()), Pressure::Low);
    }

    #[test]
    fn requests_are_shed_temporarily_after_descriptor_exhaustion() {
        let mut overload = Overload::default();
        overload.record_shortage(Tick::default());
        assert_eq!(
            overload.should_shed(Tick::default()),
            Some(ShedCause::Descriptors)
        );
        let later = Tick::default().after(OVERLOAD_SHORTAGE);
        assert_eq!(overload.should_shed(later), None);
    }

    #[test]
    fn pressure_rises_with_memory_usage() {
        let mut overload = Overload::default();
        for (percent, expected) in [
            (79, Pressure::Low),
            (80, Pressure::CloseSoon),
            (89, Pressure::CloseIdle),
            (90, Pressure::Shed),
            (95, Pressure::Pause),
            (110, Pressure::Pause),
            (0, Pressure::Low),
        ] {
            overload.record_memory(percent);
            assert_eq!(overload.pressure(1, 1000, Tick::default()), expected);
            let should_shed = (percent >= 90).then_some(ShedCause::Memory);
            assert_eq!(
                overload.should_shed(Tick::default()),
                should_shed,
                "{percent}"
            );
        }
    }
}
