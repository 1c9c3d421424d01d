//! The events of one kind, read in a task of their own.
//!
//! `kube`'s watcher has the same events, but parses a page of a list only once it has received all
//! of it. Here the API server writes objects while this process parses and admits others.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_lite::{AsyncBufRead, AsyncBufReadExt as _, StreamExt as _};
use kube::api::{ListParams, WatchParams};
use kube::core::{ApiResource, DynamicObject, ListMeta, Request, WatchEvent};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource as _};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use translate::objects::kinds::KindDefinition;

use super::entries::{EntryKind, PARSES};
use super::heard::Heard;
use super::list::{ListParser, NotAList};
use super::raw::Raw;

/// An event or an error, and when it was received.
pub(super) type Read = (Instant, Result<Event<Raw>, watcher::Error>);

/// The events of a list, and of the watches that follow it. Reading stops when it is dropped.
pub(super) struct Events {
    receiver: mpsc::Receiver<Read>,
    resume: Arc<Notify>,
    _reader: JoinSet<()>,
}

impl Events {
    /// Lists and watches once it is [resumed](Self::resume). `shortened` is how often pages of this kind
    /// were shortened.
    pub(super) fn new(
        client: &Client,
        resource: &ApiResource,
        definition: &KindDefinition,
        shortened: &Arc<AtomicU32>,
        heard: &Heard,
    ) -> Self {
        let longest_page = if definition.is_large {
            LARGE_OBJECTS
        } else {
            PAGE
        };
        let (sender, receiver) = mpsc::channel(READ_AHEAD.min(longest_page as usize));
        let resume = Arc::new(Notify::new());
        let reader = Reader {
            client: client.clone(),
            requests: Request::new(DynamicObject::url_path(resource, None)),
            field_selector: definition.field_selector.map(str::to_owned),
            longest_page,
            shortened: Arc::clone(shortened),
            version: None,
            heard: heard.clone(),
            events: sender,
            resume: Arc::clone(&resume),
        };
        let mut task = JoinSet::new();
        let kinds = [EntryKind::ConfigMap, EntryKind::Secret];
        let mut kinds = kinds.into_iter();
        match kinds.find(|kind| resource.kind == kind.object_kind().name()) {
            Some(kind) => task.spawn(PARSES.scope(kind, reader.run())),
            None => task.spawn(reader.run()),
        };
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

    /// The next event or error, if it was read already.
    pub(super) fn try_next(&mut self) -> Option<Read> {
        self.receiver.try_recv().ok()
    }

    /// Starts, or tries again after an error.
    pub(super) fn resume(&self) {
        self.resume.notify_one();
    }
}

struct Reader {
    client: Client,
    /// Makes the requests.
    requests: Request,
    field_selector: Option<String>,
    /// Objects in a page of a list, until pages are shortened.
    longest_page: u32,
    /// How often pages became a tenth as long, since one did not arrive. It outlives this reader: otherwise
    /// each list would begin with such a page again.
    shortened: Arc<AtomicU32>,
    /// The resource version from which a watch continues. Without one, all objects are listed.
    version: Option<String>,
    heard: Heard,
    events: mpsc::Sender<Read>,
    resume: Arc<Notify>,
}

/// Why reading stops.
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
    async fn run(mut self) {
        self.resume.notified().await;
        loop {
            let Err(stop) = self.read().await;
            let reported = match stop {
                Stop::Failed(error) => self.report(error).await,
                Stop::Dropped => return,
            };
            if reported.is_err() {
                return;
            }
        }
    }

    /// Reports an error, and waits until reading may go on.
    async fn report(&self, error: watcher::Error) -> Result<(), Stop> {
        let sent = self.events.send((Instant::now(), Err(error))).await;
        sent.map_err(|_| Stop::Dropped)?;
        self.resume.notified().await;
        Ok(())
    }

