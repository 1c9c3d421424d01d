//! The report of `bench control-plane`: Markdown and HTML with plots, beside the data plane's.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::record::{ControlPlaneRecord, Measured, quantile};
use super::usage::{Point, Usage};
use crate::output::create_folder;
use crate::report::document::{Block, NO_VALUE, Plot, Table, Tone};
use crate::report::plots::{Line, PeerValues, course, figure, histogram};
use crate::report::write;
use crate::stats::count;

const TITLE: &str = "The control plane beside its peers";

/// Bounds of the histograms' classes, in milliseconds.
const BOUNDS: [f64; 11] = [
    1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 300.0, 1000.0, 3000.0,
];

/// Requirements on this project's gateway: case, figure, and upper limit.
const BARS: [(&str, &str, f64); 27] = [
    ("attached-routes", "right after the last was created", 1.0),
    (
        "attached-routes",
        "writes of it per second while routes come",
        2.0,
    ),
    ("attached-routes", "routes attached in the end", 0.0),
    ("probe", "p50", 3.0),
    ("probe", "p99", 10.0),
    ("probe", "errors", 0.0),
    ("probe-at-scale", "p50", 3.0),
    ("probe-at-scale", "p99", 10.0),
    ("probe-at-scale", "errors", 0.0),
    ("probe-under-churn", "p50", 6.0),
    ("probe-under-churn", "p99", 20.0),
    ("probe-under-churn", "errors", 0.0),
    ("route-change", "errors", 0.0),
    ("route-scale", "proxy above empty", 40.0),
    ("route-scale", "controller", 120.0),
    ("route-scale", "controller at rest", 1.0),
    ("route-scale", "proxy at rest", 1.0),
    (
        "listener-sets",
        "cold start of the controller to a change that serves",
        3.0,
    ),
    ("listener-sets", "p99", 20.0),
    ("listener-sets", "errors", 0.0),
    ("listener-sets", "controller", 250.0),
    ("listener-sets", "proxy", 150.0),
    ("listener-sets", "controller at rest", 1.0),
    ("listener-sets", "proxy at rest", 1.0),
    ("reconnect", "CPU of the controller since its start", 1.0),
    ("reconnect", "sent per proxy, in all", 20.0),
    ("endpoints", "errors", 0.0),
];

/// The class of the targets.
const TARGET_CLASS: &str = "gateway";

/// Makes the report of records; later ones replace earlier ones.
pub(super) fn report(paths: &[PathBuf], out: &Path) -> Result<()> {
    let mut paths = paths.iter();
    let mut record = ControlPlaneRecord::read(paths.next().context("no record was given")?)?;
    for path in paths {
        record.merge(ControlPlaneRecord::read(path)?);
    }
    create_folder(out)?;
    write(out, "control-plane", TITLE, &blocks(&record)?)
}

fn blocks(record: &ControlPlaneRecord) -> Result<Vec<Block>> {
    let mut blocks = vec![Block::Heading(1, TITLE.to_owned())];
    if record.quick {
        let text = "Quick runs: they show that the harness works. Do not read the numbers.";
        blocks.push(Block::Warning(text.to_owned()));
    }
    blocks.push(Block::Text(INTRODUCTION.to_owned()));
    blocks.push(Block::Heading(2, "Bars".to_owned()));
    blocks.push(Block::Table(bars(record)));
    blocks.push(Block::Heading(2, "Conditions".to_owned()));
    blocks.push(Block::List(conditions(record)));
    let mut cases: Vec<&str> = Vec::new();
    for run in &record.runs {
        if !cases.contains(&run.case.as_str()) {
            cases.push(&run.case);
        }
    }
    for case in cases {
        blocks.extend(of_case(record, case)?);
    }
    Ok(blocks)
}

const INTRODUCTION: &str = "How long changes of objects take to be served, what fails meanwhile, and what \
    controller and proxies use for it. The cases are those of the public benchmark gateway-api-bench, and \
    two more. Times run from the API server's answer to a write to the first response by the change.";

