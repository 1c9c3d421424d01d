//! Processes the harness starts: pinned to their cores, logged to a file, gone with their owner.

#![expect(unsafe_code, reason = "sched_setscheduler(2), sched_setattr(2)")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::procfs;

/// A child that dies with this value.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Child,
    log: PathBuf,
}

impl ChildProcess {
    /// Starts `command` on `cores`; its output goes to `NAME.log` in `folder`.
    pub(crate) fn start(
        mut command: Command,
        cores: &[usize],
        folder: &Path,
        name: &str,
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log)?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = spawn_on(cores, &mut command)
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child, log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error with its last output, if it has exited.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        bail!(
            "it exited ({status}) with the output: {}",
            self.last_lines()
        )
    }

    /// The end of its log.
    pub(crate) fn last_lines(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LOG_LINES);
        lines.get(from..).unwrap_or_default().join(" | ")
    }

    /// Sends a signal to the process itself.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        self::signal(self.pid(), signal)
    }

    fn stop(&mut self) -> Result<()> {
        let tree = procfs::tree(self.pid())?;
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + GRACE;
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Workers too: they outlive a parent that is slow to reap, and would keep the port.
        for pid in tree.into_iter().filter(|pid| *pid != self.pid()) {
            let _ = signal(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The only possible error is that it was reaped already, which is fine.
        let _ = self.stop();
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, signal: Signal) -> Result<()> {
    Ok(kill_process(raw(pid)?, signal)?)
}

fn raw(pid: u32) -> Result<Pid> {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .context("no such process id")
}

/// Spawns on `cores`: a child inherits the affinity of the thread that forks it.
fn spawn_on(cores: &[usize], command: &mut Command) -> Result<Child> {
    std::thread::scope(|scope| {
        let spawner = scope.spawn(|| -> Result<Child> {
            pin(cores)?;
            Ok(command.spawn()?)
        });
        spawner
            .join()
            .unwrap_or_else(|_| bail!("the spawning thread panicked"))
    })
}

/// Pins the calling thread, and all it starts from now on.
pub(crate) fn pin(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    sched_setaffinity(None, &set)
        .with_context(|| format!("cannot run on cores {cores:?}: pass --proxy-cores, --load-cores"))
}

/// Lets the calling thread run only while nothing else needs its core (`SCHED_IDLE`). A thread that
/// is merely nice keeps its slice of some milliseconds.
pub(crate) fn set_idle_policy() -> std::io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: It reads the parameters, which outlive the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Shortens the scheduling slices of all threads of a process, so that they preempt others as soon
/// as they wake (EEVDF, Linux 6.12; older kernels ignore it).
pub(crate) fn shorten_slices(pid: u32) -> Result<()> {
    let attributes = libc::sched_attr {
        sched_policy: libc::SCHED_OTHER.cast_unsigned(),
        sched_runtime: SHORT_TURN_NS,
        ..unscheduled()
    };
    schedule(pid, &attributes).context("cannot set short scheduling slices")
}

/// Gives all threads of a process real-time priority (`SCHED_FIFO`), which takes `CAP_SYS_NICE`.
pub(crate) fn set_realtime_priority(pid: u32) -> Result<()> {
    let attributes = libc::sched_attr {
        sched_policy: libc::SCHED_FIFO.cast_unsigned(),
        sched_priority: 1,
        ..unscheduled()
    };
    schedule(pid, &attributes).context("cannot raise its priority: run it as root")
}

fn unscheduled() -> libc::sched_attr {
    // SAFETY: zero is a value of every field, all of which are numbers.
    let attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or_default(),
        ..attributes
    }
}

fn schedule(pid: u32, attributes: &libc::sched_attr) -> Result<()> {
    for thread in procfs::threads(pid)? {
        // SAFETY: It reads the attributes, which outlive the call and say how large they are.
        let set =
            unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const *attributes, 0) };
        if set != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    Ok(())
}

/// From now on SIGINT and SIGTERM end this process together with all it has started: a proxy left
/// behind would disturb every later run.
pub(crate) fn end_with_children() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let own = std::process::id();
            for pid in procfs::tree(own)
                .unwrap_or_default()
                .into_iter()
                .filter(|pid| *pid != own)
            {
                // Gone already is as good.
                let _ = self::signal(pid, Signal::KILL);
            }
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Allows as many open files as the idle scenarios need; children inherit it.
pub(crate) fn raise_open_files() -> u64 {
    let wanted = Rlimit {
        current: Some(OPEN_FILES),
        maximum: Some(OPEN_FILES),
    };
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|n| n < OPEN_FILES) && setrlimit(Resource::Nofile, wanted).is_err() {
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: now.maximum,
                ..now
            },
        );
    }
    getrlimit(Resource::Nofile).current.unwrap_or(OPEN_FILES)
}

/// Output of a command such as `--version`.
pub(crate) fn output(program: impl AsRef<Path>, args: &[&str]) -> Result<String> {
    let program = program.as_ref();
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} is not installed", program.display()))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// Two sockets for each of 10 000 connections, and some.
const OPEN_FILES: u64 = 65_536;
/// A proxy drains on SIGTERM; no client is left to wait for.
const GRACE: Duration = Duration::from_millis(1500);
/// The shortest slice that the kernel accepts.
const SHORT_TURN_NS: u64 = 100_000;
const LOG_LINES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_runs_on_its_cpus_and_is_killed_on_drop() {
        let folder = tempfile::tempdir().expect("folder");
        let mut command = Command::new("sleep");
        command.arg("60");
        let child = ChildProcess::start(command, &[0], folder.path(), "sleep").expect("starts");
        let pid = child.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
        assert!(status.contains("Cpus_allowed_list:\t0\n"));
        drop(child);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn the_last_lines_are_reported_when_a_child_exits() {
        let folder = tempfile::tempdir().expect("folder");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such port >&2; exit 3"]);
        let mut child = ChildProcess::start(command, &[0], folder.path(), "sh").expect("starts");
        child.child.wait().expect("ends");
        let error = child.check_alive().expect_err("ended").to_string();
        assert!(error.contains("no such port"), "{error}");
    }
}
