//! The charts, rendered by Helm, and what is made from their schemas. `UPDATE_GOLDEN=1` writes the
//! actual output, to be reviewed before it is committed.

mod arguments;
mod crds;
mod dashboard;
mod files;
mod golden;
mod keys;
mod metrics;
mod rbac;
mod reference;
mod refusals;
mod upgrade;

use std::fs;
use std::path::PathBuf;

use charts::path;
use serde::de::DeserializeOwned;

/// A file of cases beside the tests.
fn cases<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let text = read(&path("tests").join(file));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn read(file: &PathBuf) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Compares a file with its expected content, or writes it.
fn check_file(file: &PathBuf, wanted: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file, wanted).expect("the file can be written");
        return;
    }
    let found = read(file);
    let lines = found.lines().zip(wanted.lines());
    let difference = lines.enumerate().find(|(_, (a, b))| a != b);
    assert!(
        found == wanted,
        "{} is not current; UPDATE_GOLDEN=1 writes it. The first difference: {difference:?}",
        file.display()
    );
}