fn conditions(record: &ControlPlaneRecord) -> Vec<String> {
    let machine = &record.machine;
    let mut list = vec![format!(
        "{}, {} cores, {:.0} GiB, Linux {}; cluster, implementation and bench share them. Each case says how \
         busy the machine was, and probes how late their own questions were and how long a watch event took",
        machine.cpu,
        machine.cores,
        crate::stats::count64(machine.memory) / f64::from(1 << 30),
        machine.kernel
    )];
    for peer in &record.peers {
        list.push(format!("{}: {}", peer.name, peer.images.join(", ")));
    }
    list.push(
        "All endpoints are addresses that the bench answers itself, in EndpointSlices without pods: the nodes \
         of the cluster could not hold thousands of pods. Services have no cluster IP, so that kube-proxy \
         does not follow them"
            .to_owned(),
    );
    list.push(
        "While one implementation runs, the controllers of the others are scaled to zero"
            .to_owned(),
    );
    let sizes = &record.sizes;
    list.push(format!(
        "The changes under churn are {} a second, half of routes and half of endpoints",
        sizes.churn
    ));
    list
}

fn bars(record: &ControlPlaneRecord) -> Table {
    let peers: Vec<&str> = record.peers.iter().map(|it| it.name.as_str()).collect();
    let mut columns = vec!["case", "figure", "verdict", "at most"];
    columns.extend(&peers);
    let mut table = Table::new(&columns, 3);
    for (case, name, most) in BARS {
        let value = |peer: &str| {
            let figures = &measured(record, case, peer)?.figures;
            let found = figures.iter().find(|it| it.name == name)?;
            Some((found.value, found.unit.clone()))
        };
        let ours = value(TARGET_CLASS);
        let (verdict, tone) = match &ours {
            None => ("not measured", Tone::Plain),
            Some((value, _)) if *value <= most => ("met", Tone::Good),
            Some(_) => ("missed", Tone::Bad),
        };
        let unit = peers.iter().find_map(|peer| Some(value(peer)?.1));
        let unit = unit.unwrap_or_default();
        let mut cells = vec![
            case.to_owned(),
            name.to_owned(),
            verdict.to_owned(),
            format!("{} {unit}", figure(most)).trim().to_owned(),
        ];
        let formatted = |peer: &&str| value(peer).map_or(NO_VALUE.to_owned(), |(it, _)| figure(it));
        cells.extend(peers.iter().map(formatted));
        table.push(tone, cells);
    }
    table
}

fn measured<'a>(record: &'a ControlPlaneRecord, case: &str, peer: &str) -> Option<&'a Measured> {
    let mut runs = record.runs.iter();
    let run = runs.find(|run| run.case == case && run.peer == peer)?;
    run.result.as_ref().ok()
}

/// The results of each peer in a case.
type Results<'a> = Vec<(&'a str, &'a Measured)>;

fn of_case(record: &ControlPlaneRecord, case: &str) -> Result<Vec<Block>> {
    let mut blocks = vec![Block::Heading(2, case.to_owned())];
    let mut results: Results<'_> = Vec::new();
    for run in record.runs.iter().filter(|run| run.case == case) {
        match &run.result {
            Ok(measured) => results.push((&run.peer, measured)),
            Err(error) => blocks.push(Block::Warning(format!("{}: {error}", run.peer))),
        }
    }
    if results.is_empty() {
        return Ok(blocks);
    }
    blocks.push(Block::Table(figures(&results)));
    for (peer, measured) in &results {
        let items: Vec<String> = measured
            .errors
            .iter()
            .take(SHOWN_ERRORS)
            .map(|(error, times)| format!("{peer}: {times} × {error}"))
            .collect();
        if !items.is_empty() {
            blocks.push(Block::List(items));
        }
    }
    blocks.extend(plots(case, &results)?);
    Ok(blocks)
}

/// Kinds of errors that are named.
const SHOWN_ERRORS: usize = 10;

/// A figure of a case.
type Cost = fn(&Measured) -> f64;

