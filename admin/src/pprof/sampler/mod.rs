//! Which code runs: the kernel's [timer](timers) of each thread's CPU time sends it SIGPROF, and the
//! handler notes the thread's stack. Time in the kernel counts for the system call that it was spent
//! in.
//!
//! The handler runs on shards, between any two instructions: it allocates nothing and takes no lock
//! that it would have to wait for. It leaves samples in [lanes](Lane), from which they are collected
//! while the profile is being made.

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
use self::walk::{Desk, Walker};
use crate::limits::CPU_FRAMES;

/// A stack that was running when a timer went off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// How often the timer went off: what ran before it was looked at is taken for this too.
    pub(super) times: u64,
    /// The thread's name, padded with zeros.
    thread: [u8; THREAD_NAME_BYTES],
    addresses: [usize; CPU_FRAMES],
    depth: usize,
}

/// Bytes of a thread's name, its last zero included (`PR_GET_NAME`).
const THREAD_NAME_BYTES: usize = 16;

impl Sample {
    /// The name of the thread that ran.
    pub(super) fn thread(&self) -> String {
        let end = self.thread.iter().position(|&byte| byte == 0);
        let name = &self.thread[..end.unwrap_or(THREAD_NAME_BYTES)];
        String::from_utf8_lossy(name).into_owned()
    }

    /// Where each of its functions goes on, the innermost first: return addresses, and what stands
    /// for one in the innermost function.
    pub(super) fn addresses(&self) -> &[usize] {
        &self.addresses[..self.depth]
    }
}

/// What kept samples from being taken.
#[derive(Debug, Error)]
pub(super) enum SamplerError {
    /// There is one handler of the signal in a process.
    #[error("samples are being taken already")]
    Busy,
    /// The kernel refused.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

/// Samples that are being taken. Dropped, that ends.
pub(super) struct Sampling {
    sampler: &'static Sampler,
    /// None once it has ended.
    timers: Option<Timers>,
}

impl Sampling {
    /// Begins to take a sample each time that a thread has used up `interval` of CPU time.
    ///
    /// # Errors
    /// Somebody else does, or the kernel refuses timers, their signal, or to copy stacks.
    pub(super) fn start(interval: Duration) -> Result<Self, SamplerError> {
        if TAKEN.swap(true, Ordering::Acquire) {
            return Err(SamplerError::Busy);
        }
        // From here on its end gives it back, also where the kernel refuses something.
        let mut this = Self {
            sampler: SAMPLER.get_or_init(Sampler::default),
            timers: None,
        };
        stack::is_readable()?;
        for lane in &this.sampler.lanes {
            *lane.lock().unwrap_or_else(PoisonError::into_inner) = Some(Lane::default());
        }
        handle_signal()?;
        this.timers = Some(Timers::start(interval)?);
        Ok(this)
    }

    /// Takes the samples that have come since, and says how many were lost for want of room. Threads
    /// that have begun meanwhile are sampled from here on.
    ///
    /// # Errors
    /// The kernel refuses a timer to such a thread.
    pub(super) fn collect(&mut self, mut each: impl FnMut(&Sample)) -> io::Result<u64> {
        if let Some(timers) = &mut self.timers {
            timers.follow()?;
        }
        let mut samples = Vec::with_capacity(LANE_SAMPLES);
        for lane in &self.sampler.lanes {
            // Let go at once: a thread that is sampled meanwhile goes to another lane.
            if let Some(lane) = &mut *lane.lock().unwrap_or_else(PoisonError::into_inner) {
                mem::swap(&mut lane.samples, &mut samples);
            }
            samples.drain(..).for_each(|sample| each(&sample));
        }
        Ok(self.sampler.lost.swap(0, Ordering::Relaxed))
    }

    /// Takes no more; what was taken can still be collected.
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
        TAKEN.store(false, Ordering::Release);
    }
}

/// Whether samples are being taken.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// What the handler works with. It stays, since a signal may still be on its way when a profile ends;
/// its lanes are given back.
static SAMPLER: OnceLock<Sampler> = OnceLock::new();

struct Sampler {
    walker: Walker,
    /// One for each core that the process has. The handler only ever tries these locks.
    lanes: Box<[Mutex<Option<Lane>>]>,
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

/// Samples that wait to be collected, and what one handler at a time needs to take them.
struct Lane {
    desk: Desk,
    samples: Vec<Sample>,
}

/// Samples of a lane: 64, which is more than a core has at the highest frequency between two looks.
const LANE_SAMPLES: usize = 64;

impl Default for Lane {
    fn default() -> Self {
        Self {
            desk: Desk::default(),
            samples: Vec::with_capacity(LANE_SAMPLES),
        }
    }
}

impl Sampler {
    /// Notes what a timer that has gone off so many times interrupted. Called in the signal's handler.
    fn note(&self, times: u64, interrupted: &libc::ucontext_t) {
        // SAFETY: there is nothing that it could do wrong.
        let core = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or_default();
        // The core's own lane unless somebody is at it: it knows the code that runs there.
        let lanes = (core..core + self.lanes.len()).map(|nth| &self.lanes[nth % self.lanes.len()]);
        for lane in lanes {
            let mut lane = match lane.try_lock() {
                Ok(lane) => lane,
                Err(TryLockError::Poisoned(lane)) => lane.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            match &mut *lane {
                Some(lane) if lane.samples.len() < LANE_SAMPLES => {
                    let sample = self.walker.sample(times, interrupted, &mut lane.desk);
                    lane.samples.push(sample);
                    return;
                }
                // Full: the next.
                Some(_) => {}
                // Over: nobody asks any more.
                None => return,
            }
        }
        self.lost.fetch_add(times, Ordering::Relaxed);
    }
}

/// The name of this thread. Called in a signal's handler.
fn thread_name() -> [u8; THREAD_NAME_BYTES] {
    let mut name = [0; THREAD_NAME_BYTES];
    // SAFETY: a thread's name is of that size at most, and ends with a zero. It cannot fail.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Has the signal handled from here on. It stays so, since what is not handled ends the process.
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
    // SAFETY: this thread's own. What was interrupted may be about to read it.
    let error = unsafe { *libc::__errno_location() };
    // SAFETY: it comes from the kernel (`SA_SIGINFO`).
    let times = unsafe { timers::times(signal) };
    // SAFETY: the kernel hands over the context of what it interrupted, which lives until the
    // handler returns (`SA_SIGINFO`).
    let interrupted = unsafe { interrupted.cast::<libc::ucontext_t>().as_ref() };
    if let (Some(sampler), Some(interrupted)) = (SAMPLER.get(), interrupted) {
        sampler.note(times, interrupted);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}
