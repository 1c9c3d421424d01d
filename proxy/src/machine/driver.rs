//! The runtime of a shard: io_uring with the best flags that the kernel supports, else epoll.
//!
//! Probed on the shard's own thread, because a ring belongs to the thread that created it
//! (`SINGLE_ISSUER`) and seccomp filters are per thread too.

use std::fmt;
use std::future::Future;
use std::io;

use monoio::time::TimeDriver;
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};

use crate::limits::{RING_ENTRIES, RING_MAX_COMPLETIONS, RING_MIN_COMPLETIONS};

/// The I/O driver that `--driver` asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DriverChoice {
    /// io_uring if the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring only; fails otherwise.
    IoUring,
    /// epoll, even where io_uring is available.
    Epoll,
}

/// The driver in use, and why not a better one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverReport {
    /// Name of the driver.
    pub driver: &'static str,
    /// Why better ones failed; empty for the best one.
    pub reason: String,
}

impl fmt::Display for DriverReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason.is_empty() {
            f.write_str(self.driver)
        } else {
            write!(f, "{} ({})", self.driver, self.reason)
        }
    }
}

/// The asynchronous runtime of a shard.
pub enum Driver {
    /// io_uring, which reports completed operations.
    IoUring(Runtime<TimeDriver<IoUringDriver>>),
    /// epoll, which reports ready sockets.
    Epoll(Runtime<TimeDriver<LegacyDriver>>),
}

/// How a runtime waits for sockets created outside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// For completion of an operation. The socket must be blocking: on a non-blocking one io_uring
    /// returns EAGAIN instead of waiting.
    ForCompletion,
    /// For readiness of the socket. It must be non-blocking.
    ForReadiness,
}

impl Driver {
    /// How it waits for sockets.
    #[must_use]
    pub fn waits(&self) -> WaitMode {
        match self {
            Self::IoUring(_) => WaitMode::ForCompletion,
            Self::Epoll(_) => WaitMode::ForReadiness,
        }
    }

    /// Builds the best runtime for the choice, for at most `connections` sockets.
    ///
    /// # Errors
    ///
    /// io_uring was required but is not available, or epoll cannot be set up.
    pub fn build(choice: DriverChoice, connections: u32) -> io::Result<(Self, DriverReport)> {
        let mut refused = Vec::new();
        if choice != DriverChoice::Epoll {
            for flags in RING_FLAGS {
                match ring(flags, connections) {
                    Ok(runtime) => {
                        let report = DriverReport {
                            driver: flags.name,
                            reason: refused.join("; "),
                        };
                        return Ok((Self::IoUring(runtime), report));
                    }
                    Err(error) => refused.push(format!("{}: {error}", flags.name)),
                }
            }
        }
        if choice == DriverChoice::IoUring {
            let text = format!(
                "io_uring is not available ({}); use --driver auto, or allow io_uring in the \
                 seccomp profile and in kernel.io_uring_disabled",
                refused.join("; ")
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let reason = if refused.is_empty() {
            "asked for".to_owned()
        } else {
            refused.join("; ")
        };
        let runtime = RuntimeBuilder::<LegacyDriver>::new()
            .enable_timer()
            .build()?;
        Ok((
            Self::Epoll(runtime),
            DriverReport {
                driver: "epoll",
                reason,
            },
        ))
    }

    /// Runs the future, and whatever it spawns, on this thread.
    pub fn block_on<F: Future>(self, future: F) -> F::Output {
        match self {
            Self::IoUring(mut runtime) => runtime.block_on(future),
            Self::Epoll(mut runtime) => runtime.block_on(future),
        }
    }
}

#[derive(Clone, Copy)]
struct RingFlags {
    name: &'static str,
    single_issuer: bool,
    coop_taskrun: bool,
}

/// Best first. `COOP_TASKRUN` (5.19) saves a third of the CPU per request; `SINGLE_ISSUER` (6.0)
/// lets the kernel skip locks. Not `DEFER_TASKRUN`: completions would wait while tasks are ready.
const RING_FLAGS: [RingFlags; 3] = [
    RingFlags {
        name: "io_uring coop_taskrun single_issuer",
        single_issuer: true,
        coop_taskrun: true,
    },
    RingFlags {
        name: "io_uring coop_taskrun",
        single_issuer: false,
        coop_taskrun: true,
    },
    RingFlags {
        name: "io_uring",
        single_issuer: false,
        coop_taskrun: false,
    },
];

fn ring(flags: RingFlags, connections: u32) -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    // With a seccomp profile that allows only some of the calls, a ring can be created but not
    // used, and waiting on it would hang forever.
    io_uring::IoUring::new(1)?.submit()?;
    // A connection can have two operations in flight; clamped, since more than the kernel's maximum
    // is EINVAL and would look like a refusal.
    let completions = connections
        .saturating_mul(2)
        .clamp(RING_MIN_COMPLETIONS, RING_MAX_COMPLETIONS);
    let made = ring_of(flags, completions);
    // Since Linux 6.14, rings count as locked memory, of which all proxies on a node share a few MiB by
    // default. The kernel keeps completions that find no room, so that a small ring costs only bursts.
    // Kernels before 5.19, which have no COOP_TASKRUN, refuse submissions meanwhile.
    match made {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory && flags.coop_taskrun => {
            ring_of(flags, RING_MIN_COMPLETIONS)
        }
        made => made,
    }
}

fn ring_of(flags: RingFlags, completions: u32) -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    let mut ring = io_uring::IoUring::builder();
    ring.setup_cqsize(completions).setup_clamp();
    if flags.coop_taskrun {
        ring.setup_coop_taskrun().setup_submit_all();
    }
    if flags.single_issuer {
        ring.setup_single_issuer();
    }
    RuntimeBuilder::<IoUringDriver>::new()
        .with_entries(RING_ENTRIES)
        .uring_builder(ring)
        .enable_timer()
        .build()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream as Blocking;
    use std::rc::Rc;

    use monoio::net::UnixStream;

    use super::*;

    /// Which a ring does that was made small because locked memory was short.
    #[test]
    fn completions_beyond_a_ring_are_kept() {
        let Ok((driver, _)) = Driver::build(DriverChoice::IoUring, 0) else {
            eprintln!("io_uring is not available here");
            return;
        };
        driver.block_on(async {
            let (ours, mut theirs) = Blocking::pair().expect("a pair of sockets");
            let ours = Rc::new(UnixStream::from_std(ours).expect("a stream"));
            let wait = || {
                let ours = Rc::clone(&ours);
                monoio::spawn(async move { ours.readable(false).await })
            };
            let waiting: Vec<_> = (0..3 * RING_MIN_COMPLETIONS).map(|_| wait()).collect();
            // Tasks run in the order of their start: all others wait by now.
            monoio::spawn(async {}).await;
            theirs.write_all(b"!").expect("room for a byte");
            for task in waiting {
                task.await.expect("readable");
            }
        });
    }
}
