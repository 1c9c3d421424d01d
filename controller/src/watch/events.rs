//! The events of one kind, read in a task of their own.
//!
//! The API server takes as long for a page of a list as this process takes to admit it. Reading ahead
//! makes both work at the same time.

use std::pin::pin;
use std::sync::Arc;

use futures_lite::StreamExt as _;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::kinds::WatchedKind;
use super::raw::Raw;

/// The result of `kube`'s watcher.
type Read = Result<Event<Raw>, watcher::Error>;

/// The events of a list, and of the watches that follow it. Reading stops when it is dropped.
pub(super) struct Events {
    events: mpsc::Receiver<Read>,
    resume: Arc<Notify>,
    _reader: JoinSet<()>,
}

impl Events {
    /// Starts to list and watch: at once, or if paused, once resumed.
    pub(super) fn start(
        client: &Client,
        resource: &ApiResource,
        kind: &WatchedKind,
        is_paused: bool,
    ) -> Self {
        let api = Api::<Raw>::all_with(client.clone(), resource);
        let config = watcher::Config {
            timeout: Some(WATCH_SECONDS),
            field_selector: kind.field_selector.map(str::to_owned),
            page_size: Some(PAGE),
            ..watcher::Config::default()
        };
        let (sender, events) = mpsc::channel(READ_AHEAD);
        let resume = Arc::new(Notify::new());
        if !is_paused {
            resume.notify_one();
        }
        let mut reader = JoinSet::new();
        reader.spawn(read(api, config, sender, Arc::clone(&resume)));
        Self {
            events,
            resume,
            _reader: reader,
        }
    }

    /// The next event or error. After an error, none follows before [`resume`](Self::resume).
    pub(super) async fn next(&mut self) -> Option<Read> {
        self.events.recv().await
    }

    /// Tries again after an error.
    pub(super) fn resume(&self) {
        self.resume.notify_one();
    }
}

async fn read(
    api: Api<Raw>,
    config: watcher::Config,
    events: mpsc::Sender<Read>,
    resume: Arc<Notify>,
) {
    let mut watcher = pin!(watcher::watcher(api, config));
    loop {
        resume.notified().await;
        let mut failed = false;
        while !failed {
            let Some(event) = watcher.next().await else {
                return;
            };
            failed = event.is_err();
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// Duration of a watch request: a dead connection is noticed afterwards.
const WATCH_SECONDS: u32 = 60;
/// Objects in a page of a list. `kube`'s default is half of it; each page costs the API server some
/// milliseconds, and this process memory for two pages.
const PAGE: u32 = 1_000;
/// Events that are read ahead: a page.
const READ_AHEAD: usize = PAGE as usize;
