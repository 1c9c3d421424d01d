//! The budgets and their table in the guide for operators are the same.

use std::path::Path;

use translate::budgets::Budget;

#[test]
fn the_guide_lists_every_budget_with_its_limit() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s/OPERATING.md");
    let text = std::fs::read_to_string(&file).expect("the guide is there");
    let (before, rest) = text.split_once(HEADER).expect("it has the table");
    let rows: Vec<&str> = rest
        .lines()
        .take_while(|line| line.starts_with('|'))
        .collect();
    let expected: Vec<String> = Budget::ALL.iter().map(|it| it.table_row()).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let after = rest.lines().skip(rows.len());
        let lines: Vec<&str> = expected.iter().map(String::as_str).chain(after).collect();
        let text = format!("{before}{HEADER}{}\n", lines.join("\n"));
        std::fs::write(&file, text).expect("it can be written");
        return;
    }
    assert_eq!(rows, expected, "UPDATE_GOLDEN=1 writes the table");
}

/// The head of the table.
const HEADER: &str = "| budget | what is counted | limit | at most | beyond it | raised by | why |\n\
                      |---|---|---|---|---|---|---|\n";
