//! What a shard asks of the kernel's scheduler: a core, and to be let in at once.

#![expect(
    unsafe_code,
    reason = "sched_setaffinity(2), sched_getattr(2), sched_setattr(2)"
)]

use std::io;

use crate::limits::SLICE_NANOSECONDS;

/// Binds this thread to a core.
///
/// # Errors
/// The process may not use it.
pub(super) fn pin(core: usize) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set, and the pointer and size name a live one.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    succeeded(pinned.into())
}

/// Asks for short slices of time, as who has little to do, and that now: since Linux 6.12 a thread
/// that wakes up with a shorter slice takes the core at once from one with a longer, where it would
/// wait for that slice to end, be it the least important thread of all. Older kernels pass over it.
///
/// # Errors
/// The kernel, or a filter of system calls, says no; the shard runs all the same.
pub(super) fn ask_for_short_slices() -> io::Result<()> {
    let size = u32::try_from(size_of::<libc::sched_attr>()).unwrap_or_default();
    // SAFETY: an all-zero sched_attr is a valid one, and pointer and size name a live one.
    unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        let read = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0);
        succeeded(read)?;
        // Policy and niceness stay as the operator wants them.
        attributes.size = size;
        attributes.sched_runtime = SLICE_NANOSECONDS;
        succeeded(libc::syscall(
            libc::SYS_sched_setattr,
            0,
            &raw const attributes,
            0,
        ))
    }
}

fn succeeded(returned: libc::c_long) -> io::Result<()> {
    if returned == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::{ask_for_short_slices, pin};
    use crate::cpu::Cpus;

    #[test]
    fn a_thread_is_bound_to_its_core_and_keeps_its_niceness() {
        std::thread::spawn(|| {
            let core = Cpus::of_this_process().set[0];
            pin(core).expect("a core of ours");
            assert_eq!(Cpus::of_this_process().set, [core]);
            let before = rustix::process::nice(3).expect("anyone may be nicer");
            ask_for_short_slices().expect("it is anyone's to ask");
            assert_eq!(rustix::process::getpriority_process(None), Ok(before));
        })
        .join()
        .expect("no panic");
    }
}
