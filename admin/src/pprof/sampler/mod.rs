//! The sampler of CPU profiles: a kernel [timer](timers) of each thread's CPU time sends it SIGPROF, and
//! the signal handler records the thread's stack. Kernel time is attributed to the system call.
//!
//! The handler can interrupt a shard at any instruction: it does not allocate, and only ever tries
//! locks. It puts samples into [buffers](SampleBuffer), from which they are collected during the profile.

#![expect(unsafe_code, reason = "sigaction(2) and a signal's handler")]

mod modules;
mod stack;
mod timers;
mod walk;

use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use thiserror::Error;

use self::timers::Timers;
use self::walk::{WalkState, Walker};
use crate::limits::CPU_FRAMES;

/// A stack that a timer interrupted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Number of timer expirations that this sample stands for.
    pub(super) times: u64,
    /// The thread's name, padded with zeros.
    thread: [u8; THREAD_NAME_BYTES],
    addresses: [usize; CPU_FRAMES],
    depth: usize,
}

/// Bytes of a thread's name, its last zero included (`PR_GET_NAME`).
const THREAD_NAME_BYTES: usize = 16;

impl Sample {
    /// The name of the thread.
    pub(super) fn thread(&self) -> String {
        let end = self.thread.iter().position(|&byte| byte == 0);
        let name = &self.thread[..end.unwrap_or(THREAD_NAME_BYTES)];
        String::from_utf8_lossy(name).into_owned()
    }

    /// Return addresses, the innermost first. The first is the interrupted instruction, adjusted to look
    /// like a return address.
    pub(super) fn addresses(&self) -> &[usize] {
        &self.addresses[..self.depth]
    }
}

/// Sampling cannot be started.
#[derive(Debug, Error)]
pub(super) enum SamplerError {
    /// Another profile is being recorded.
    #[error("sampling is already active")]
    Busy,
    /// The kernel does not allow it.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

/// Active sampling. Dropping it stops sampling.
pub(super) struct Sampling {
    sampler: &'static Sampler,
    /// The timers of all threads; None after [`Self::end`].
    timers: Option<Timers>,
}

impl Sampling {
    /// Starts taking a sample whenever a thread has used `interval` of CPU time.
    ///
    /// # Errors
    /// Sampling is active already, or the kernel does not allow timers, the signal handler or reading
    /// stacks.
    pub(super) fn start(interval: Duration) -> Result<Self, SamplerError> {
        if IS_ACTIVE.swap(true, Ordering::Acquire) {
            return Err(SamplerError::Busy);
        }
        // From here on, dropping it resets the flag, also on errors.
        let mut this = Self {
            sampler: SAMPLER.get_or_init(Sampler::default),
            timers: None,
        };
        stack::is_readable()?;
        for lane in &this.sampler.lanes {
            *lane.lock().unwrap_or_else(PoisonError::into_inner) = Some(SampleBuffer::default());
        }
        handle_signal()?;
        this.timers = Some(Timers::start(interval)?);
        Ok(this)
    }

    /// Passes the samples since the last call to `each`, and returns the number of dropped samples. Starts
    /// sampling threads that were created since.
    ///
    /// # Errors
    /// The kernel does not allow a timer for a new thread.
    pub(super) fn collect(&mut self, mut each: impl FnMut(&Sample)) -> io::Result<u64> {
        if let Some(timers) = &mut self.timers {
            timers.follow()?;
        }
        let mut samples = Vec::with_capacity(LANE_SAMPLES);
        for lane in &self.sampler.lanes {
            // Held briefly: handlers that run meanwhile use another lane.
            if let Some(lane) = &mut *lane.lock().unwrap_or_else(PoisonError::into_inner) {
                mem::swap(&mut lane.samples, &mut samples);
            }
            samples.drain(..).for_each(|sample| each(&sample));
        }
        Ok(self.sampler.lost.swap(0, Ordering::Relaxed))
    }

    /// Stops sampling; the last samples can still be collected.
    pub(super) fn end(&mut self) {
        self.timers = None;
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.end();
        for lane in &self.sampler.lanes {
            *lane.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.sampler.lost.store(0, Ordering::Relaxed);
        IS_ACTIVE.store(false, Ordering::Release);
    }
}

/// Whether sampling is active.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// The state of the signal handler. It is never freed, since a signal may arrive after a profile ends;
/// its lanes are.
static SAMPLER: OnceLock<Sampler> = OnceLock::new();

struct Sampler {
    walker: Walker,
    /// One per core of the process. The handler only tries these locks.
    lanes: Box<[Mutex<Option<SampleBuffer>>]>,
    lost: AtomicU64,
}

impl Default for Sampler {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            walker: Walker::default(),
            lanes: (0..cores).map(|_| Mutex::new(None)).collect(),
            lost: AtomicU64::new(0),
        }
    }
}

/// Samples not collected yet, and the scratch state of one handler at a time.
struct SampleBuffer {
    state: WalkState,
    samples: Vec<Sample>,
}

/// Samples per lane: 64, more than a core yields between two collections at the highest frequency.
const LANE_SAMPLES: usize = 64;

impl Default for SampleBuffer {
    fn default() -> Self {
        Self {
            state: WalkState::default(),
            samples: Vec::with_capacity(LANE_SAMPLES),
        }
    }
}

impl Sampler {
    /// Records the interrupted stack. Called in the signal handler.
    fn record(&self, times: u64, interrupted: &libc::ucontext_t) {
        // SAFETY: it takes no arguments and has no preconditions.
        let core = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or_default();
        // The core's own lane first, whose unwind cache has the code that runs there.
        let lanes = (core..core + self.lanes.len()).map(|nth| &self.lanes[nth % self.lanes.len()]);
        for lane in lanes {
            let mut lane = match lane.try_lock() {
                Ok(lane) => lane,
                Err(TryLockError::Poisoned(lane)) => lane.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            match &mut *lane {
                Some(lane) if lane.samples.len() < LANE_SAMPLES => {
                    let sample = self.walker.sample(times, interrupted, &mut lane.state);
                    lane.samples.push(sample);
                    return;
                }
                // Full: try the next one.
                Some(_) => {}
                // The profile has ended.
                None => return,
            }
        }
        self.lost.fetch_add(times, Ordering::Relaxed);
    }
}

/// The name of this thread. Called in the signal handler.
fn thread_name() -> [u8; THREAD_NAME_BYTES] {
    let mut name = [0; THREAD_NAME_BYTES];
    // SAFETY: a thread's name is of that size at most, and ends with a zero. It cannot fail.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Installs the signal handler. It stays installed, since an unhandled SIGPROF ends the process.
fn handle_signal() -> io::Result<()> {
    // SAFETY: zero is a value of every field.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
    action.sa_sigaction = handler as *const () as usize;
    // The signal itself is blocked while it is handled.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the action is a live value, and its handler is one that may run in a signal.
    match unsafe { libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_signal(_: c_int, signal: *mut libc::siginfo_t, interrupted: *mut c_void) {
    // SAFETY: errno is thread-local. It is restored below for the interrupted code.
    let error = unsafe { *libc::__errno_location() };
    // SAFETY: it comes from the kernel (`SA_SIGINFO`).
    let times = unsafe { timers::times(signal) };
    // SAFETY: the kernel hands over the context of what it interrupted, which lives until the
    // handler returns (`SA_SIGINFO`).
    let interrupted = unsafe { interrupted.cast::<libc::ucontext_t>().as_ref() };
    if let (Some(sampler), Some(interrupted)) = (SAMPLER.get(), interrupted) {
        sampler.record(times, interrupted);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}
