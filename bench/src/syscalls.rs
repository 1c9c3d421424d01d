//! System calls of a proxy, counted by perf's raw tracepoint.
//!
//! Counting costs the proxy something, so it has a short load of its own after the measured one.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use crate::{process, procfs};

#[derive(Debug)]
pub(crate) struct Counter {
    perf: Child,
}

impl Counter {
    /// Counts for the process tree of `root` from now on.
    pub(crate) fn start(root: u32) -> Result<Self> {
        let pids: Vec<_> = procfs::tree(root)?.iter().map(u32::to_string).collect();
        let perf = Command::new("perf")
            .args(["stat", "-x,", "-e", EVENT, "-p", &pids.join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run perf")?;
        Ok(Self { perf })
    }

    pub(crate) fn stop(self) -> Result<u64> {
        process::signal(self.perf.id(), Signal::INT)?;
        let output = self.perf.wait_with_output()?;
        parse(&String::from_utf8_lossy(&output.stderr)).context("perf counted nothing")
    }
}

/// Why calls cannot be counted here, if so.
pub(crate) fn unable() -> Option<String> {
    let attempt = || -> Result<()> {
        let text = process::output("perf", &["stat", "-x,", "-e", EVENT, "true"])?;
        ensure!(
            parse(&text).is_some(),
            "perf is not permitted to count {EVENT}: run as root"
        );
        Ok(())
    };
    attempt().err().map(|error| format!("{error:#}"))
}

/// The first field of the line of our event; text where it could not be counted.
fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

const EVENT: &str = "raw_syscalls:sys_enter";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syscall_counts_are_parsed_and_unsupported_counters_ignored() {
        assert_eq!(
            parse("4711,,raw_syscalls:sys_enter,1000,100.00,,\n"),
            Some(4711)
        );
        assert_eq!(
            parse("<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n"),
            None
        );
        assert_eq!(parse("event syntax error"), None);
    }
}
