//! Saves the current configuration for the next process, a while after a change.

use std::io;
use std::time::Instant;

use tokio::task::{JoinError, JoinHandle};
use tracing::{debug, warn};

use super::last_good::{LastGoodFile, SavedConfig};
use crate::config::apply::sleep_until;
use crate::limits::LAST_GOOD_WAIT;

/// Writes one configuration at a time, off the configuration thread.
pub(super) struct LastGoodWriter {
    file: LastGoodFile,
    /// When to write, if there are unsaved changes.
    due: Option<Instant>,
    writing: Option<JoinHandle<io::Result<()>>>,
}

/// The next event of the writer.
pub(super) enum SaveEvent {
    /// A write is due.
    Write,
    /// A write has ended.
    Written(Result<io::Result<()>, JoinError>),
}

impl LastGoodWriter {
    pub(super) fn new(file: LastGoodFile) -> Self {
        Self {
            file,
            due: None,
            writing: None,
        }
    }

    pub(super) fn file(&self) -> &LastGoodFile {
        &self.file
    }

    pub(super) fn record_change(&mut self) {
        self.due
            .get_or_insert_with(|| Instant::now() + LAST_GOOD_WAIT);
    }

    /// Waits for the next event. Cancel safe.
    pub(super) async fn next(keeper: &mut Option<Self>) -> SaveEvent {
        match keeper {
            None => std::future::pending().await,
            Some(Self {
                writing: Some(writing),
                ..
            }) => SaveEvent::Written(writing.await),
            Some(keeper) => {
                sleep_until(keeper.due).await;
                SaveEvent::Write
            }
        }
    }

    /// Handles it, with the current configuration.
    pub(super) fn take(&mut self, next: SaveEvent, config: SavedConfig) {
        match next {
            SaveEvent::Write => {
                self.due = None;
                let file = self.file.clone();
                let write = move || file.write(&config);
                self.writing = Some(tokio::task::spawn_blocking(write));
            }
            SaveEvent::Written(written) => {
                self.writing = None;
                report(written);
            }
        }
    }

    pub(super) async fn finish(self, config: &SavedConfig) {
        if let Some(writing) = self.writing {
            report(writing.await);
        }
        if self.due.is_some() {
            report(Ok(self.file.write(config)));
        }
    }
}

fn report(written: Result<io::Result<()>, JoinError>) {
    match written.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(()) => debug!("cached the configuration"),
        Err(error) => warn!(
            "cannot save the configuration; the next start will wait for the controller: \
             {error}; --xds-cache has to name a folder that this user may write to"
        ),
    }
}
