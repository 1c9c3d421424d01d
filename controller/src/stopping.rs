//! The shutdown signal for tasks.

use tokio::sync::watch;

/// The shutdown signal. Clones share it.
#[derive(Debug, Clone)]
pub struct Stopping(watch::Receiver<bool>);

/// Triggers the shutdown, also on drop.
#[derive(Debug)]
pub struct Stop(watch::Sender<bool>);

impl Stopping {
    /// The trigger and its signal.
    #[must_use]
    pub fn new() -> (Stop, Self) {
        let (sender, receiver) = watch::channel(false);
        (Stop(sender), Self(receiver))
    }

    /// Whether the process is shutting down.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits for the shutdown.
    pub async fn stopped(&mut self) {
        // An error means that the trigger was dropped, which is a shutdown too.
        let _ = self.0.wait_for(|is_stopping| *is_stopping).await;
    }
}

impl Stop {
    /// Signals every task to stop; repeated calls have no effect.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}
