//! Reads the result of each test from a suite's log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;

use anyhow::Result;
use serde::Deserialize;

use crate::process::{last_lines, print_line};

/// Lines of a failed test's output that are printed; the log has all.
const QUOTED_LINES: usize = 40;

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    passed: usize,
    failed: Vec<String>,
    /// By the suite's reason.
    skipped: BTreeMap<String, Vec<String>>,
    /// Output of the tests that are running.
    outputs: BTreeMap<String, String>,
    /// Why the suite itself failed, if it did.
    broken: Vec<String>,
    logs: Vec<PathBuf>,
}

/// A line of a log.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    test: Option<String>,
    elapsed: Option<f64>,
    output: Option<String>,
}

impl Verdict {
    pub(super) fn new(log: PathBuf) -> Self {
        Self {
            logs: vec![log],
            ..Self::default()
        }
    }

    /// Adds a line of the log, and returns a summary if it ends a test.
    pub(super) fn take(&mut self, line: &str) -> Option<String> {
        let event: Event = serde_json::from_str(line).ok()?;
        let test = event.test.unwrap_or_default();
        let mut path = test.split('/');
        let name = path.nth(1).unwrap_or_default().to_owned();
        let is_part = path.next().is_some();
        if event.action == "output" {
            let text = event.output.unwrap_or_default();
            self.outputs.entry(name).or_default().push_str(&text);
            return None;
        }
        if name.is_empty() || is_part {
            return None;
        }
        let took = event.elapsed.unwrap_or_default();
        match event.action.as_str() {
            "pass" => {
                self.outputs.remove(&name);
                self.passed += 1;
                Some(format!("test {name} ... ok ({took:.1} s)"))
            }
            "fail" => {
                let output = self.outputs.remove(&name).unwrap_or_default();
                let output = last_lines(&output, QUOTED_LINES);
                self.failed.push(name.clone());
                Some(format!("test {name} ... FAILED ({took:.1} s)\n{output}"))
            }
            "skip" => {
                let output = self.outputs.remove(&name).unwrap_or_default();
                let reason = reason(&output, &name);
                self.skipped.entry(reason).or_default().push(name);
                None
            }
            _ => None,
        }
    }

    /// Adds the suite's exit status.
    pub(super) fn end(&mut self, status: ExitStatus) {
        if status.success() || !self.failed.is_empty() {
            return;
        }
        let output = self.outputs.values().map(String::as_str);
        let output: String = output.collect();
        let output = last_lines(&output, QUOTED_LINES);
        self.broken
            .push(format!("the suite ended with {status}:\n{output}"));
    }

    pub(super) fn of_all(verdicts: Vec<Self>) -> Self {
        let mut all = Self::default();
        for verdict in verdicts {
            all.passed += verdict.passed;
            all.failed.extend(verdict.failed);
            all.broken.extend(verdict.broken);
            all.logs.extend(verdict.logs);
            for (reason, tests) in verdict.skipped {
                all.skipped.entry(reason).or_default().extend(tests);
            }
        }
        // With `--run-test`, this would list every other test.
        all.skipped.remove(NOT_CHOSEN);
        all
    }

    pub(super) fn passed(&self) -> bool {
        self.failed.is_empty() && self.broken.is_empty() && self.passed > 0
    }

    pub(super) fn print_summary(&self) -> Result<()> {
        for broken in &self.broken {
            print_line(broken)?;
        }
        for (reason, tests) in &self.skipped {
            print_line(&format!("skipped, {reason}: {}", tests.join(", ")))?;
        }
        for name in &self.failed {
            print_line(&format!("failed: {name}"))?;
        }
        let skipped: usize = self.skipped.values().map(Vec::len).sum();
        print_line(&format!(
            "conformance: {} passed, {} failed, {skipped} skipped",
            self.passed,
            self.failed.len()
        ))?;
        for log in &self.logs {
            print_line(&format!("log: {}", log.display()))?;
        }
        Ok(())
    }
}

/// The suite's reason for skipping a test.
fn reason(output: &str, name: &str) -> String {
    let mark = format!("Skipping {name}: ");
    let found = output.lines().find_map(|line| line.split_once(&mark));
    found.map_or_else(|| "without a reason".to_owned(), |(_, why)| why.to_owned())
}

const NOT_CHOSEN: &str = "test explicitly skipped";

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &[&str]) -> (Verdict, Vec<String>) {
        let mut verdict = Verdict::new(PathBuf::from("log"));
        let results = lines.iter().filter_map(|line| verdict.take(line));
        let results = results.collect();
        (verdict, results)
    }

    #[test]
    fn subtests_are_reported_with_their_test() {
        let (verdict, told) = verdict(&[
            r#"{"Action":"run","Test":"TestConformance/A"}"#,
            r#"{"Action":"output","Test":"TestConformance/A/part","Output":"wrong status\n"}"#,
            r#"{"Action":"fail","Test":"TestConformance/A/part","Elapsed":1}"#,
            r#"{"Action":"fail","Test":"TestConformance/A","Elapsed":2}"#,
            r#"{"Action":"pass","Test":"TestConformance/B","Elapsed":0.5}"#,
            r#"{"Action":"fail","Test":"TestConformance","Elapsed":3}"#,
        ]);
        assert_eq!(
            told,
            [
                "test A ... FAILED (2.0 s)\nwrong status",
                "test B ... ok (0.5 s)"
            ]
        );
        assert_eq!(
            (verdict.passed, &*verdict.failed),
            (1, &["A".to_owned()][..])
        );
        assert!(!verdict.passed());
    }

    #[test]
    fn skipped_tests_are_grouped_by_reason() {
        let (verdict, _) = verdict(&[
            r#"{"Action":"output","Test":"TestConformance/A","Output":"    x.go:1: Skipping A: suite does not support Mesh\n"}"#,
            r#"{"Action":"skip","Test":"TestConformance/A","Elapsed":0}"#,
        ]);
        assert_eq!(verdict.skipped["suite does not support Mesh"], ["A"]);
        assert!(!verdict.passed(), "no test passed");
    }

    #[test]
    fn a_suite_that_fails_before_its_tests_has_not_passed() {
        use std::os::unix::process::ExitStatusExt as _;
        let (mut verdict, _) = verdict(&[
            r#"{"Action":"output","Test":"TestConformance","Output":"no such class\n"}"#,
            r#"{"Action":"pass","Test":"TestConformance/B","Elapsed":0.5}"#,
        ]);
        verdict.end(ExitStatus::from_raw(256));
        assert!(!verdict.passed());
        assert!(verdict.broken[0].contains("no such class"));
    }
}
