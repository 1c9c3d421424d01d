//! Waiting for a time that there may not be.

use std::time::Instant;

/// Waits until a time; forever if `None`.
pub(super) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
