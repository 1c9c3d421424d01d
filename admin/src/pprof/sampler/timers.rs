//! CPU time timers, one per thread (`timer_create(2)`), which send SIGPROF to their thread. A single
//! timer for the process (`setitimer(2)`) sends at most one signal per kernel tick for all cores
//! together, which is too few on more than two.

#![expect(
    unsafe_code,
    reason = "timer_create(2) and the signals that it has sent"
)]

use std::collections::HashMap;
use std::ffi::c_int;
use std::time::Duration;
use std::{fs, io, mem, ptr};

/// Timers of this process's threads. Dropping them stops them; a signal may still be pending.
pub(super) struct Timers {
    /// CPU time between signals.
    interval: Duration,
    by_thread: HashMap<libc::pid_t, Timer>,
}

impl Timers {
    /// Starts a timer for every thread.
    pub(super) fn start(interval: Duration) -> io::Result<Self> {
        let mut this = Self {
            interval,
            by_thread: HashMap::new(),
        };
        this.follow()?;
        Ok(this)
    }

    /// Starts timers for new threads, and removes those of threads that have ended.
    pub(super) fn follow(&mut self) -> io::Result<()> {
        let mut before = mem::take(&mut self.by_thread);
        for entry in fs::read_dir("/proc/self/task")? {
            let name = entry?.file_name();
            let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let timer = match before.remove(&thread) {
                Some(timer) => Some(timer),
                None => Timer::start(thread, self.interval)?,
            };
            self.by_thread.extend(timer.map(|timer| (thread, timer)));
        }
        Ok(())
    }
}

struct Timer(libc::timer_t);

// SAFETY: it is a number that the kernel gave to the process.
unsafe impl Send for Timer {}

impl Timer {
    /// Starts a periodic timer of the thread's CPU time; None where the thread has ended.
    fn start(thread: libc::pid_t, interval: Duration) -> io::Result<Option<Self>> {
        // SAFETY: zero is a value of every field.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = thread;
        let mut timer = ptr::null_mut();
        // SAFETY: both are live values.
        match unsafe { libc::timer_create(cpu_clock(thread), &raw mut event, &raw mut timer) } {
            0 => {}
            _ => return none_if_ended(io::Error::last_os_error()),
        }
        // From here on, dropping it deletes the timer.
        let timer = Self(timer);
        let interval = libc::timespec {
            tv_sec: interval.as_secs().cast_signed(),
            tv_nsec: interval.subsec_nanos().into(),
        };
        let times = libc::itimerspec {
            it_interval: interval,
            it_value: interval,
        };
        // SAFETY: the timer and the times are live; the old value is not requested.
        match unsafe { libc::timer_settime(timer.0, 0, &raw const times, ptr::null_mut()) } {
            0 => Ok(Some(timer)),
            _ => none_if_ended(io::Error::last_os_error()),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer is live, and this is its only owner. It cannot fail.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// The CPU clock of a thread by its kernel id, encoded as `pthread_getcpuclockid(3)` does for a
/// `pthread_t`, which we do not have for other threads.
fn cpu_clock(thread: libc::pid_t) -> libc::clockid_t {
    const CPUCLOCK_PERTHREAD_MASK: libc::clockid_t = 4;
    const CPUCLOCK_SCHED: libc::clockid_t = 2;
    (!thread << 3) | CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED
}

/// Maps the errors for a thread that has ended to None.
fn none_if_ended<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ESRCH) => Ok(None),
        _ => Err(error),
    }
}

/// Expirations of a timer when its signal was delivered: more than one where the kernel checked late,
/// as it checks at its ticks only.
///
/// # Safety
/// It is the pointer that the kernel passes to a signal handler.
pub(super) unsafe fn times(signal: *const libc::siginfo_t) -> u64 {
    /// The start of `siginfo_t` for a timer's signal (`sigaction(2)`).
    #[repr(C)]
    struct Expired {
        _signal_error_code: [c_int; 3],
        // Of 64-bit machines.
        _padding: c_int,
        _timer: c_int,
        overrun: c_int,
    }
    // SAFETY: the caller's promise.
    if unsafe { (*signal).si_code } != libc::SI_TIMER {
        return 1;
    }
    // SAFETY: a timer's signal has these fields, and `siginfo_t` is larger.
    let overrun = unsafe { (*signal.cast::<Expired>()).overrun };
    1 + u64::try_from(overrun).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::Timers;

    #[test]
    fn timers_follow_threads_as_they_start_and_end() {
        // Longer than the test: no signal is sent.
        let mut timers = Timers::start(Duration::from_hours(1)).expect("the kernel has timers");
        let has = |timers: &Timers, id: libc::pid_t| timers.by_thread.contains_key(&id);
        let (ids, id) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            let link = std::fs::read_link("/proc/thread-self").expect("a link");
            ids.send(link.file_name().expect("a thread").to_owned())
                .expect("a thread waits");
            // It waits for the end of the sending threads.
            let _ = ends.recv();
        });
        let id = id.recv().expect("its number").into_string().expect("text");
        let id = id.parse().expect("a number");
        assert!(!has(&timers, id));
        timers.follow().expect("the kernel has more");
        assert!(has(&timers, id));
        drop(end);
        other.join().expect("it ends");
        // A thread is listed for a moment after it was joined.
        let deadline = Instant::now() + Duration::from_secs(10);
        while has(&timers, id) {
            assert!(Instant::now() < deadline, "it is still there");
            timers.follow().expect("the kernel has these");
        }
    }
}
