//! How many sockets we may have: the limit on file descriptors, raised as far as it goes.
#![expect(unsafe_code, reason = "getrlimit(2) and setrlimit(2)")]

use std::io;
use std::num::NonZeroU32;

use crate::limits::CLIENT_DESCRIPTORS_PERCENT;

/// Client connections that each of `shards` may hold, after the soft limit on descriptors was
/// raised to the hard one.
///
/// # Errors
/// The limit cannot be read.
pub fn client_connections(shards: NonZeroU32) -> io::Result<u32> {
    let for_clients = raise()?.saturating_mul(CLIENT_DESCRIPTORS_PERCENT) / 100;
    let each = for_clients / u64::from(shards.get());
    Ok(u32::try_from(each).unwrap_or(u32::MAX).max(1))
}

fn raise() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer names a live `rlimit`.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let most = libc::rlimit {
        rlim_cur: limit.rlim_max,
        rlim_max: limit.rlim_max,
    };
    // SAFETY: as above. Refused, the limit that was read stays in force.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most) } == 0;
    Ok(if raised {
        limit.rlim_max
    } else {
        limit.rlim_cur
    })
}
