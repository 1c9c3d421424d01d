//! The scheduling of a shard's thread.

#![expect(unsafe_code, reason = "sched_getattr(2) and sched_setattr(2)")]

use std::io;
use std::mem;
use std::time::Duration;

use crate::limits::SHARD_SLICE;

/// Requests short scheduling slices: a thread that wakes up preempts one with longer slices (EEVDF,
/// Linux 6.12). With equal ones a request would wait until a dump on the shard's core has used up
/// its slice.
///
/// Older kernels ignore it. If it is forbidden, for example by a container's profile, only this
/// benefit is lost.
pub(crate) fn wake_soon() {
    if let Err(error) = shorten_turns(SHARD_SLICE) {
        tracing::debug!(%error, "cannot shorten the scheduling slice of the shard's thread");
    }
}

fn shorten_turns(turn: Duration) -> io::Result<()> {
    // SAFETY: zero is a value of every field, all of which are numbers.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the pointer names a live value of the size given, which the kernel fills in.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    // A different policy of the process, such as a real-time one, takes precedence.
    if attributes.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
        return Ok(());
    }
    attributes.sched_runtime = u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the pointer names a live value, whose size its first field has.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_slices_are_shortened_where_the_kernel_supports_it() {
        shorten_turns(Duration::from_micros(300)).expect("anyone may ask");
        let sched = std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
        let turn = sched.lines().find(|line| line.starts_with("se.slice"));
        if let Some(turn) = turn {
            assert!(turn.ends_with(" 300000"), "{turn}");
        }
    }
}
