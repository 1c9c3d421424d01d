//! The end of the process, as its tasks see it.

use tokio::sync::watch;

/// When to end. A clone sees the same.
#[derive(Debug, Clone)]
pub struct Stopping(watch::Receiver<bool>);

/// Ends the process. Dropping it does too.
#[derive(Debug)]
pub struct Stop(watch::Sender<bool>);

impl Stopping {
    /// A pair: who ends, and who is told.
    #[must_use]
    pub fn new() -> (Stop, Self) {
        let (sender, receiver) = watch::channel(false);
        (Stop(sender), Self(receiver))
    }

    /// Whether the process is ending.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits for the end of the process.
    pub async fn stopped(&mut self) {
        // An error says that nobody is left who could say so: that is the end too.
        let _ = self.0.wait_for(|is_stopping| *is_stopping).await;
    }
}

impl Stop {
    /// Tells every task to end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}
