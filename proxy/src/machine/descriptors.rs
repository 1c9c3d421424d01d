//! The limit of file descriptors, raised to its maximum.
#![expect(unsafe_code, reason = "getrlimit(2) and setrlimit(2)")]

use std::io;
use std::num::NonZeroU32;

use crate::limits::OWN_DESCRIPTORS;

/// Limit of sockets for each of `shards`, after raising the soft limit of descriptors to the hard
/// one.
///
/// # Errors
///
/// The limit cannot be read.
pub fn per_shard(shards: NonZeroU32) -> io::Result<u32> {
    let limit = raise_limit()?;
    let for_shards = limit.saturating_sub(OWN_DESCRIPTORS.min(limit / 2));
    let each = for_shards / u64::from(shards.get());
    Ok(u32::try_from(each).unwrap_or(u32::MAX).max(1))
}

fn raise_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer names a live `rlimit`.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let max = libc::rlimit {
        rlim_cur: limit.rlim_max,
        rlim_max: limit.rlim_max,
    };
    // SAFETY: as above. On failure the previous limit applies.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const max) } == 0;
    Ok(if raised {
        limit.rlim_max
    } else {
        limit.rlim_cur
    })
}
