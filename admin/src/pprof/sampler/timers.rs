//! The kernel's timers of CPU time, one for each thread (`timer_create(2)`): they send SIGPROF to the
//! thread whose time they count. The one timer of the whole process (`setitimer(2)`) would send one
//! signal a tick of the kernel for all cores together, and so too few on more than two.

#![expect(
    unsafe_code,
    reason = "timer_create(2) and the signals that it has sent"
)]

use std::collections::HashMap;
use std::ffi::c_int;
use std::time::Duration;
use std::{fs, io, mem, ptr};

/// Timers of this process's threads. Dropped, they end; a signal of theirs may still be on its way.
pub(super) struct Timers {
    /// CPU time between two signals.
    interval: Duration,
    by_thread: HashMap<libc::pid_t, Timer>,
}

impl Timers {
    /// Of every thread that there is.
    pub(super) fn start(interval: Duration) -> io::Result<Self> {
        let mut this = Self {
            interval,
            by_thread: HashMap::new(),
        };
        this.follow()?;
        Ok(this)
    }

    /// Takes in threads that have begun since, and lets go of those that have ended.
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

/// A thread's timer.
struct Timer(libc::timer_t);

// SAFETY: it is a number that the kernel gave to the process.
unsafe impl Send for Timer {}

impl Timer {
    /// Has it go off each time that the thread has used so much CPU time; `None` where the thread has
    /// ended.
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
        // From here on its end gives it back.
        let timer = Self(timer);
        let interval = libc::timespec {
            tv_sec: interval.as_secs().cast_signed(),
            tv_nsec: interval.subsec_nanos().into(),
        };
        let times = libc::itimerspec {
            it_interval: interval,
            it_value: interval,
        };
        // SAFETY: the timer is live, and so are the times; those before are not asked for.
        match unsafe { libc::timer_settime(timer.0, 0, &raw const times, ptr::null_mut()) } {
            0 => Ok(Some(timer)),
            _ => none_if_ended(io::Error::last_os_error()),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: it is live, and nobody has it any more. It cannot fail.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// The clock of a thread's CPU time, as `pthread_getcpuclockid(3)` makes it: what the kernel has for
/// the number of a thread, whose handle only the thread itself knows.
fn cpu_clock(thread: libc::pid_t) -> libc::clockid_t {
    const OF_A_THREAD: libc::clockid_t = 4;
    const AS_SCHEDULED: libc::clockid_t = 2;
    (!thread << 3) | OF_A_THREAD | AS_SCHEDULED
}

/// What the kernel says of a thread that there is no more.
fn none_if_ended<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ESRCH) => Ok(None),
        _ => Err(error),
    }
}

/// How often a timer had gone off when its signal was delivered: more than once where the kernel
/// looked too late, as it does at its ticks.
///
/// # Safety
/// It is what the kernel hands to a signal's handler.
pub(super) unsafe fn times(signal: *const libc::siginfo_t) -> u64 {
    /// The beginning of `siginfo_t`, as far as a timer's signal has it (`sigaction(2)`).
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
    fn threads_are_followed_as_they_come_and_go() {
        // Longer than the test: no signal is sent.
        let mut timers = Timers::start(Duration::from_hours(1)).expect("the kernel has timers");
        let has = |timers: &Timers, id: libc::pid_t| timers.by_thread.contains_key(&id);
        let (ids, id) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            let link = std::fs::read_link("/proc/thread-self").expect("a link");
            ids.send(link.file_name().expect("a thread").to_owned())
                .expect("somebody waits");
            // The end of whoever sends is what it waits for.
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
