//! Runs brought together: one row per peer and case, and how two rows compare. Pure.

use crate::load::turn::RSS_PER_CONNECTION;
use crate::peers::Role;
use crate::record::{BenchRecord, Measured, OneTurn, Skipped};
use crate::scenario::{Case, Loader, Metric};
use crate::stats::{Ratio, Spread, count64};

/// All rows of a case.
#[derive(Debug)]
pub(crate) struct CaseSummary<'a> {
    pub(crate) case: &'a Case,
    /// Rows, in the order of the peers.
    pub(crate) rows: Vec<Row<'a>>,
    /// Skipped runs.
    pub(crate) skipped: Vec<&'a Skipped>,
}

/// All runs of one peer in one case.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) peer: &'a str,
    /// Whether it is the gateway or a peer.
    pub(crate) role: Role,
    /// Round and numbers of each run that went well.
    pub(crate) runs: Vec<(usize, &'a Measured)>,
    /// The error of a failed run.
    pub(crate) failure: Option<&'a str>,
}

/// Brings the runs of `record` together, in the order of `cases`; cases without any are left out.
pub(crate) fn summarise<'a>(record: &'a BenchRecord, cases: &'a [Case]) -> Vec<CaseSummary<'a>> {
    let summaries = cases.iter().map(|case| {
        let name = case.name();
        let skipped = record.skipped.iter().filter(|s| s.case == name).collect();
        let rows = record
            .peers
            .iter()
            .filter_map(|peer| row(record, &name, &peer.name, peer.role));
        CaseSummary {
            case,
            rows: rows.collect(),
            skipped,
        }
    });
    summaries
        .filter(|s| !s.rows.is_empty() || !s.skipped.is_empty())
        .collect()
}

fn row<'a>(record: &'a BenchRecord, case: &str, peer: &'a str, role: Role) -> Option<Row<'a>> {
    let mut row = Row {
        peer,
        role,
        runs: Vec::new(),
        failure: None,
    };
    for run in record
        .runs
        .iter()
        .filter(|run| run.case == case && run.peer == peer)
    {
        match &run.result {
            Ok(measured) => row.runs.push((run.round, measured)),
            Err(error) => row.failure = Some(error),
        }
    }
    (!row.runs.is_empty() || row.failure.is_some()).then_some(row)
}

impl CaseSummary<'_> {
    /// The metric of this case.
    pub(crate) fn metric(&self) -> Metric {
        match self.case.load.with {
            Loader::Idle => Metric::RssPerConnection,
            _ => Metric::Cpu,
        }
    }

    /// The row of a peer, if it ran well.
    pub(crate) fn row(&self, peer: &str) -> Option<&Row<'_>> {
        self.rows
            .iter()
            .find(|row| row.peer == peer && row.is_good())
    }

    /// The best good row of a side.
    pub(crate) fn best(&self, role: Role, metric: Metric) -> Option<&Row<'_>> {
        let good = self
            .rows
            .iter()
            .filter(|row| row.role == role && row.is_good());
        let measured = good.filter_map(|row| Some((row, row.spread(metric)?.median)));
        measured
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(row, _)| row)
    }
}

impl Row<'_> {
    /// Whether every run went well: a failed run disqualifies the numbers of the others.
    pub(crate) fn is_good(&self) -> bool {
        self.failure.is_none() && !self.runs.is_empty()
    }

    /// Over the rounds, of the value that `number` selects.
    pub(crate) fn over(&self, number: impl Fn(&Measured) -> Option<f64>) -> Option<Spread> {
        Spread::of(
            self.runs
                .iter()
                .filter_map(|(_, measured)| number(measured)),
        )
    }

    /// Of a metric over the rounds.
    pub(crate) fn spread(&self, metric: Metric) -> Option<Spread> {
        self.over(|measured| value(measured, metric))
    }

    /// Median over the rounds of a quantile of latency, in microseconds.
    pub(crate) fn latency(&self, quantile: f64) -> Option<f64> {
        let at = |measured: &Measured| measured.latency.as_ref()?.at(quantile);
        self.over(at).map(|spread| spread.median)
    }

    /// How many runs were noisy.
    pub(crate) fn noisy(&self) -> usize {
        self.runs
            .iter()
            .filter(|(_, measured)| measured.noise.is_some())
            .count()
    }

    /// This row over `other`, paired by round; where both took turns on one process, by turn: no
    /// two processes of a program are equal, but one is equal to itself.
    pub(crate) fn ratio(&self, other: &Row<'_>, metric: Metric) -> Option<Ratio> {
        let mut pairs = Vec::new();
        for (round, ours) in &self.runs {
            let theirs = other.runs.iter().find(|(other, _)| other == round);
            let Some((_, theirs)) = theirs else { continue };
            match (&ours.turns, &theirs.turns) {
                (Some(ours), Some(theirs)) if ours.process == theirs.process => {
                    let turns = ours.turns.iter().zip(&theirs.turns);
                    pairs.extend(turns.filter_map(|(ours, theirs)| {
                        Some((of_turn(ours, metric)?, of_turn(theirs, metric)?))
                    }));
                }
                _ => pairs.extend(value(ours, metric).zip(value(theirs, metric))),
            }
        }
        Ratio::of(&pairs)
    }
}

fn of_turn(turn: &OneTurn, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Cpu => Some(turn.cpu_us),
        Metric::Time => Some(turn.rate.recip()),
        Metric::P50 => turn.p50_us,
        Metric::P99 => turn.p99_us,
        Metric::RssPerConnection | Metric::Lost => None,
    }
}

fn value(measured: &Measured, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Cpu => Some(measured.cpu_us),
        Metric::Time => Some(measured.rate().recip()),
        Metric::P50 => measured.latency.as_ref()?.at(0.5),
        Metric::P99 => measured.latency.as_ref()?.at(0.99),
        Metric::RssPerConnection => measured.extra.get(RSS_PER_CONNECTION).copied(),
        Metric::Lost => Some(count64(measured.lost)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Turns;

    fn run(process: u32, rates: &[f64]) -> Measured {
        let turn = |rate: &f64| OneTurn {
            rate: *rate,
            cpu_us: 1.0,
            p50_us: None,
            p99_us: None,
        };
        Measured {
            requests: 1,
            seconds: 1.0,
            turns: Some(Turns {
                process,
                turns: rates.iter().map(turn).collect(),
            }),
            ..Measured::default()
        }
    }

    fn row(runs: &[Measured]) -> Row<'_> {
        Row {
            peer: "gateway",
            role: Role::Gateway,
            runs: runs.iter().enumerate().collect(),
            failure: None,
        }
    }

    #[test]
    fn turns_on_one_process_are_separate_pairs() {
        let ours = [run(1, &[100.0; 6]), run(2, &[50.0; 6])];
        let theirs = [run(1, &[110.0; 6]), run(2, &[55.0; 6])];
        let ratio = row(&ours).ratio(&row(&theirs), Metric::Time);
        let ratio = ratio.expect("twelve pairs");
        assert_eq!(ratio.pairs, 12);
        assert!((ratio.value - 1.1).abs() < 1e-9, "{}", ratio.value);
    }

    #[test]
    fn turns_on_two_processes_are_one_pair_per_round() {
        let (ours, theirs) = ([run(1, &[1.0; 6])], [run(2, &[2.0; 6])]);
        let ratio = row(&ours).ratio(&row(&theirs), Metric::Time);
        assert_eq!(ratio.expect("a pair").pairs, 1);
    }
}