    async fn read(&mut self) -> Result<Infallible, Stop> {
        let mut was_short = false;
        loop {
            let version = match &self.version {
                Some(version) => version.clone(),
                None => self.list().await?,
            };
            let started = Instant::now();
            let had_events = self.watch(&version).await?;
            let is_short = !had_events && started.elapsed() < SHORT_WATCH;
            if is_short && was_short {
                // They would be repeated as fast as the API server ends them.
                sleep(SHORT_WATCH).await;
            }
            was_short = is_short;
        }
    }

    /// Reads a list, page by page. Returns its resource version.
    async fn list(&mut self) -> Result<String, Stop> {
        self.send(Event::Init).await?;
        let mut continue_token = None;
        loop {
            let requested = Instant::now();
            let metadata = match self.page(continue_token).await {
                Ok(metadata) => metadata,
                Err(stop) => {
                    // The API server may have failed to prepare or send so many objects in time.
                    if matches!(stop, Stop::Failed(_)) && requested.elapsed() >= LONG_WAIT {
                        self.shortened.fetch_add(1, Ordering::Relaxed);
                    }
                    return Err(stop);
                }
            };
            continue_token = metadata.continue_.filter(|token| !token.is_empty());
            if continue_token.is_none() {
                let version = metadata.resource_version.filter(|it| !it.is_empty());
                let version = version.ok_or(watcher::Error::NoResourceVersion)?;
                self.version = Some(version.clone());
                self.send(Event::InitDone).await?;
                return Ok(version);
            }
        }
    }

    /// The first page, or the one that a token continues with. Returns the metadata of the list.
    async fn page(&self, continue_token: Option<String>) -> Result<ListMeta, Stop> {
        let body = self.request_page(continue_token).await?;
        let metadata = self.read_page(body).await?;
        self.heard.mark();
        Ok(metadata)
    }

    /// Objects in the next page: a hundredth of the longest page at least.
    fn page_size(&self) -> u32 {
        let divisor = match self.shortened.load(Ordering::Relaxed) {
            0 => 1,
            1 => 10,
            _ => 100,
        };
        (self.longest_page / divisor).max(SHORTEST_PAGE)
    }

    async fn request_page(
        &self,
        continue_token: Option<String>,
    ) -> Result<impl AsyncBufRead + use<>, Stop> {
        let params = ListParams {
            field_selector: self.field_selector.clone(),
            limit: Some(self.page_size()),
            continue_token,
            ..ListParams::default()
        };
        let request = self.requests.list(&params);
        let request = request.map_err(|error| list_failed(kube::Error::BuildRequest(error)))?;
        let body = self.client.request_stream(request).await;
        body.map_err(|error| list_failed(self.answered(error)))
    }

    async fn read_page(&self, body: impl AsyncBufRead) -> Result<ListMeta, Stop> {
        let mut body = pin!(body);
        let unreadable = |error: NotAList| list_failed(kube::Error::Service(error.into()));
        let mut list = ListParser::default();
        let mut parsed = VecDeque::new();
        let mut parsed_bytes: usize = 0;
        let mut enough = PARSED_AT_ONCE;
        loop {
            let bytes = body.fill_buf().await;
            let bytes = bytes.map_err(|error| list_failed(kube::Error::Service(error.into())))?;
            let count = bytes.len();
            list.receive(bytes);
            body.as_mut().consume(count);
            let is_end = count == 0;
            if list.unparsed() < enough && !is_end {
                continue;
            }
            while let Some(object) = list.next().map_err(unreadable)? {
                parsed_bytes = parsed_bytes.saturating_add(object.bytes());
                parsed.push_back(object);
            }
            // The rest is parsed again once more of it is there, of a large object once it has doubled.
            enough = PARSED_AT_ONCE.max(2 * list.unparsed());
            // The API server would give up a response that is read slowly, so the receiver is only waited for
            // once much is parsed.
            while self.events.capacity() > 0 || parsed_bytes > PARSED_AHEAD {
                let Some(object) = parsed.pop_front() else {
                    break;
                };
                parsed_bytes = parsed_bytes.saturating_sub(object.bytes());
                self.send(Event::InitApply(object)).await?;
            }
            if is_end {
                break;
            }
        }
        let metadata = list.finish().map_err(unreadable)?;
        for object in parsed {
            self.send(Event::InitApply(object)).await?;
        }
        Ok(metadata)
    }

