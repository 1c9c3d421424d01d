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
use tokio::time::Instant;

use super::raw::Raw;

/// An event of `kube`'s watcher, or its error, and when it was received.
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
        let api = Api::<Raw>::all_with(client.clone(), resource);
        let page = page(resource);
        let config = watcher::Config {
            timeout: Some(WATCH_SECONDS),
            field_selector: field_selector.map(str::to_owned),
            page_size: Some(page),
            ..watcher::Config::default()
        };
        let (sender, receiver) = mpsc::channel(page as usize);
        let resume = Arc::new(Notify::new());
        let mut reader = JoinSet::new();
        reader.spawn(read(api, config, sender, Arc::clone(&resume)));
        Self {
            receiver,
            resume,
            _reader: reader,
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
            if events.send((Instant::now(), event)).await.is_err() {
                return;
            }
        }
    }
}

/// Duration of a watch request: a dead connection is noticed afterwards.
const WATCH_SECONDS: u32 = 60;
/// Objects in a page of a list, and events that are read ahead.
fn page(resource: &ApiResource) -> u32 {
    match &*resource.kind {
        "ConfigMap" | "Secret" => LARGE_OBJECTS,
        _ => PAGE,
    }
}

/// Twice `kube`'s default: each page costs the API server some milliseconds.
const PAGE: u32 = 1_000;
/// For objects of up to 1 MiB, of which there are two pages in memory.
const LARGE_OBJECTS: u32 = 100;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;
    use tokio::task::yield_now;

    use super::*;

    /// The events of Services from a server that returns endless pages, each with one object, or an
    /// error. The counter has the number of requests.
    fn events(status: StatusCode) -> (Events, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        let server = tower::service_fn(move |_: Request<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let page = json!({
                "kind": "ServiceList", "apiVersion": "v1",
                "metadata": {"resourceVersion": "1", "continue": "more"},
                "items": [{"metadata": {"name": "web", "namespace": "a", "resourceVersion": "1"}}],
            });
            let response = Response::builder().status(status);
            let response = response.body(Body::from(page.to_string().into_bytes()));
            async { Ok::<_, Infallible>(response.expect("a response")) }
        });
        let client = Client::new(server, "default");
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&());
        (Events::new(&client, &resource, None), requests)
    }

    /// Lets every task run until it waits.
    async fn settle() {
        for _ in 0..100 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn pages_are_requested_ahead_of_their_reader() {
        let (mut events, requests) = events(StatusCode::OK);
        events.resume();
        assert!(matches!(events.next().await, Some((_, Ok(Event::Init)))));
        settle().await;
        assert!(requests.load(Ordering::Relaxed) > 1);
    }

    #[tokio::test]
    async fn pages_ahead_of_a_slow_reader_are_bounded() {
        let (events, requests) = events(StatusCode::OK);
        events.resume();
        for _ in 0..PAGE {
            settle().await;
        }
        let before = requests.load(Ordering::Relaxed);
        settle().await;
        assert_eq!(requests.load(Ordering::Relaxed), before);
        assert!(before <= PAGE as usize + 1, "{before}");
    }

    #[tokio::test]
    async fn nothing_is_requested_after_an_error_until_it_is_resumed() {
        let (mut events, requests) = events(StatusCode::FORBIDDEN);
        events.resume();
        assert!(matches!(events.next().await, Some((_, Ok(Event::Init)))));
        assert!(matches!(events.next().await, Some((_, Err(_)))));
        settle().await;
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        events.resume();
        assert!(matches!(events.next().await, Some((_, Ok(Event::Init)))));
        assert!(matches!(events.next().await, Some((_, Err(_)))));
        assert_eq!(requests.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn nothing_is_requested_before_the_start() {
        let (mut events, requests) = events(StatusCode::OK);
        settle().await;
        assert_eq!(requests.load(Ordering::Relaxed), 0);
        events.resume();
        assert!(events.next().await.is_some());
    }
}