fn figures(results: &Results<'_>) -> Table {
    let mut columns = vec![""];
    columns.extend(results.iter().map(|(peer, _)| *peer));
    let mut table = Table::new(&columns, 1);
    let mut names: Vec<(&str, &str)> = Vec::new();
    for found in results.iter().flat_map(|(_, measured)| &measured.figures) {
        if !names.contains(&(&found.name, &found.unit)) {
            names.push((&found.name, &found.unit));
        }
    }
    for (name, unit) in names {
        let value = |measured: &Measured| {
            let found = measured.figures.iter().find(|it| it.name == name)?;
            Some(figure(found.value))
        };
        row(&mut table, results, &with_unit(name, unit), value);
    }
    let mut writes: Vec<&String> = results
        .iter()
        .flat_map(|(_, it)| it.writes.keys())
        .collect();
    writes.sort_unstable();
    writes.dedup();
    for resource in writes {
        row(
            &mut table,
            results,
            &format!("API writes of {resource}"),
            |measured| measured.writes.get(resource).map(|it| format!("{it:.0}")),
        );
    }
    let costs: [(&str, Cost); 6] = [
        ("CPU of the controller, s", |it| it.controller.cpu),
        ("CPU of the proxies, s", |it| it.proxies.cpu),
        ("memory of the controller at most, MB", |it| {
            it.controller.rss[2] / 1e6
        }),
        ("memory of the proxies at most, MB", |it| {
            it.proxies.rss[2] / 1e6
        }),
        ("duration, s", |it| it.seconds),
        ("the machine was busy, %", |it| it.machine_busy * 100.0),
    ];
    for (name, cost) in costs {
        row(&mut table, results, name, |measured| {
            Some(figure(cost(measured)))
        });
    }
    table
}

fn with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() {
        name.to_owned()
    } else {
        format!("{name}, {unit}")
    }
}

fn row(
    table: &mut Table,
    results: &Results<'_>,
    name: &str,
    value: impl Fn(&Measured) -> Option<String>,
) {
    let mut cells = vec![name.to_owned()];
    let values = results
        .iter()
        .map(|(_, it)| value(it).unwrap_or(NO_VALUE.to_owned()));
    cells.extend(values);
    table.push(Tone::Plain, cells);
}

fn plots(case: &str, results: &Results<'_>) -> Result<Vec<Block>> {
    let plot = |name: &str, alt: &str, svg: String| {
        Block::Plot(Plot {
            name: format!("control-plane-{case}-{name}"),
            alt: format!("{case}: {alt}"),
            svg,
        })
    };
    let mut blocks = Vec::new();
    let took: Vec<(&str, Vec<f64>)> = results
        .iter()
        .filter(|(_, it)| !it.changes.is_empty())
        .map(|(peer, it)| (*peer, it.changes.iter().map(|change| change.took).collect()))
        .collect();
    if !took.is_empty() {
        let peer_values: Vec<_> = took
            .iter()
            .map(|(peer, values)| PeerValues { peer, values })
            .collect();
        let svg = histogram(&peer_values, &BOUNDS, "ms until a change serves")?;
        blocks.push(plot("histogram", "how long changes took to serve", svg));
        blocks.push(plot(
            "course",
            "how long each change took",
            over_changes(&took)?,
        ));
    }
    let attached: Vec<Line<'_>> = results
        .iter()
        .filter(|(_, it)| !it.attached.is_empty())
        .map(|(peer, it)| Line {
            peer,
            points: it.attached.clone(),
        })
        .collect();
    if !attached.is_empty() {
        let svg = course(&attached, "seconds", "attachedRoutes", false)?;
        blocks.push(plot("attached", "attachedRoutes over time", svg));
    }
    let cores = usage(results, "cores", |point| point.cores)?;
    blocks.push(plot("cpu", "busy cores over time", cores));
    let memory = usage(results, "MB", |point| point.rss / 1e6)?;
    blocks.push(plot("memory", "resident memory over time", memory));
    Ok(blocks)
}

/// Points of a line, which is enough for any picture.
const POINTS: usize = 60;

