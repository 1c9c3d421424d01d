//! Mistakes on command lines: the program refuses them before it does anything, and says what to do.

use std::fs;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::support::binary;

/// A mistake, and what a user sees of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) mistake: String,
    pub(super) line: String,
    pub(super) says: String,
}

pub(super) fn cases() -> Vec<Case> {
    serde_saphyr::from_str(include_str!("cases/flags.yaml")).expect("cases")
}

#[test]
fn a_mistake_on_a_command_line_is_refused_in_words() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let right = include_str!("right.yaml");
    let right = right.replace("NAME", "shop").replace("ORIGIN", "80");
    fs::write(file.path(), right).expect("a file");
    let file = file.path().to_string_lossy();
    let mut wrong = Vec::new();
    for case in cases() {
        let mut words = case.line.split(' ');
        let mut command = match words.next() {
            Some("gateway") => Command::new(binary()),
            _ => Command::new(env!("CARGO_BIN_EXE_gwctl")),
        };
        let words = words.map(|it| if it == "FILE" { &*file } else { it });
        let command = command.args(words).stdin(Stdio::null());
        let output = command.output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let said: Vec<&str> = said.split_whitespace().collect();
        let said = said.join(" ");
        if output.status.success() || !said.contains(&case.says) {
            wrong.push(format!("{}: {}: {said}", case.line, output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
