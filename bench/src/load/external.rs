//! An external load generator as a process: started once, resumed for its turns and stopped in
//! between, so that it keeps its connections. It inherits the cores of the calling thread.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use crate::process::signal;

/// A process that runs only in its turns, and is killed on drop.
#[derive(Debug)]
pub(super) struct External {
    child: Child,
    output: PathBuf,
}

impl External {
    /// Starts `command` and suspends it immediately. Its output is kept in `folder`.
    pub(super) fn start(mut command: Command, folder: &Path) -> Result<Self> {
        let output = folder.join("load.out");
        let file = File::create(&output)?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let external = Self { child, output };
        external.stop()?;
        Ok(external)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resumes it for `duration`; returns the actual seconds.
    pub(super) fn turn(&mut self, duration: Duration) -> Result<f64> {
        let start = Instant::now();
        self.signal(Signal::CONT)?;
        std::thread::sleep(duration);
        self.stop()?;
        let seconds = start.elapsed().as_secs_f64();
        let exit_status = self.child.try_wait()?;
        ensure!(exit_status.is_none(), "it ended early: {}", self.output());
        Ok(seconds)
    }

    /// Interrupts it and waits for its final output. Repeatedly: a signal delivered to another
    /// thread does not wake the one that sleeps, as in wrk.
    pub(super) fn interrupt(&mut self) -> Result<String> {
        self.signal(Signal::CONT)?;
        let deadline = Instant::now() + TIMEOUT;
        while self.child.try_wait()?.is_none() {
            ensure!(
                Instant::now() < deadline,
                "it does not end: {}",
                self.output()
            );
            self.signal(Signal::INT)?;
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(self.output())
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops it, and waits until all of its threads have stopped or it has exited.
    fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let pid = Pid::from_child(&self.child);
        let stands = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(pid), stands))?;
        Ok(())
    }

    fn signal(&self, sent: Signal) -> Result<()> {
        signal(self.child.id(), sent)
    }

    fn output(&self) -> String {
        let text = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for External {
    fn drop(&mut self) {
        // The only possible error is that it was reaped already, which is fine.
        let _ = self.kill();
    }
}

/// wrk checks ten times a second whether to stop, and then computes its statistics.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(folder: &Path) -> External {
        // A shell cannot trap a signal that was ignored when it started, as for tests in the
        // background.
        let mut command = Command::new("env");
        let script = "trap 'echo done $n; exit' INT; n=0; while :; do n=$((n+1)); echo $n; done";
        command.args(["--default-signal=INT", "sh", "-c", script]);
        External::start(command, folder).expect("starts")
    }

    #[test]
    fn the_load_generator_pauses_between_turns_and_reports_at_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut counter = counter(folder.path());
        let mut last = 0;
        while last == 0 {
            let seconds = counter.turn(Duration::from_millis(20)).expect("runs");
            assert!(seconds >= 0.02);
            last = counter.output().lines().count();
        }
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", counter.pid())).expect("lives");
        assert!(stat.contains(") T "), "{stat}");
        let output = counter.interrupt().expect("ends");
        assert!(output.contains("done "), "{output}");
    }

    #[test]
    fn an_early_exit_is_an_error_with_the_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such option"]);
        let mut external = External::start(command, folder.path()).expect("starts");
        let error = std::iter::repeat_with(|| external.turn(Duration::from_millis(20)))
            .find_map(Result::err)
            .expect("it ends");
        assert!(error.to_string().contains("no such option"), "{error}");
    }
}
