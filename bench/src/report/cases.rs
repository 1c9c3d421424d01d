//! The second part of a report: a section per scenario, a table and plots per case.

use std::collections::BTreeMap;

use anyhow::Result;

use super::document::{Block, NO_VALUE, Plot, Table, Tone};
use super::intro::ratio_text;
use super::plots::{self, Bar, Line, figure};
use super::summary::{CaseSummary, Row};
use crate::load::latency::LatencyBasis;
use crate::peers::Role;
use crate::scenario::{Metric, RouteKey};
use crate::stats::{count, count64};
use crate::subject::CHANGES;

pub(super) fn blocks(summaries: &[CaseSummary<'_>]) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for scenario in summaries.chunk_by(|a, b| a.case.id == b.case.id) {
        let Some(first) = scenario.first() else {
            continue;
        };
        let case = first.case;
        blocks.push(Block::Heading(2, format!("{}: {}", case.id, case.title)));
        blocks.push(Block::Text(case.why.clone()));
        for summary in scenario {
            if scenario.len() > 1 {
                blocks.push(Block::Heading(3, summary.case.name()));
            }
            blocks.extend(case_blocks(summary)?);
        }
        blocks.extend(growth(scenario)?);
    }
    Ok(blocks)
}

fn case_blocks(summary: &CaseSummary<'_>) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let metric = summary.metric();
    let good: Vec<_> = summary.rows.iter().filter(|row| row.is_good()).collect();
    let bars: Vec<_> = good
        .iter()
        .filter_map(|row| {
            Some(Bar {
                peer: row.peer,
                role: row.role,
                spread: row.spread(metric)?,
            })
        })
        .collect();
    if !bars.is_empty() {
        let (unit, name) = match metric {
            Metric::RssPerConnection => ("bytes resident per idle connection", "memory"),
            _ => ("CPU µs per request", "cpu"),
        };
        let floor = summary
            .best(Role::Floor, metric)
            .and_then(|row| row.spread(metric));
        let svg = plots::bars(bars, unit, floor.map(|spread| spread.median))?;
        blocks.push(plot(summary, name, unit, svg));
        blocks.push(Block::Table(table(summary)));
    }
    let paced: Vec<_> = good.iter().copied().filter(|row| is_paced(row)).collect();
    if !paced.is_empty() {
        let svg = plots::latency(&paced)?;
        blocks.push(plot(summary, "latency", "latency by quantile", svg));
    }
    let notes = notes(summary);
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    Ok(blocks)
}

fn plot(summary: &CaseSummary<'_>, kind: &str, shows: &str, svg: String) -> Block {
    let case = summary.case.name();
    let name = format!("{}-{kind}", case.to_lowercase().replace('/', "-"));
    Block::Plot(Plot {
        name,
        alt: format!("{case}: {shows}"),
        svg,
    })
}

fn is_paced(row: &Row<'_>) -> bool {
    let basis = |(_, measured): &(usize, &crate::record::Measured)| {
        measured
            .latency
            .as_ref()
            .is_some_and(|latency| latency.basis == LatencyBasis::Corrected)
    };
    row.runs.iter().any(basis)
}

fn table(summary: &CaseSummary<'_>) -> Table {
    let metric = summary.metric();
    let headline = match metric {
        Metric::RssPerConnection => "bytes per connection",
        _ => "CPU µs per request",
    };
    let columns = [
        "proxy",
        headline,
        "min to max",
        "× floor",
        "gateway ÷ it",
        "requests per s",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "RSS MiB",
        "waits per request",
        "syscalls per request",
        "lost",
        "changes",
        "origin µs per request",
    ];
    let mut table = Table::new(&columns, 1);
    let floor = summary.best(Role::Floor, metric);
    let gateway = summary.best(Role::Gateway, metric);
    for row in summary.rows.iter().filter(|row| row.is_good()) {
        let tone = match row.role {
            Role::Gateway => Tone::Ours,
            Role::Floor => Tone::Floor,
            Role::Peer => Tone::Plain,
        };
        table.push(tone, cells(row, metric, floor, gateway));
    }
    table.without_empty_columns()
}

