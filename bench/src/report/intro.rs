//! The first parts of a report: the results against the targets, the machine, and the method.

use std::collections::BTreeMap;

use super::document::{Block, Table, Tone};
use super::plots::figure;
use super::summary::CaseSummary;
use super::targets::{TargetResult, Verdict, evaluate};
use crate::peers::Role;
use crate::record::BenchRecord;
use crate::stats::{PAIRS_FOR_INTERVAL, Ratio};

pub(super) fn blocks(record: &BenchRecord, summaries: &[CaseSummary<'_>]) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, "Targets".to_owned())];
    blocks.extend(target_blocks(&evaluate(summaries)));
    blocks.push(Block::Heading(2, "Machine and versions".to_owned()));
    blocks.push(Block::Table(machine(record)));
    blocks.push(Block::Heading(2, "Method".to_owned()));
    blocks.push(Block::List(method(record)));
    let everywhere: Vec<_> = record.skipped.iter().filter(|s| s.case == "all").collect();
    if !everywhere.is_empty() {
        let items = everywhere.iter().map(|s| match s.peer.as_str() {
            "all" => s.why.clone(),
            peer => format!("{peer}: {}", s.why),
        });
        blocks.push(Block::Heading(3, "Not in this report".to_owned()));
        blocks.push(Block::List(items.collect()));
    }
    blocks
}

/// The headline, and what a reader must know about the numbers.
pub(super) fn lead(record: &BenchRecord) -> Vec<Block> {
    let lead = "CPU time of the proxy per request is the headline: it is what a node is paid for, \
        and it compares where throughput is bounded by load and origin. All proxies had the same \
        core, the same load, the same origin and the same limits, and ran in turns.";
    let mut warnings = Vec::new();
    let measured: Vec<_> = record
        .runs
        .iter()
        .filter_map(|run| run.result.as_ref().ok())
        .collect();
    let noisy = measured
        .iter()
        .filter(|measured| measured.noise.is_some())
        .count();
    if record.settings.quick {
        warnings
            .push("Quick runs: they show that the harness works. Do not read the numbers.".into());
    }
    if noisy > 0 {
        let all = measured.len();
        warnings.push(format!(
            "{noisy} of {all} runs were disturbed by other work on the machine."
        ));
    }
    if !record.peers.iter().any(|peer| peer.role == Role::Gateway) {
        warnings.push("Our own gateway was not measured.".to_owned());
    }
    let warnings = warnings.into_iter().map(Block::Warning);
    std::iter::once(Block::Text(lead.to_owned()))
        .chain(warnings)
        .collect()
}

fn target_blocks(judged: &[TargetResult]) -> Vec<Block> {
    let (measured, rest): (Vec<_>, Vec<_>) = judged.iter().partition(|j| j.reached.is_some());
    let count = |verdict| {
        let is = |j: &&&TargetResult| j.reached.is_some_and(|(_, v)| v == verdict);
        measured.iter().filter(is).count()
    };
    let (met, missed, open) = (
        count(Verdict::Met),
        count(Verdict::Missed),
        count(Verdict::Open),
    );
    let mut blocks = vec![Block::Text(format!(
        "{met} met, {missed} missed, {open} too close to call, {} not measured.",
        rest.len()
    ))];
    let mut table = Table::new(&["scenario", "gateway", "target", "reached", "verdict"], 5);
    for one in judged {
        let (reached, tone, verdict) = match &one.reached {
            None => ("–".to_owned(), Tone::Plain, "not measured"),
            Some((ratio, verdict)) => {
                let tone = match verdict {
                    Verdict::Met => Tone::Good,
                    Verdict::Missed => Tone::Bad,
                    Verdict::Open => Tone::Plain,
                };
                (ratio_text(ratio), tone, verdict.word())
            }
        };
        let cells = [&one.case, &one.gateway, &one.wanted, &reached, verdict];
        table.push(tone, cells.map(ToString::to_string).to_vec());
    }
    blocks.push(Block::Table(table));
    blocks
}

/// `0.93 [0.91, 0.95]`, the interval only where there is one.
pub(super) fn ratio_text(ratio: &Ratio) -> String {
    let two = |value: f64| {
        if value < 10.0 {
            format!("{value:.2}")
        } else {
            figure(value)
        }
    };
    match ratio.interval {
        Some((low, high)) => format!("{} [{}, {}]", two(ratio.value), two(low), two(high)),
        None => two(ratio.value),
    }
}

fn machine(record: &BenchRecord) -> Table {
    let machine = &record.machine;
    let mut table = Table::new(&["part", "version"], 2);
    let mut push = |name: &str, value: String| {
        table.push(Tone::Plain, vec![name.to_owned(), value]);
    };
    push(
        "processor",
        format!("{}, {} cores", machine.cpu, machine.cores),
    );
    push(
        "memory",
        format!("{} GiB", (machine.memory >> 29).div_ceil(2)),
    );
    push("kernel", machine.kernel.clone());
    push("congestion control", machine.congestion_control.clone());
    for peer in &record.peers {
        push(&peer.name, peer.version.clone());
    }
    for (tool, version) in &machine.tools {
        push(tool, version.clone());
    }
    table
}

fn method(record: &BenchRecord) -> Vec<String> {
    let settings = &record.settings;
    let measured = record
        .runs
        .iter()
        .filter_map(|run| run.result.as_ref().ok());
    vec![
        format!(
            "Proxy on core {:?} with one worker per core used, load and origin ({}) on {:?}, all \
             over loopback. With two workers the second shares its core with the load.",
            settings.proxy_cores.first().copied().unwrap_or(0),
            settings.origin,
            settings.load_cores
        ),
        format!(
            "Rounds: {}; in each every proxy is started afresh and warmed up for {} s. Then all stand \
             ready, with the connections of their own load, and take turns of {} ms (some \
             scenarios: longer) in a rotating order until each has been measured for {} s; one at \
             a time has a load. Tables show medians with minimum and maximum.",
            range(rounds_of_cases(record)),
            settings.warm_up,
            settings.slice_ms,
            range(measured.map(|run| whole(run.seconds)))
        ),
        format!(
            "Comparisons divide runs of the same round; from {PAIRS_FOR_INTERVAL} rounds on they \
             carry a 95 % confidence interval in brackets. Without one, read nothing into \
             differences under 10 %."
        ),
        "CPU per request is user and system time of all processes of the proxy by the requests \
         answered, summed over its turns; system calls are counted in a separate pass."
            .to_owned(),
        "At a fixed rate latency runs from the moment a request was due (corrected for \
         coordinated omission). Flat out it runs from sending, and compares only between proxies \
         of the same throughput; of wrk and h2load, which are stopped between turns, it is not \
         taken."
            .to_owned(),
        "Answers are verified (every byte by our own loaders; status, size and count with wrk and \
         h2load), before, during and after each run, and the origin must have counted as many \
         requests as the clients. A wrong answer fails the run."
            .to_owned(),
        "The floor is the best bare TCP relay present in the same rounds.".to_owned(),
    ]
}

/// How many rounds each case had: records of several runs may be in one.
fn rounds_of_cases(record: &BenchRecord) -> impl Iterator<Item = usize> {
    let mut last = BTreeMap::new();
    for run in &record.runs {
        let rounds = last.entry(run.case.as_str()).or_insert(0);
        *rounds = (*rounds).max(run.round + 1);
    }
    last.into_values()
}

/// `3`, or `3 to 10`.
fn range(numbers: impl Iterator<Item = usize>) -> String {
    let (least, most) = numbers.fold((usize::MAX, 0), |(least, most), number| {
        (least.min(number), most.max(number))
    });
    if least < most {
        format!("{least} to {most}")
    } else {
        most.to_string()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds of a run, which are few"
)]
fn whole(seconds: f64) -> usize {
    seconds.round() as usize
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn a_range_of_equal_values_is_one_number() {
        assert_eq!(range([3, 3].into_iter()), "3");
        assert_eq!(range([10, 3, 5].into_iter()), "3 to 10");
        assert_eq!(range(std::iter::empty()), "0");
    }
}
