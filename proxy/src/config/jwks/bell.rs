//! Wakes the configuration thread when a shard lacks a key: a byte into a socket, without locks or
//! blocking.

use std::io::{self, Write};
use std::os::unix::net::UnixStream as StdStream;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::policy::jwt::FetchWaker;

/// The configuration thread's end.
#[derive(Debug)]
pub(super) struct Bell(Option<UnixStream>);

/// Creates a bell. Call it on the configuration thread's runtime.
///
/// # Errors
/// No file descriptors are left.
pub(super) fn bell() -> io::Result<(FetchWaker, Bell)> {
    let (rope, bell) = StdStream::pair()?;
    rope.set_nonblocking(true)?;
    bell.set_nonblocking(true)?;
    let bell = UnixStream::from_std(bell)?;
    let wake = FetchWaker::new(move || {
        // A full socket means that a wakeup is pending.
        let _ = (&rope).write(&[1]);
    });
    Ok((wake, Bell(Some(bell))))
}

impl Bell {
    /// A bell that never rings.
    #[must_use]
    pub(super) fn disabled() -> Self {
        Self(None)
    }

    /// Waits until it is rung. Cancel safe.
    pub(super) async fn notified(&mut self) {
        let mut bytes = [0; 64];
        if let Some(bell) = &mut self.0
            && bell.read(&mut bytes).await.is_ok_and(|bytes| bytes > 0)
        {
            return;
        }
        // The other end is closed.
        self.0 = None;
        std::future::pending::<()>().await;
    }
}
