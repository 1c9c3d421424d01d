//! Whether this replica is the leader; only the leader writes to the cluster.

use tokio::sync::watch;

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

    /// Waits until this replica is the leader, and runs the work until it is not. Returns whether
    /// the process continues.
    pub async fn during(
        &mut self,
        stopping: &mut Stopping,
        work: impl Future<Output = ()>,
    ) -> bool {
        tokio::select! {
            () = self.acquired() => {}
            () = stopping.stopped() => return false,
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
