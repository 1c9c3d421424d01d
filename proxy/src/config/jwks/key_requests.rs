//! Wakes the configuration thread when a shard lacks a key: a byte into a socket, without locks or
//! blocking.

use std::io::{self, Write};
use std::os::unix::net::UnixStream as StdStream;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::policy::jwt::FetchWaker;

/// The configuration thread's end.
#[derive(Debug)]
pub(super) struct KeyRequests(Option<UnixStream>);

/// Creates both ends. Call it on the configuration thread's runtime.
///
/// # Errors
/// No file descriptors are left.
pub(super) fn key_requests() -> io::Result<(FetchWaker, KeyRequests)> {
    let (sender, receiver) = StdStream::pair()?;
    sender.set_nonblocking(true)?;
    receiver.set_nonblocking(true)?;
    let receiver = UnixStream::from_std(receiver)?;
    let wake = FetchWaker::new(move || {
        // A full socket means that a wakeup is pending.
        let _ = (&sender).write(&[1]);
    });
    Ok((wake, KeyRequests(Some(receiver))))
}

impl KeyRequests {
    /// Requests that never come.
    #[must_use]
    pub(super) fn disabled() -> Self {
        Self(None)
    }

    /// Waits until a shard lacks a key. Cancel safe.
    pub(super) async fn notified(&mut self) {
        let mut bytes = [0; 64];
        if let Some(receiver) = &mut self.0
            && receiver.read(&mut bytes).await.is_ok_and(|bytes| bytes > 0)
        {
            return;
        }
        // The other end is closed.
        self.0 = None;
        std::future::pending::<()>().await;
    }
}
