//! Whether this replica is the leader, which alone writes to the cluster.

use tokio::sync::watch;

use crate::stopping::Stopping;

/// Whether this replica is the leader. A clone sees the same.
#[derive(Debug, Clone)]
pub struct Leadership(watch::Receiver<bool>);

/// Says who is the leader.
#[derive(Debug)]
pub struct Election(watch::Sender<bool>);

impl Leadership {
    /// A leadership that begins with this replica not being the leader, and who decides on it.
    #[must_use]
    pub fn new() -> (Election, Self) {
        let (sender, receiver) = watch::channel(false);
        (Election(sender), Self(receiver))
    }

    /// Whether this replica is the leader now. Ask before every write.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until this replica is the leader, and works until it is not. Returns whether the process
    /// goes on.
    pub async fn during(
        &mut self,
        stopping: &mut Stopping,
        work: impl Future<Output = ()>,
    ) -> bool {
        tokio::select! {
            () = self.won() => {}
            () = stopping.stopped() => return false,
        }
        tokio::select! {
            () = work => true,
            () = self.lost() => true,
            () = stopping.stopped() => false,
        }
    }

    /// Waits until this replica is the leader.
    pub async fn won(&mut self) {
        self.wait_for(true).await;
    }

    /// Waits until this replica is not the leader.
    pub async fn lost(&mut self) {
        self.wait_for(false).await;
    }

    async fn wait_for(&mut self, wanted: bool) {
        if self
            .0
            .wait_for(|is_leader| *is_leader == wanted)
            .await
            .is_err()
        {
            // Nobody decides any more: it stays as it is.
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
