//! One run of a suite: its arguments, and its log as it comes.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::install::CLASS;
use super::suite::Suite;
use super::verdict::Verdict;
use crate::args::ConformanceArgs;
use crate::cluster::Cluster;
use crate::cluster::address::LOAD_BALANCER_PREFIX;
use crate::process;
use crate::programs::SUITE;

/// An address that no load balancer assigns (RFC 5737).
const UNUSABLE: &str = "192.0.2.1";

/// The implementation that the report names.
const IMPLEMENTATION: [(&str, &str); 5] = [
    ("organization", "gateway-system.io"),
    ("project", "gateway"),
    ("url", "https://gateway-system.io"),
    ("contact", "https://gateway-system.io"),
    ("version", env!("CARGO_PKG_VERSION")),
];

/// Runs the suite, in the network that this process is in.
pub(super) fn run(cluster: &Cluster, programs: &Path, args: &ConformanceArgs) -> Result<Verdict> {
    process::catch_interrupts()?;
    let logs = cluster.logs_folder().join("conformance");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let mut verdicts = Vec::new();
    if args.run_test.is_empty() {
        let whole = [("report-output", report_file(&logs, args)?)];
        verdicts.push(run_once(cluster, programs, &logs, args.suite, &whole)?);
    }
    for test in &args.run_test {
        process::check_interrupt()?;
        let one = [("run-test", test.clone())];
        verdicts.push(run_once(cluster, programs, &logs, args.suite, &one)?);
    }
    Ok(Verdict::of_all(verdicts))
}

fn run_once(
    cluster: &Cluster,
    programs: &Path,
    logs: &Path,
    suite: Suite,
    own: &[(&str, String)],
) -> Result<Verdict> {
    let file = own.iter().find(|(name, _)| *name == "run-test");
    let file = file.map_or("suite", |(_, test)| test);
    let mut log = Log::create(logs, file)?;
    let mut child = command(cluster, programs, suite, own)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run the suite in {}", programs.display()))?;
    let mut verdict = Verdict::new(log.path.clone());
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.context("cannot read the suite's output")?;
            log.write(&line)?;
            if let Some(told) = verdict.take(&line) {
                process::print_line(&told)?;
            }
            if let Err(interrupted) = process::check_interrupt() {
                child.kill().context("cannot end the suite")?;
                child.wait().context("cannot wait for the suite")?;
                return Err(interrupted);
            }
        }
    }
    let status = child.wait().context("cannot wait for the suite")?;
    verdict.end(status);
    Ok(verdict)
}

/// The suite with all its flags, and what turns its output into JSON.
fn command(cluster: &Cluster, programs: &Path, suite: Suite, own: &[(&str, String)]) -> Command {
    let [a, b, c] = LOAD_BALANCER_PREFIX;
    let mut flags = vec![
        ("gateway-class", CLASS.to_owned()),
        ("conformance-profiles", suite.profiles().to_owned()),
        ("usable-address", format!("{a}.{b}.{c}.2")),
        ("unusable-address", UNUSABLE.to_owned()),
    ];
    flags.extend(IMPLEMENTATION.map(|(name, value)| (name, value.to_owned())));
    flags.extend_from_slice(own);
    let test2json = programs.join("test2json");
    let mut command = cluster.command(&[&*test2json.to_string_lossy(), "-t"]);
    command.arg(programs.join(SUITE)).args([
        "-test.v=test2json",
        "-test.run=^TestConformance$",
        "-test.timeout=2h",
    ]);
    let flags = flags.iter();
    command.args(flags.map(|(name, value)| format!("--{name}={value}")));
    command
}

/// Where the suite writes its report.
fn report_file(logs: &Path, args: &ConformanceArgs) -> Result<String> {
    let path = match &args.report {
        Some(path) => std::path::absolute(path)
            .with_context(|| format!("cannot resolve {}", path.display()))?,
        None => logs.join("report.yaml"),
    };
    Ok(path.display().to_string())
}

/// The suite's output in the format of `go test -json`.
struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    fn create(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(format!("{name}.json"));
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path, file })
    }

    fn write(&mut self, line: &str) -> Result<()> {
        writeln!(self.file, "{line}")
            .with_context(|| format!("cannot write to {}", self.path.display()))
    }
}
