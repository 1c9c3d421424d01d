//! Whether the machine is quiet enough to measure on, before a round and during a slice.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::procfs::Machine;

/// Waits until the machine is idle, at most `timeout`; what disturbs it still, if anything does.
pub(crate) fn wait_for_quiet(timeout: Duration) -> Result<Option<Noise>> {
    let deadline = Instant::now() + timeout;
    loop {
        let window = Window::open(0)?;
        std::thread::sleep(SAMPLE);
        let noise = window.close(0)?;
        if noise.is_none() || Instant::now() >= deadline {
            return Ok(noise);
        }
    }
}

/// CPU time of a slice that was neither used by the benchmark nor idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    before: Machine,
    ours_before: u64,
}

impl Window {
    /// Opens a window. `ours` is the CPU time in nanoseconds that this process and its children
    /// have used so far.
    pub(crate) fn open(ours: u64) -> Result<Self> {
        Ok(Self {
            before: Machine::now()?,
            ours_before: ours,
        })
    }

    /// The noise, if there was any.
    pub(crate) fn close(&self, ours: u64) -> Result<Option<Noise>> {
        let ours = ours.saturating_sub(self.ours_before);
        let (foreign, stolen) = Machine::now()?.shares_since(&self.before, ours);
        Ok(Noise { foreign, stolen }.or_none())
    }
}

/// What disturbed a slice, in shares of the time of all cores.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Noise {
    foreign: f64,
    stolen: f64,
}

impl Noise {
    fn or_none(self) -> Option<Self> {
        (self.foreign > FOREIGN || self.stolen > STOLEN).then_some(self)
    }

    /// The worse of both, each in its kind.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            foreign: self.foreign.max(other.foreign),
            stolen: self.stolen.max(other.stolen),
        }
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (foreign, stolen) = (self.foreign * 100.0, self.stolen * 100.0);
        write!(f, "{foreign:.0} % other work, {stolen:.0} % stolen")
    }
}

/// Ticks are 10 ms: less than this cannot tell 5 % from none.
const SAMPLE: Duration = Duration::from_millis(400);
/// Share of all cores that others may use.
const FOREIGN: f64 = 0.05;
/// Share of CPU time that the hypervisor may take. One tick of a slice of 250 ms on two cores is 2
/// %, which is not significant.
const STOLEN: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_below_the_threshold_is_ignored_and_above_it_reported() {
        let noise = |foreign, stolen| Noise { foreign, stolen };
        assert_eq!(noise(0.02, 0.02).or_none(), None);
        let text = |noise: Noise| noise.or_none().map(|noise| noise.to_string());
        assert_eq!(
            text(noise(0.50, 0.0)).as_deref(),
            Some("50 % other work, 0 % stolen")
        );
        assert_eq!(
            text(noise(0.0, 0.04)).as_deref(),
            Some("0 % other work, 4 % stolen")
        );
        assert_eq!(noise(0.5, 0.0).max(noise(0.1, 0.2)), noise(0.5, 0.2));
    }
}
