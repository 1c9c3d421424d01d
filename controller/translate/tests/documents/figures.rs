//! Figures: the README's ratios are those of the results, whose commands name scenarios that exist.

use std::collections::BTreeMap;
use std::fs;

use crate::{read, root};

/// The rows of all tables, by the name in the first cell; of several rows with one name, the first.
fn rows(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        let cells: Vec<&str> = cells.map(|cell| cell.trim_matches('*')).collect();
        rows.entry(cells[0]).or_insert(cells);
    }
    rows
}

fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("\n## {title}\n")).expect(title);
    rest.split("\n## ").next().unwrap_or(rest)
}

/// Fails unless the ratio of two figures is the stated one. Stated ratios are means of rounds, figures are
/// medians.
fn assert_ratio(ours: &str, peer: &str, stated: &str, row: &str) {
    let number = |text: &str| text.parse::<f64>().expect(text);
    let (ratio, stated) = (number(ours) / number(peer), number(stated));
    assert!(
        (ratio - stated).abs() < 0.006 + stated * 0.04,
        "{row}: {ratio:.3}, not {stated}"
    );
}

#[test]
fn the_ratios_are_those_of_the_measured_figures() {
    let results = read(&root().join("bench/RESULTS.md"));
    let beside = rows(section(&results, "What does a request cost?"));
    let mut checked = 0;
    for (row, cells) in &beside {
        if let [_, ours, _, haproxy, nginx, of_haproxy, of_nginx, _] = cells[..]
            && ours.parse::<f64>().is_ok()
        {
            assert_ratio(ours, haproxy, of_haproxy, row);
            assert_ratio(ours, nginx, of_nginx, row);
            checked += 1;
        }
    }
    let others = rows(section(
        &results,
        "What does a request cost beside Envoy and Pingora?",
    ));
    for (row, cells) in &others {
        if let [_, ours, envoy, _, of_envoy, _] = cells[..]
            && ours.parse::<f64>().is_ok()
        {
            assert_ratio(ours, envoy, of_envoy, row);
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} rows");
}

#[test]
fn the_readme_has_the_ratios_of_the_results() {
    let results = read(&root().join("bench/RESULTS.md"));
    let beside = rows(section(&results, "What does a request cost?"));
    let others = rows(section(
        &results,
        "What does a request cost beside Envoy and Pingora?",
    ));
    let readme = read(&root().join("README.md"));
    let mut compared = 0;
    for (row, cells) in rows(section(&readme, "Why this one")) {
        let (Some(beside), Some(others)) = (beside.get(row), others.get(row)) else {
            continue;
        };
        assert_eq!(cells[1..], [beside[5], beside[6], others[4]], "{row}");
        compared += 1;
    }
    assert!(compared >= 8, "{compared} rows");
}

#[test]
fn the_scenarios_of_commands_exist() {
    let folder = fs::read_dir(root().join("bench/scenarios")).expect("the scenarios");
    let files: Vec<String> = folder
        .map(|entry| read(&entry.expect("an entry").path()))
        .collect();
    let exists = |scenario: &str, variant: &str| {
        let has = |file: &&String| file.contains(&format!("id = \"{scenario}\"\n"));
        let file = files.iter().find(has);
        file.is_some_and(|file| {
            variant.is_empty() || file.contains(&format!("variant = \"{variant}\""))
        })
    };
    let results = read(&root().join("bench/RESULTS.md"));
    let codes = results.split('`').skip(1).step_by(2);
    let commands = codes.filter_map(|code| {
        let named = code.split_once("--scenario ").map(|(_, named)| named);
        let named = named.or_else(|| code.starts_with('S').then_some(code));
        named.and_then(|named| named.split_whitespace().next())
    });
    let mut scenarios = 0;
    for name in commands.flat_map(|names| names.split(',')) {
        let (scenario, variant) = name.split_once('/').unwrap_or((name, ""));
        assert!(exists(scenario, variant), "there is no scenario {name}");
        scenarios += 1;
    }
    assert!(scenarios > 20, "{scenarios} scenarios");
}
