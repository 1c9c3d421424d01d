//! Runs other programs; errors contain the command and the cause.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::packages;
use anyhow::{Context as _, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Lines of a failed program's stderr that its error quotes.
const QUOTED_LINES: usize = 15;

/// Interval at which processes are polled.
const POLL: Duration = Duration::from_millis(50);

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Prints a line to stdout. A closed stdout is no error.
pub(crate) fn print_line(line: &str) -> Result<()> {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

/// A command with these arguments.
pub(crate) fn command<S: AsRef<OsStr>>(words: &[S]) -> Command {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("PATH", packages::search_path());
    command
}

/// Runs a command and returns its stdout. On failure, the error quotes its stderr.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    run_with_input(command, "")
}

/// Like [`run`], with this on its stdin.
pub(crate) fn run_with_input(command: &mut Command, input: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| cannot_run(command))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that exits without reading explains itself on stderr.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .with_context(|| cannot_run(command))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} failed ({}): {}",
            described(command),
            output.status,
            last_lines(&stderr, QUOTED_LINES)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn cannot_run(command: &Command) -> String {
    format!(
        "cannot run {}: `e2e build` names and installs what is missing",
        described(command)
    )
}

/// A command line, for error messages.
pub(crate) fn described(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for word in command.get_args() {
        text.push(' ');
        text.push_str(&word.to_string_lossy());
    }
    text
}

/// The last lines of a text.
pub(crate) fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}

/// From here on, Ctrl-C and SIGTERM end waiting with an error, so that everything begun is cleaned
/// up.
pub(crate) fn catch_interrupts() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag)).context("cannot catch Ctrl-C")?;
    }
    Ok(())
}

/// Fails if Ctrl-C was pressed, so that what was started is stopped.
pub(crate) fn check_interrupt() -> Result<()> {
    if INTERRUPTED
        .get()
        .is_some_and(|flag| flag.load(Ordering::Relaxed))
    {
        bail!("interrupted");
    }
    Ok(())
}

/// Waits until `check` returns `Some`. Its errors end the wait.
pub(crate) fn wait_for<T>(
    what: &str,
    timeout: Duration,
    mut check: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        check_interrupt()?;
        if let Some(found) = check()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("waited {} s for {what}", timeout.as_secs());
        }
        thread::sleep(POLL);
    }
}
