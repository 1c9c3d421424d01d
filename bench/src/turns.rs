//! A round: all peers and variants of a scenario are set up and take turns under load until each
//! has had its run.
//!
//! On a machine with other tenants, the cost of a request drifts within seconds by more than
//! proxies differ; two neighbouring slices of a fraction of a second hardly differ. So the turns
//! are that short, and only one proxy is under load at a time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cpu::Meter;
use crate::measure::{Bench, Method};
use crate::output::print_line;
use crate::peers::Peer;
use crate::record::{Measured, Turns};
use crate::scenario::Case;
use crate::slice::{Sum, order};
use crate::{noise, process};

/// Interval of progress lines; a long round takes a quarter of an hour.
const PROGRESS_PAUSE: Duration = Duration::from_secs(10);

/// The peer, case and variant of a turn.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) case: &'a Case,
    pub(crate) peer: &'a dyn Peer,
}

impl Turn<'_> {
    fn shares_set_up(&self, other: &Self) -> bool {
        self.peer.name() == other.peer.name() && self.case.shares_set_up(other.case)
    }
}

/// Runs round `number` and returns the result of each turn, or why it failed.
pub(crate) fn round(
    turns: &[Turn<'_>],
    method: &Method,
    number: usize,
) -> Result<Vec<Result<Measured, String>>> {
    if let Some(noise) = noise::wait_for_quiet(method.quiet_timeout)? {
        print_line(&format!(
            "     the machine is not idle ({noise}): measuring anyway, and marking disturbed runs"
        ));
    }
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
    method: &'a Method,
    /// A failed bench is dropped immediately, so that it does not affect the others; its reason is
    /// kept.
    benches: Vec<Result<Bench<'a>, String>>,
    runs: Vec<OpenRun<'a>>,
}

/// A run in progress.
struct OpenRun<'a> {
    case: &'a Case,
    /// Index of the bench on which it is measured, which others may share.
    bench: usize,
    sum: Sum,
    syscalls: Option<f64>,
}

