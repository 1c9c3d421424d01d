//! The tests that `conformance.md` names exist.

use std::fs;
use std::path::Path;

/// The rows of all tables: their cells.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| "));
    let cells = lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect());
    cells
        .filter(|cells: &Vec<_>| cells[0] != "clause")
        .collect()
}

/// Why a test that is named is not there.
fn missing(named: &str) -> Option<String> {
    let (file, function) = match named.split_once("::") {
        Some((file, function)) => (file, Some(function)),
        None => (named, None),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let Ok(text) = fs::read_to_string(path) else {
        return Some(format!("{named}: there is no such file"));
    };
    let is_there = function.is_none_or(|name| text.contains(&format!("fn {name}(")));
    (!is_there).then(|| format!("{named}: the file has no such test"))
}

#[test]
fn every_row_names_tests_that_exist() {
    let table = include_str!("conformance.md");
    let mut problems = Vec::new();
    let rows = rows(table);
    assert!(rows.len() > 30, "the tables were not found");
    for row in rows {
        let [clause, behavior, tests] = *row else {
            problems.push(format!("{row:?}: a row has three cells"));
            continue;
        };
        let named: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && !behavior.starts_with("Deviates:") {
            problems.push(format!("{clause}: no test is named"));
        }
        problems.extend(named.into_iter().filter_map(missing));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
