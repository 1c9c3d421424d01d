//! A round: every peer and variant of a scenario stands ready, and they take turns under load until
//! each has had its run.
//!
//! What a request costs drifts within seconds on a machine with other tenants, by more than proxies
//! differ; two neighbouring slices of a fraction of a second hardly differ. So what is compared is
//! measured in turns that short, and only what is at its turn has a load.

use std::path::Path;

use anyhow::{Result, bail};

use crate::cpu::Meter;
use crate::measure::{Bench, Method};
use crate::peers::Peer;
use crate::record::Measured;
use crate::scenario::Case;
use crate::slice::order;
use crate::{noise, process};

/// Who has a turn, and in what.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    /// What is measured.
    pub(crate) case: &'a Case,
    /// Who is measured.
    pub(crate) peer: &'a dyn Peer,
}

/// Round `number`: the run of each turn, or why it failed.
pub(crate) fn round(
    turns: &[Turn<'_>],
    method: &Method,
    number: usize,
) -> Result<Vec<Result<Measured>>> {
    noise::wait_for_quiet(method.patience)?;
    let folder = tempfile::tempdir()?;
    // On a thread of its own, pinned with all that it starts to the cores of the load.
    std::thread::scope(|scope| {
        let runner = scope.spawn(|| -> Result<_> {
            process::pin(&method.load_cores)?;
            let mut round = Round::set_up(turns, method, folder.path());
            round.warm_up(number);
            round.measure(number)?;
            Ok(round.finish())
        });
        runner.join().unwrap_or_else(|_| bail!("a run panicked"))
    })
}

struct Round<'a> {
    turns: &'a [Turn<'a>],
    method: &'a Method,
    /// What failed is gone, so that it costs the others nothing.
    benches: Vec<Result<Bench<'a>>>,
}

impl<'a> Round<'a> {
    fn set_up(turns: &'a [Turn<'a>], method: &'a Method, folder: &Path) -> Self {
        let bench = |(index, turn): (usize, &Turn<'a>)| {
            let own = folder.join(index.to_string());
            std::fs::create_dir(&own)?;
            Bench::set_up(turn.peer, turn.case, method, &own)
        };
        Self {
            turns,
            method,
            benches: turns.iter().enumerate().map(bench).collect(),
        }
    }

    fn warm_up(&mut self, number: usize) {
        for index in order(number, self.turns.len()) {
            self.step(index, Bench::warm_up);
        }
    }

    fn measure(&mut self, number: usize) -> Result<()> {
        let mut ours = Meter::start(std::process::id())?;
        let slices = |turn: &Turn<'_>| self.method.slices_of(turn.case);
        let plan: Vec<_> = self.turns.iter().map(slices).collect();
        let passes = plan.iter().map(|(count, _)| *count).max().unwrap_or(0);
        for pass in 0..passes {
            // Each round goes on where the last one ended.
            let rotation = number * passes as usize + pass as usize;
            for index in order(rotation, plan.len()) {
                if let Some((count, duration)) = plan.get(index)
                    && pass < *count
                {
                    self.step(index, |bench| bench.slice(*duration, &mut ours));
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Vec<Result<Measured>> {
        let finish = |mut bench: Bench<'_>| bench.finish().map_err(|error| bench.explain(error));
        self.benches
            .into_iter()
            .map(|bench| bench.and_then(finish))
            .collect()
    }

    /// The next step of a turn, unless it has failed.
    fn step(&mut self, index: usize, step: impl FnOnce(&mut Bench<'a>) -> Result<()>) {
        if let Some(slot) = self.benches.get_mut(index)
            && let Ok(bench) = slot
            && let Err(error) = step(bench)
        {
            *slot = Err(bench.explain(error));
        }
    }
}