impl<'a> Round<'a> {
    fn set_up(turns: &[Turn<'a>], method: &'a Method, folder: &Path) -> Self {
        let (set_ups, places) = set_ups(turns);
        let bench = |(index, turn): (usize, &Turn<'a>)| {
            let own = folder.join(index.to_string());
            std::fs::create_dir(&own)?;
            Bench::set_up(turn.peer, turn.case, method, &own)
        };
        let open = |(turn, bench): (&Turn<'a>, usize)| OpenRun {
            case: turn.case,
            bench,
            sum: Sum::default(),
            syscalls: None,
        };
        Self {
            method,
            benches: set_ups
                .iter()
                .enumerate()
                .map(|set_up| bench(set_up).map_err(|error| format!("{error:#}")))
                .collect(),
            runs: turns.iter().zip(places).map(open).collect(),
        }
    }

    /// Each operator request is made once before the measurement: one-time allocations are no run's
    /// cost.
    fn warm_up(&mut self, number: usize) {
        for index in order(number, self.runs.len()) {
            self.step(index, |bench, run| bench.warm_up(run.case.inside));
        }
    }

    fn measure(&mut self, number: usize) -> Result<()> {
        let mut ours = Meter::start(std::process::id())?;
        let slices = |run: &OpenRun<'_>| self.method.slices_of(run.case);
        let plan: Vec<_> = self.runs.iter().map(slices).collect();
        let passes = plan.iter().map(|(count, _)| *count).max().unwrap_or(0);
        let mut last_progress = Instant::now();
        let turns: u32 = plan.iter().map(|(count, _)| *count).sum();
        let mut taken = 0_u32;
        for pass in 0..passes {
            // Each round continues where the last one ended.
            let rotation = number * passes as usize + pass as usize;
            for index in order(rotation, plan.len()) {
                if let Some((count, duration)) = plan.get(index)
                    && pass < *count
                {
                    if last_progress.elapsed() >= PROGRESS_PAUSE {
                        let round = number + 1;
                        print_line(&format!("   round {round}: {taken} of {turns} turns taken"));
                        last_progress = Instant::now();
                    }
                    self.step(index, |bench, run| {
                        let slice = bench.slice(run.case.inside, *duration, &mut ours)?;
                        run.sum.add(slice);
                        Ok(())
                    });
                    taken += 1;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<Result<Measured, String>> {
        for index in 0..self.runs.len() {
            self.step(index, |bench, run| {
                run.syscalls = bench.syscalls(run.case.inside)?;
                Ok(())
            });
        }
        for bench in &mut self.benches {
            attempt(bench, Bench::verify);
        }
        self.runs.iter().map(|run| self.measured(run)).collect()
    }

    fn measured(&self, run: &OpenRun<'_>) -> Result<Measured, String> {
        let bench = match self.benches.get(run.bench) {
            Some(Ok(bench)) => bench,
            Some(Err(failure)) => return Err(failure.clone()),
            None => return Err("it was never set up".to_owned()),
        };
        let shared = self
            .runs
            .iter()
            .filter(|other| other.bench == run.bench)
            .count()
            > 1;
        let measured = run.sum.measured();
        let measured = measured.map_err(|error| bench.explain(&error))?;
        Ok(Measured {
            syscalls: run.syscalls,
            rss: measured.rss.filter(|_| !shared),
            turns: shared.then(|| Turns {
                process: bench.process(),
                turns: run.sum.turns().to_vec(),
            }),
            ..measured
        })
    }

    /// The next step of a run, unless its bench has failed.
    fn step(
        &mut self,
        index: usize,
        step: impl FnOnce(&mut Bench<'a>, &mut OpenRun<'a>) -> Result<()>,
    ) {
        if let Some(run) = self.runs.get_mut(index)
            && let Some(bench) = self.benches.get_mut(run.bench)
        {
            attempt(bench, |bench| step(bench, run));
        }
    }
}

/// A step on a bench, unless it has failed: that fails every run that shares it.
fn attempt<'a>(
    slot: &mut Result<Bench<'a>, String>,
    step: impl FnOnce(&mut Bench<'a>) -> Result<()>,
) {
    if let Ok(bench) = slot
        && let Err(error) = step(bench)
    {
        *slot = Err(bench.explain(&error));
    }
}

/// The first turn of each set-up, and for every turn the index of its set-up.
fn set_ups<'a>(turns: &[Turn<'a>]) -> (Vec<Turn<'a>>, Vec<usize>) {
    let mut firsts: Vec<Turn<'a>> = Vec::new();
    let mut places = Vec::new();
    for turn in turns {
        let known = firsts.iter().position(|first| first.shares_set_up(turn));
        places.push(known.unwrap_or(firsts.len()));
        if known.is_none() {
            firsts.push(*turn);
        }
    }
    (firsts, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers;
    use crate::scenario::parse;

    #[test]
    fn inspection_variants_share_the_setup_of_their_peer() {
        let cases = parse(
            r#"
            id = "S16"
            title = "t"
            why = "w"
            front = "http1"
            load = { with = "wrk", connections = 64 }
            variants = [
                { variant = "nothing" },
                { variant = "no-sampling", heap_sampling = false },
                { variant = "dump", inside = "dump" },
            ]
            "#,
        )
        .expect("parses");
        let peers = peers::all(&peers::tests::places());
        let turns: Vec<_> = cases
            .iter()
            .flat_map(|case| peers.iter().take(2).map(move |peer| (case, peer.as_ref())))
            .map(|(case, peer)| Turn { case, peer })
            .collect();
        let (firsts, places) = set_ups(&turns);
        let firsts: Vec<_> = firsts
            .iter()
            .map(|turn| (turn.case.variant.as_str(), turn.peer.name()))
            .collect();
        assert_eq!(
            firsts,
            [
                ("nothing", "gateway-io-uring"),
                ("nothing", "gateway-epoll"),
                ("no-sampling", "gateway-io-uring"),
                ("no-sampling", "gateway-epoll"),
            ]
        );
        assert_eq!(places, [0, 1, 2, 3, 0, 1]);
    }
}