/// The median and the maximum of each group of changes.
fn over_changes(took: &[(&str, Vec<f64>)]) -> Result<String> {
    let mut names = Vec::new();
    for (peer, values) in took {
        let chunk_size = values.len().div_ceil(POINTS).max(1);
        for (name, share) in [("p50", 0.5), ("longest", 1.0)] {
            let points = values.chunks(chunk_size).enumerate().map(|(number, part)| {
                let mut part = part.to_vec();
                part.sort_by(f64::total_cmp);
                // Differences below the time of one request cannot be distinguished.
                (count(number * chunk_size), quantile(&part, share).max(0.1))
            });
            names.push((format!("{peer} {name}"), points.collect::<Vec<_>>()));
        }
    }
    let lines: Vec<Line<'_>> = names
        .iter()
        .map(|(peer, points)| Line {
            peer,
            points: points.clone(),
        })
        .collect();
    course(&lines, "changes so far", "ms until a change serves", true)
}

fn usage(results: &Results<'_>, up: &str, value: fn(&Point) -> f64) -> Result<String> {
    let mut names = Vec::new();
    for (peer, measured) in results {
        for (what, usage) in [
            ("controller", &measured.controller),
            ("proxies", &measured.proxies),
        ] {
            names.push((format!("{peer} {what}"), thinned(usage, value)));
        }
    }
    let lines: Vec<Line<'_>> = names
        .iter()
        .map(|(peer, points)| Line {
            peer,
            points: points.clone(),
        })
        .collect();
    course(&lines, "seconds", up, false)
}

fn thinned(usage: &Usage, value: fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let chunk_size = usage.points.len().div_ceil(POINTS * 2).max(1);
    let mean = |part: &[Point], of: &dyn Fn(&Point) -> f64| {
        part.iter().map(of).sum::<f64>() / count(part.len())
    };
    let parts = usage.points.chunks(chunk_size);
    parts
        .map(|part| (mean(part, &|it| it.at), mean(part, &value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane::record::{Figure, PeerInfo, Propagation, Run};

    fn record(errors: f64) -> ControlPlaneRecord {
        let figure = |name: &str, value| Figure {
            name: name.to_owned(),
            unit: String::new(),
            value,
        };
        let mut measured = Measured {
            figures: vec![figure("p50", 2.0), figure("errors", errors)],
            changes: vec![Propagation { at: 0.0, took: 2.0 }; 3],
            ..Measured::default()
        };
        measured.errors.insert("503".to_owned(), 4);
        let text = format!(
            r#"{{"started": 1, "machine": {}, "sizes": {}, "quick": false, "peers": [], "runs": []}}"#,
            r#"{"cpu": "a", "cores": 2, "memory": 0, "kernel": "6", "congestion_control": "", "tools": {}}"#,
            r#"{"attached": 1, "probes": 1, "namespaces": 1, "routes": 1, "probes_at_scale": 1, "churn": 1,
                "change_seconds": 1, "sets": 1, "routes_per_set": 1, "replicas": 1, "endpoints": 1}"#
        );
        let mut record: ControlPlaneRecord = serde_json::from_str(&text).expect("a record");
        record.peers.push(PeerInfo {
            name: TARGET_CLASS.to_owned(),
            images: Vec::new(),
        });
        record.runs.push(Run {
            case: "probe".to_owned(),
            peer: TARGET_CLASS.to_owned(),
            result: Ok(measured),
        });
        record
    }

    #[test]
    fn a_target_is_met_up_to_its_bound_and_missed_beyond() {
        let verdict = |errors: f64| {
            let rows = bars(&record(errors)).rows;
            let row = rows
                .into_iter()
                .find(|it| it.cells[..2] == ["probe", "errors"]);
            row.expect("a row").cells[2].clone()
        };
        assert_eq!(
            (verdict(0.0), verdict(1.0)),
            ("met".into(), "missed".into())
        );
    }

    #[test]
    fn a_case_shows_its_errors_and_its_histogram() {
        let blocks = of_case(&record(4.0), "probe").expect("blocks");
        let text = format!("{blocks:?}");
        assert!(
            text.contains("gateway: 4 × 503") && text.contains("control-plane-probe-histogram")
        );
    }
}
