//! Whether the machine is quiet enough to measure on, before a run and during it.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::procfs::Machine;

/// Waits until the machine is idle, at most `patience`; what disturbed it if it never was.
pub(crate) fn wait_for_quiet(patience: Duration) -> Result<Option<String>> {
    let deadline = Instant::now() + patience;
    loop {
        let before = Machine::now()?;
        std::thread::sleep(SAMPLE);
        let (busy, steal) = Machine::now()?.shares_since(&before);
        let Some(noise) = judge(busy, steal) else {
            return Ok(None);
        };
        if Instant::now() >= deadline {
            return Ok(Some(format!("before: {noise}")));
        }
    }
}

/// What of a run's window was neither ours nor idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    before: Machine,
    ours_before: u64,
}

impl Window {
    /// Opens it. `ours` is the ticks that proxy, origin, load and harness have used so far.
    pub(crate) fn open(ours: u64) -> Result<Self> {
        Ok(Self {
            before: Machine::now()?,
            ours_before: ours,
        })
    }

    /// What disturbed it, if anything did.
    pub(crate) fn close(&self, ours: u64) -> Result<Option<String>> {
        let mut now = Machine::now()?;
        now.busy = now
            .busy
            .saturating_sub(ours.saturating_sub(self.ours_before));
        let (foreign, steal) = now.shares_since(&self.before);
        Ok(judge(foreign, steal).map(|noise| format!("during: {noise}")))
    }
}

fn judge(foreign: f64, steal: f64) -> Option<String> {
    let noisy = foreign > FOREIGN || steal > STEAL;
    noisy.then(|| {
        format!(
            "{:.0} % other work, {:.0} % stolen",
            foreign * 100.0,
            steal * 100.0
        )
    })
}

/// Ticks are 10 ms: less than this cannot tell 5 % from none.
const SAMPLE: Duration = Duration::from_millis(400);
/// Share of all cores that others may use.
const FOREIGN: f64 = 0.05;
/// Share of all time the hypervisor may take.
const STEAL: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_is_quiet_and_noise_is_named() {
        assert_eq!(judge(0.02, 0.0), None);
        assert_eq!(
            judge(0.50, 0.0).as_deref(),
            Some("50 % other work, 0 % stolen")
        );
        assert_eq!(
            judge(0.0, 0.04).as_deref(),
            Some("0 % other work, 4 % stolen")
        );
    }
}