fn cells(
    row: &Row<'_>,
    metric: Metric,
    floor: Option<&Row<'_>>,
    gateway: Option<&Row<'_>>,
) -> Vec<String> {
    let nothing = || NO_VALUE.to_owned();
    let formatted = |value: Option<f64>| value.map_or_else(nothing, figure);
    let median = |number: &dyn Fn(&crate::record::Measured) -> Option<f64>| {
        formatted(row.over(number).map(|spread| spread.median))
    };
    let spread = row.spread(metric);
    let range = spread.map_or_else(nothing, |s| {
        format!("{} to {}", figure(s.min), figure(s.max))
    });
    let over_floor = floor.and_then(|floor| row.ratio(floor, metric));
    let ours = gateway.filter(|ours| ours.peer != row.peer);
    let against = ours.and_then(|ours| ours.ratio(row, metric));
    let cpu = metric == Metric::Cpu;
    vec![
        row.peer.to_owned(),
        formatted(spread.map(|s| s.median)),
        range,
        over_floor.as_ref().map_or_else(nothing, ratio_text),
        against.as_ref().map_or_else(nothing, ratio_text),
        median(&|m| cpu.then(|| m.rate())),
        formatted(row.latency(0.5)),
        formatted(row.latency(0.99)),
        formatted(row.latency(0.999)),
        median(&rss_mib),
        median(&|m| cpu.then_some(m.voluntary)),
        median(&|m| m.syscalls),
        median(&|m| m.extra.contains_key(CHANGES).then(|| count64(m.lost))),
        median(&|m| m.extra.get(CHANGES).copied()),
        median(&|m| cpu.then_some(m.origin_cpu_us)),
    ]
}

/// Failed, skipped and noisy runs.
fn notes(summary: &CaseSummary<'_>) -> Vec<String> {
    let failed = summary
        .rows
        .iter()
        .filter_map(|row| Some(format!("{} failed: {}", row.peer, row.failure?)));
    let skipped = summary
        .skipped
        .iter()
        .map(|s| format!("{} not run: {}", s.peer, s.why));
    let noisy: Vec<_> = summary.rows.iter().filter(|row| row.noisy() > 0).collect();
    let noisy = (!noisy.is_empty()).then(|| {
        let one = |row: &&Row<'_>| format!("{} {} of {}", row.peer, row.noisy(), row.runs.len());
        let all: Vec<_> = noisy.iter().map(one).collect();
        format!("runs disturbed by other work: {}", all.join(", "))
    });
    failed.chain(skipped).chain(noisy).collect()
}

/// How cost grows within a scenario: with routes, or with connections.
fn growth(scenario: &[CaseSummary<'_>]) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for (title, along, up, kind, number) in KINDS {
        let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for summary in scenario {
            let Some(x) = kind(summary) else { continue };
            for row in summary.rows.iter().filter(|row| row.is_good()) {
                if let Some(y) = row.over(number) {
                    lines.entry(row.peer).or_default().push((x, y.median));
                }
            }
        }
        // Variants may differ in something else.
        lines.retain(|_, points| {
            let first = points.first().map(|(x, _)| *x).unwrap_or_default();
            points.iter().any(|(x, _)| x.total_cmp(&first).is_ne())
        });
        if let (Some(summary), false) = (scenario.first(), lines.is_empty()) {
            let lines: Vec<_> = lines
                .into_iter()
                .map(|(peer, points)| Line { peer, points })
                .collect();
            let svg = plots::growth(&lines, along, up)?;
            blocks.push(Block::Heading(3, (*title).to_owned()));
            let id = summary.case.id.to_lowercase();
            let name = format!("{id}-{}", title.to_lowercase().replace(' ', "-"));
            blocks.push(Block::Plot(Plot {
                name,
                alt: (*title).to_owned(),
                svg,
            }));
        }
    }
    Ok(blocks)
}

type Kind = fn(&CaseSummary<'_>) -> Option<f64>;
type Number = fn(&crate::record::Measured) -> Option<f64>;

/// Title, horizontal and vertical axis, and what each is made of.
const KINDS: &[(&str, &str, &str, Kind, Number)] = &[
    (
        "Cost by number of hosts",
        "hosts",
        "CPU µs per request",
        |s| routes(s, RouteKey::Hosts),
        |m| Some(m.cpu_us),
    ),
    (
        "Cost by number of path prefixes",
        "path prefixes on one host",
        "CPU µs per request",
        |s| routes(s, RouteKey::Prefixes),
        |m| Some(m.cpu_us),
    ),
    (
        "Memory by number of plain connections",
        "idle connections",
        "resident MiB",
        |s| connections(s, false),
        rss_mib,
    ),
    (
        "Memory by number of TLS connections",
        "idle connections",
        "resident MiB",
        |s| connections(s, true),
        rss_mib,
    ),
];

fn routes(summary: &CaseSummary<'_>, by: RouteKey) -> Option<f64> {
    (summary.case.routes.by == by).then(|| count(summary.case.routes.count))
}

fn connections(summary: &CaseSummary<'_>, encrypted: bool) -> Option<f64> {
    let fits =
        summary.metric() == Metric::RssPerConnection && summary.case.encrypted() == encrypted;
    fits.then(|| count(summary.case.load.connections))
}

fn rss_mib(measured: &crate::record::Measured) -> Option<f64> {
    measured.rss.map(|bytes| count64(bytes) / MIB)
}

const MIB: f64 = 1024.0 * 1024.0;
