//! The runtime of a shard: io_uring with the best flags that the kernel supports, else epoll.
//!
//! Probed on the shard's own thread, because a ring belongs to the thread that created it
//! (`SINGLE_ISSUER`) and seccomp filters are per thread too.

use std::fmt;
use std::future::Future;
use std::io;

use monoio::time::TimeDriver;
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::limits::{
    RING_ENTRIES, RING_MAX_COMPLETIONS, RING_MIN_COMPLETIONS, RING_MIN_ENTRIES,
    RING_SHARE_OF_LOCKED_MEMORY,
};

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
    let size = RingSize {
        submissions: RING_ENTRIES,
        completions: completions(connections, lockable_memory()),
    };
    // The kernel keeps completions that find no room, so that a small ring costs only bursts. Kernels
    // before 5.19, which have no COOP_TASKRUN, refuse submissions meanwhile.
    match ring_of(flags, size) {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory && flags.coop_taskrun => {
            ring_of(flags, SMALLEST_RING)
        }
        made => made,
    }
}

/// Completions of a ring for this many connections, each of which can have two operations in flight.
/// Clamped, since more than the kernel's maximum is EINVAL and would look like a refusal.
///
/// Since Linux 6.14, rings count as locked memory, whose limit is 8 MiB by default for all proxies on a
/// node together: a ring takes only a share of it.
fn completions(connections: u32, lockable: Option<u64>) -> u32 {
    let share = lockable.map(|bytes| bytes / RING_SHARE_OF_LOCKED_MEMORY / COMPLETION_BYTES);
    let share = share.and_then(|share| u32::try_from(share).ok());
    connections
        .saturating_mul(2)
        .min(share.unwrap_or(u32::MAX))
        .clamp(RING_MIN_COMPLETIONS, RING_MAX_COMPLETIONS)
}

/// The limit of locked memory in bytes; `None` without one.
fn lockable_memory() -> Option<u64> {
    let is_exempt =
        capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::IPC_LOCK));
    getrlimit(Resource::Memlock).current.filter(|_| !is_exempt)
}

#[derive(Clone, Copy)]
struct RingSize {
    submissions: u32,
    completions: u32,
}

const SMALLEST_RING: RingSize = RingSize {
    submissions: RING_MIN_ENTRIES,
    completions: 2 * RING_MIN_ENTRIES,
};

/// Size of `struct io_uring_cqe`.
const COMPLETION_BYTES: u64 = 16;

fn ring_of(flags: RingFlags, size: RingSize) -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    let mut ring = io_uring::IoUring::builder();
    ring.setup_cqsize(size.completions).setup_clamp();
    if flags.coop_taskrun {
        ring.setup_coop_taskrun().setup_submit_all();
    }
    if flags.single_issuer {
        ring.setup_single_issuer();
    }
    RuntimeBuilder::<IoUringDriver>::new()
        .with_entries(size.submissions)
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

    #[test]
    fn completions_that_overflow_the_ring_are_kept() {
        for size in [
            SMALLEST_RING,
            RingSize {
                submissions: RING_ENTRIES,
                completions: RING_MIN_COMPLETIONS,
            },
        ] {
            let Ok(runtime) = ring_of(RING_FLAGS[0], size) else {
                eprintln!("io_uring is not available here");
                return;
            };
            Driver::IoUring(runtime).block_on(wait_for_one_byte(3 * size.completions));
        }
    }

    /// Sends a byte that this many tasks wait for, so that as many operations complete together.
    async fn wait_for_one_byte(tasks: u32) {
        let (ours, mut theirs) = Blocking::pair().expect("a pair of sockets");
        let ours = Rc::new(UnixStream::from_std(ours).expect("a stream"));
        let wait = || {
            let ours = Rc::clone(&ours);
            monoio::spawn(async move { ours.readable(false).await })
        };
        let waiting: Vec<_> = (0..tasks).map(|_| wait()).collect();
        // Tasks run in the order of their start: all others wait by now.
        monoio::spawn(async {}).await;
        theirs.write_all(b"!").expect("room for a byte");
        for task in waiting {
            task.await.expect("readable");
        }
    }

    #[test]
    fn ring_sizes_leave_locked_memory_to_other_processes() {
        let by_default = Some(8 << 20);
        for (connections, lockable, expected) in [
            (10, None, RING_MIN_COMPLETIONS),
            (10_000, None, 20_000),
            (u32::MAX, None, RING_MAX_COMPLETIONS),
            (10_000, by_default, 4096),
            (10, by_default, RING_MIN_COMPLETIONS),
            (10_000, Some(64 << 10), RING_MIN_COMPLETIONS),
            (10_000, Some(u64::MAX), 20_000),
        ] {
            assert_eq!(
                completions(connections, lockable),
                expected,
                "{connections} connections, {lockable:?} bytes"
            );
        }
    }
}
