//! What the documents say about tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files in a table, each with the tests that are named after it.
fn named_tests(table: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut file = None;
    for code in table.split('`').skip(1).step_by(2) {
        if Path::new(code).extension().is_some_and(|it| it == "rs") {
            file = Some(code);
        } else if let Some(file) = file {
            tests.entry(file).or_default().push(code);
        }
    }
    tests
}

#[test]
fn every_promise_to_tenants_names_tests_that_exist() {
    let text = read(&root().join("SECURITY.md"));
    let (_, section) = text.split_once("\n## Tenants\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let promises: Vec<&str> = rows.skip(1).collect();
    assert!(promises.len() >= 6, "{promises:?}");
    for promise in promises {
        let (_, tests) = promise
            .trim_end_matches(" |")
            .rsplit_once(" | ")
            .expect("two columns");
        let tests = named_tests(tests);
        assert!(!tests.is_empty(), "no test: {promise}");
        for (file, tests) in tests {
            let source = read(&root().join(file));
            for test in tests {
                let declared = format!("fn {test}(");
                assert!(source.contains(&declared), "{file} has no test {test}");
            }
        }
    }
}