    /// Reads changes after a version, until the API server ends the watch. Returns whether there were
    /// any.
    async fn watch(&mut self, version: &str) -> Result<bool, Stop> {
        let params = WatchParams {
            field_selector: self.field_selector.clone(),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let started = |error| watcher::Error::WatchStartFailed(error);
        let request = self.requests.watch(&params, version);
        let request = request.map_err(|error| started(kube::Error::BuildRequest(error)))?;
        let events = self.client.request_events::<Raw>(request).await;
        let mut events = pin!(events.map_err(|error| started(self.answered(error)))?);
        // Nothing after that version has been missed.
        self.heard.mark();
        let mut had_events = false;
        // A dead connection has no end.
        while let Ok(next) = timeout(WATCH_TIMEOUT, events.next()).await {
            // Whatever it is, unless the connection broke.
            if !matches!(next, Some(Err(kube::Error::ReadEvents(_)))) {
                self.heard.mark();
            }
            let Some(event) = next else { break };
            had_events = true;
            let event = match event {
                Ok(event) => event,
                Err(error @ kube::Error::ReadEvents(_)) => {
                    return Err(watcher::Error::WatchFailed(error).into());
                }
                // An event that cannot be parsed does not keep those after it away: one of them may
                // correct the object.
                Err(error) => {
                    let error = watcher::Error::WatchFailed(of_event(error));
                    self.report(error).await?;
                    continue;
                }
            };
            let (version, event) = match event {
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
            self.version = version.filter(|it| !it.is_empty());
            if self.version.is_none() {
                return Err(watcher::Error::NoResourceVersion.into());
            }
            if let Some(event) = event {
                self.send(event).await?;
            }
        }
        Ok(had_events)
    }

    /// Records that the API server was heard, if it answered that the request is at fault: it would answer
    /// the same to another replica. Not so if it has failed itself, or does not know this replica.
    fn answered(&self, error: kube::Error) -> kube::Error {
        if let kube::Error::Api(status) = &error
            && (400..500).contains(&status.code)
            && status.code != 401
        {
            self.heard.mark();
        }
        error
    }

    async fn send(&self, event: Event<Raw>) -> Result<(), Stop> {
        let sent = self.events.send((Instant::now(), Ok(event))).await;
        sent.map_err(|_| Stop::Dropped)
    }
}

/// The error for an event: `kube` takes any object that it cannot parse for an empty status.
fn of_event(error: kube::Error) -> kube::Error {
    match error {
        kube::Error::Api(status) if status.code == 0 && status.message.is_empty() => {
            kube::Error::Service("an event cannot be parsed".into())
        }
        other => other,
    }
}

fn list_failed(error: kube::Error) -> Stop {
    Stop::Failed(watcher::Error::InitialListFailed(error))
}

/// More than most clusters have of any kind, so that a list is one page. An API server prepares a whole
/// page before it sends any of it. At the start it does that for all kinds at once, while this process
/// reads the short lists; for each further page, this process would wait. Each page has to arrive within
/// the minute that an API server takes at most for a request.
const PAGE: u32 = 50_000;
/// An API server that cannot send these in a minute has other problems.
const SHORTEST_PAGE: u32 = 10;
/// A page that fails sooner is not too long: the API server cannot be reached, or refuses the request.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// Events that are read ahead.
const READ_AHEAD: usize = 1_000;
/// Bytes of objects of a list that are parsed ahead besides: of some ten thousand routes.
const PARSED_AHEAD: usize = 16 * 1024 * 1024;
/// For objects of up to 1 MiB, of which there are two pages in memory.
const LARGE_OBJECTS: u32 = 100;
/// Bytes of a list that are parsed at once: several objects, since that of which a part is missing is
/// parsed again.
const PARSED_AT_ONCE: usize = 32 * 1024;
/// Duration of a watch request: a dead connection is noticed afterwards.
const WATCH_SECONDS: u32 = 60;
/// When a watch is given up that the API server should have ended.
const WATCH_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// Pause after a second watch that ended sooner than that, without an event.
const SHORT_WATCH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
