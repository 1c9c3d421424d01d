//! The events of one kind, read in a task of their own.
//!
//! `kube`'s watcher has the same events, but parses a page of a list only once it has received all of it.
//! Here the API server writes objects while this process parses and admits others.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::{AsyncBufReadExt as _, StreamExt as _};
use kube::api::{ListParams, WatchParams};
use kube::core::{ApiResource, ListMeta, Request, WatchEvent};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::list::ListParser;
use super::raw::Raw;

/// An event or an error, and when it was received.
type Read = (Instant, Result<Event<Raw>, watcher::Error>);

/// The events of a list, and of the watches that follow it. Reading stops when it is dropped.
pub(super) struct Events {
    receiver: mpsc::Receiver<Read>,
    resume: Arc<Notify>,
    _reader: JoinSet<()>,
}

impl Events {
    /// Lists and watches once it is [resumed](Self::resume).
    pub(super) fn new(
        client: &Client,
        resource: &ApiResource,
        field_selector: Option<&str>,
    ) -> Self {
        let page = page(resource);
        let (sender, receiver) = mpsc::channel(page as usize);
        let reader = Reader {
            client: client.clone(),
            api: Api::all_with(client.clone(), resource),
            requests: Request::new(Raw::url_path(resource, None)),
            field_selector: field_selector.map(str::to_owned),
            page,
            version: None,
            events: sender,
        };
        let resume = Arc::new(Notify::new());
        let mut task = JoinSet::new();
        task.spawn(reader.run(Arc::clone(&resume)));
        Self {
            receiver,
            resume,
            _reader: task,
        }
    }

    /// The next event or error. After an error, none follows before [`resume`](Self::resume).
    pub(super) async fn next(&mut self) -> Option<Read> {
        self.receiver.recv().await
    }

    /// Starts, or tries again after an error.
    pub(super) fn resume(&self) {
        self.resume.notify_one();
    }
}

struct Reader {
    client: Client,
    api: Api<Raw>,
    /// Makes the requests of lists.
    requests: Request,
    field_selector: Option<String>,
    /// Objects in a page of a list.
    page: u32,
    /// The resource version from which a watch continues. Without one, all objects are listed.
    version: Option<String>,
    events: mpsc::Sender<Read>,
}

/// Why reading does not go on.
enum Stop {
    Failed(watcher::Error),
    /// Nobody receives the events.
    Dropped,
}

impl From<watcher::Error> for Stop {
    fn from(error: watcher::Error) -> Self {
        Self::Failed(error)
    }
}

impl Reader {
    async fn run(mut self, resume: Arc<Notify>) {
        loop {
            resume.notified().await;
            let Err(stop) = self.read().await;
            let sent = match stop {
                Stop::Failed(error) => self.events.send((Instant::now(), Err(error))).await,
                Stop::Dropped => return,
            };
            if sent.is_err() {
                return;
            }
        }
    }

    async fn read(&mut self) -> Result<Infallible, Stop> {
        loop {
            let version = match &self.version {
                Some(version) => version.clone(),
                None => self.list().await?,
            };
            self.watch(version).await?;
        }
    }

    /// Reads a list, page by page. Returns its resource version.
    async fn list(&mut self) -> Result<String, Stop> {
        self.send(Event::Init).await?;
        let mut params = ListParams {
            field_selector: self.field_selector.clone(),
            limit: Some(self.page),
            ..ListParams::default()
        };
        loop {
            let metadata = self.page(&params).await?;
            params.continue_token = metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = metadata.resource_version.filter(|it| !it.is_empty());
                let version = version.ok_or(watcher::Error::NoResourceVersion)?;
                self.version = Some(version.clone());
                self.send(Event::InitDone).await?;
                return Ok(version);
            }
        }
    }

    /// Reads a page, and returns the metadata of the list.
    async fn page(&self, params: &ListParams) -> Result<ListMeta, Stop> {
        let failed = |error| Stop::Failed(watcher::Error::InitialListFailed(error));
        let unreadable = |error| failed(kube::Error::SerdeError(error));
        let request = self.requests.list(params);
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let body = self.client.request_stream(request).await;
        let mut body = pin!(body.map_err(failed)?);
        let mut list = ListParser::default();
        let mut enough = PARSED_AT_ONCE;
        loop {
            let bytes = body.fill_buf().await;
            let bytes = bytes.map_err(|error| failed(kube::Error::ReadEvents(error)))?;
            let count = bytes.len();
            list.receive(bytes);
            body.consume(count);
            let is_end = count == 0;
            if list.unparsed() < enough && !is_end {
                continue;
            }
            while let Some(object) = list.next().map_err(unreadable)? {
                self.send(Event::InitApply(object)).await?;
            }
            if is_end {
                return list.finish().map_err(unreadable);
            }
            // The rest is parsed again once more of it is there, of a large object once it has doubled.
            enough = PARSED_AT_ONCE.max(2 * list.unparsed());
        }
    }

    /// Reads changes after a version, until the API server ends the watch.
    async fn watch(&mut self, version: String) -> Result<(), Stop> {
        let params = WatchParams {
            field_selector: self.field_selector.clone(),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let events = self.api.watch(&params, &version).await;
        let mut events = pin!(events.map_err(watcher::Error::WatchStartFailed)?);
        // A dead connection has no end.
        while let Ok(Some(event)) = timeout(WATCH_TIMEOUT, events.next()).await {
            let (version, event) = match event.map_err(watcher::Error::WatchFailed)? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    (object.resource_version(), Some(Event::Apply(object)))
                }
                WatchEvent::Deleted(object) => {
                    (object.resource_version(), Some(Event::Delete(object)))
                }
                WatchEvent::Bookmark(bookmark) => (Some(bookmark.metadata.resource_version), None),
                WatchEvent::Error(status) => {
                    return Err(watcher::Error::WatchError(status).into());
                }
            };
            let version = version.filter(|it| !it.is_empty());
            self.version = version;
            if self.version.is_none() {
                return Err(watcher::Error::NoResourceVersion.into());
            }
            if let Some(event) = event {
                self.send(event).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, event: Event<Raw>) -> Result<(), Stop> {
        let sent = self.events.send((Instant::now(), Ok(event))).await;
        sent.map_err(|_| Stop::Dropped)
    }
}

/// Duration of a watch request: a dead connection is noticed afterwards.
const WATCH_SECONDS: u32 = 60;
/// When a watch is given up that the API server should have ended.
const WATCH_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// Bytes of a list that are parsed at once: several objects, since that of which a part is missing is
/// parsed again.
const PARSED_AT_ONCE: usize = 32 * 1024;

/// Objects in a page of a list, and events that are read ahead.
fn page(resource: &ApiResource) -> u32 {
    match &*resource.kind {
        "ConfigMap" | "Secret" => LARGE_OBJECTS,
        _ => PAGE,
    }
}

/// Twice `kube`'s default: each page costs the API server some milliseconds.
const PAGE: u32 = 1_000;
/// For objects of up to 1 MiB, of which as many are in memory.
const LARGE_OBJECTS: u32 = 100;

#[cfg(test)]
mod tests;
