//! How many instructions the parts of the request path that do no I/O take, and a change of one route
//! among many, held against a budget.
//!
//! `cargo run --profile bench --example instructions` runs each subject under valgrind's callgrind twice, with one
//! batch of calls and with many, so that what a single call takes remains as the difference. Counts do
//! not depend on how busy the machine is. More than the budget is an error that names the function,
//! and so is much less, or what was won could be lost again unseen. `-- --write` writes the budget anew.
//! It is an example and not a bench, for which Cargo would link the gateway, too.

mod configuration;
mod http2;
mod rate_limits;
mod subjects;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use self::subjects::{SUBJECTS, Subject};

/// Batches in the difference: the preparation of a subject with thousands of hosts varies with the keys
/// of its hash tables, by up to 20 000 instructions.
const BATCHES_COUNTED: u64 = 20;

/// To be over the budget by more percent is an error. Below that lie whims of the compiler, and of where
/// a linker puts what is read.
const SLACK_PERCENT: u64 = 3;

/// To be under the budget by more percent is an error too. Less is only told: no one is harmed by a
/// compiler that does better on another machine.
const GAIN_PERCENT: u64 = 10;

/// Batches of a profile: enough that the start of the process does not show.
const BATCHES_PROFILED: u64 = 20;

/// How many of a subject's costliest functions are named when it is over its budget.
const FUNCTIONS_NAMED: usize = 8;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, batches] = arguments.as_slice()
        && flag == "--subject"
    {
        subject(name)?.run_batches(batches.parse()?);
        return Ok(ExitCode::SUCCESS);
    }
    let write = arguments.iter().any(|argument| argument == "--write");
    let measured = measure_all()?;
    if write {
        std::fs::write(budget_file(), toml::to_string(&measured)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    compare(&measured)
}

fn subject(name: &str) -> Result<&'static Subject> {
    let subject = SUBJECTS.iter().find(|subject| subject.name == name);
    subject.with_context(|| format!("no subject is called {name}"))
}

/// Instructions of one call, by subject. As many subjects at once as there are processors.
fn measure_all() -> Result<BTreeMap<String, u64>> {
    let folder = tempfile::tempdir()?;
    let next = AtomicUsize::new(0);
    let measure_some = || -> Result<Vec<(String, u64)>> {
        let mut measured = Vec::new();
        while let Some(subject) = SUBJECTS.get(next.fetch_add(1, Ordering::Relaxed)) {
            measured.push((subject.name.to_owned(), measure(subject, folder.path())?));
        }
        Ok(measured)
    };
    let threads = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(measure_some)).collect();
        let mut all = BTreeMap::new();
        for worker in workers {
            all.extend(worker.join().expect("a worker panicked")?);
        }
        Ok(all)
    })
}

/// Instructions of one call.
fn measure(subject: &Subject, folder: &Path) -> Result<u64> {
    let profile = folder.join(subject.name);
    let one = count(subject, 1, &profile)?;
    let more = count(subject, 1 + BATCHES_COUNTED, &profile)?;
    Ok((more - one) / (BATCHES_COUNTED * subject.calls))
}

/// Runs batches of a subject under callgrind. Instructions of the whole process.
fn count(subject: &Subject, batches: u64, profile: &Path) -> Result<u64> {
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(std::env::current_exe()?)
        .args(["--subject", subject.name, &batches.to_string()])
        .output()
        .context("valgrind does not start; install it: apt-get install valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", subject.name);
    let profile = std::fs::read_to_string(profile)?;
    let totals = profile
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.context("callgrind gave no totals")?.trim().parse()?)
}

fn compare(measured: &BTreeMap<String, u64>) -> Result<ExitCode> {
    let file = budget_file();
    let budgets: BTreeMap<String, u64> = toml::from_str(&std::fs::read_to_string(&file)?)?;
    let unknown: Vec<_> = budgets
        .keys()
        .filter(|name| !measured.contains_key(*name))
        .collect();
    ensure!(
        unknown.is_empty(),
        "budgets of nothing: {unknown:?}; -- --write removes them"
    );
    let (mut over, mut below) = (Vec::new(), false);
    for (name, &instructions) in measured {
        let Some(&budget) = budgets.get(name) else {
            bail!(
                "{name} has no budget in {}; write one with -- --write",
                file.display()
            );
        };
        let verdict = if instructions * 100 > budget * (100 + SLACK_PERCENT) {
            over.push(name);
            "OVER ITS BUDGET"
        } else if instructions * 100 < budget * (100 - GAIN_PERCENT) {
            below = true;
            "FAR BELOW ITS BUDGET: keep what was won with -- --write"
        } else if instructions * 100 < budget * (100 - SLACK_PERCENT) {
            "less than its budget"
        } else {
            ""
        };
        eprintln!("{name:28} {instructions:7} instructions, budget {budget:7} {verdict}");
    }
    for name in &over {
        let subject = subject(name)?;
        let calls = BATCHES_PROFILED * subject.calls;
        eprintln!("\n{name}, instructions of {calls} calls by function:");
        eprintln!("{}", costliest(subject)?);
    }
    Ok(if over.is_empty() && !below {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A subject's costliest functions, as `callgrind_annotate` prints them.
fn costliest(subject: &Subject) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let profile = folder.path().join(subject.name);
    count(subject, BATCHES_PROFILED, &profile)?;
    let output = Command::new("callgrind_annotate").arg(&profile).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let functions = text
        .lines()
        .skip_while(|line| !line.contains("file:function"));
    Ok(functions
        .take(FUNCTIONS_NAMED + 2)
        .collect::<Vec<_>>()
        .join("\n"))
}

fn budget_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/instructions/budget.toml")
}
