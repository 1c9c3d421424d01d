//! Whether this replica is the leader; only the leader writes to the cluster.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::interval;

use crate::stopping::Stopping;

/// Whether this replica is the leader. Clones share it.
#[derive(Debug, Clone)]
pub struct Leadership(watch::Receiver<bool>);

/// Sets whether this replica is the leader.
#[derive(Debug)]
pub struct Election(watch::Sender<bool>);

impl Leadership {
    /// A leadership that starts without being the leader, and its setter.
    #[must_use]
    pub fn new() -> (Election, Self) {
        let (sender, receiver) = watch::channel(false);
        (Election(sender), Self(receiver))
    }

    /// Whether this replica is the leader now. Check before every write.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until this replica is the leader, and runs the work until it is not. While it waits,
    /// `discard_changes` is called from time to time: the work compares everything when it begins, and
    /// meanwhile the names of changed objects would pile up. Returns whether the process continues.
    pub async fn during(
        &mut self,
        stopping: &mut Stopping,
        discard_changes: impl Fn(),
        work: impl Future<Output = ()>,
    ) -> bool {
        let mut discarding = interval(DISCARD_INTERVAL);
        loop {
            tokio::select! {
                () = self.acquired() => break,
                () = stopping.stopped() => return false,
                _ = discarding.tick() => discard_changes(),
            }
        }
        tokio::select! {
            () = work => true,
            () = self.lost() => true,
            () = stopping.stopped() => false,
        }
    }

    /// Waits until this replica is the leader.
    pub async fn acquired(&mut self) {
        self.wait_for(true).await;
    }

    /// Waits until this replica is not the leader.
    pub async fn lost(&mut self) {
        self.wait_for(false).await;
    }

    async fn wait_for(&mut self, expected: bool) {
        if self
            .0
            .wait_for(|is_leader| *is_leader == expected)
            .await
            .is_err()
        {
            // The setter is gone: the state is final.
            std::future::pending::<()>().await;
        }
    }
}

impl Election {
    /// Makes this replica the leader, or not.
    pub fn set(&self, is_leader: bool) {
        self.0
            .send_if_modified(|current| std::mem::replace(current, is_leader) != is_leader);
    }
}

/// 1 min: what a large cluster changes in that time needs little memory.
const DISCARD_INTERVAL: Duration = Duration::from_mins(1);
