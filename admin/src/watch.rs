//! A subscription to the trace events of matching requests.
//!
//! A watch is shared by all shards. A matching request takes a claim, limited by a counter, and sends its
//! events through a bounded channel; events that do not fit are dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use admin_types::trace::Event;
use tokio::sync::{Notify, mpsc};

use crate::limits::QUEUED_EVENTS;

/// Which requests to trace. A field that is None matches any value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceFilter {
    /// Exact method, such as `GET`.
    pub method: Option<String>,
    /// Exact host, in lower case, without port.
    pub host: Option<String>,
    /// Prefix of the path, by bytes.
    pub path_prefix: Option<String>,
    /// Exact value of the header `x-request-id`.
    pub request_id: Option<String>,
}

/// The attributes of a request that a [`TraceFilter`] matches.
#[derive(Debug, Clone, Copy)]
pub struct RequestInfo<'a> {
    /// Its method; `TCP`, `TLS` or `UDP` for connections.
    pub method: &'a [u8],
    /// Its host, in lower case, without port.
    pub host: &'a [u8],
    /// Its path, without the query.
    pub path: &'a [u8],
    /// The `x-request-id` that the client sent, if any.
    pub request_id: Option<&'a [u8]>,
}

impl TraceFilter {
    /// Parses `METHOD host/path-prefix`; each part is optional.
    ///
    /// # Errors
    /// The syntax is invalid.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (method, rest) = match text.split_once(' ') {
            Some((method, rest)) => (Some(method), rest),
            None if is_method(text) => (Some(text), ""),
            None => (None, text),
        };
        if method.is_some_and(|method| !is_method(method)) {
            return Err("the method has to be in upper case");
        }
        if rest.contains(' ') {
            return Err("only one space is allowed, after the method");
        }
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let given = |text: &str| (!text.is_empty() && text != "*").then(|| text.to_owned());
        Ok(Self {
            method: method.map(str::to_owned),
            host: given(&host.to_ascii_lowercase()),
            path_prefix: given(path),
            request_id: None,
        })
    }

    /// Whether the request matches.
    #[must_use]
    pub fn matches(&self, request: &RequestInfo<'_>) -> bool {
        let equals = |expected: &Option<String>, actual: &[u8]| {
            expected
                .as_ref()
                .is_none_or(|expected| expected.as_bytes() == actual)
        };
        let starts = |prefix: &String| request.path.starts_with(prefix.as_bytes());
        equals(&self.method, request.method)
            && equals(&self.host, request.host)
            && self.path_prefix.as_ref().is_none_or(starts)
            && (self.request_id.is_none()
                || self.request_id.as_ref().map(String::as_bytes) == request.request_id)
    }
}

fn is_method(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// A live trace: filters requests, and receives their events until it is dropped.
#[derive(Debug)]
pub struct Watch {
    filter: TraceFilter,
    /// Requests that may still claim it.
    left: AtomicU32,
    /// Claimed requests that have not finished.
    open: AtomicU32,
    events: mpsc::Sender<Event>,
    lost: AtomicU64,
    over: Notify,
}

impl Watch {
    /// Subscribes to the next `requests` matching requests. Events arrive at the receiver.
    #[must_use]
    pub fn new(filter: TraceFilter, requests: u32) -> (Arc<Self>, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(QUEUED_EVENTS);
        let watch = Self {
            filter,
            left: AtomicU32::new(requests),
            open: AtomicU32::new(0),
            events,
            lost: AtomicU64::new(0),
            over: Notify::new(),
        };
        (Arc::new(watch), receiver)
    }

    /// Whether it accepts no further claims.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 || self.events.is_closed()
    }

    /// Claims it for a request that matches.
    #[must_use]
    pub fn claim(self: &Arc<Self>, request: &RequestInfo<'_>) -> Option<Claim> {
        if !self.filter.matches(request) {
            return None;
        }
        // Incremented first, so that `has_ended` cannot be true between the two counters.
        self.open.fetch_add(1, Ordering::SeqCst);
        let claim = Claim(Arc::clone(self));
        let one_less = |left: u32| left.checked_sub(1);
        let claimed = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        claimed.is_ok().then_some(claim)
    }

    /// Number of events dropped so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until all requests it subscribed to have finished.
    pub async fn is_over(&self) {
        while !self.has_ended() {
            self.over.notified().await;
        }
    }

    fn has_ended(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0 && self.open.load(Ordering::SeqCst) == 0
    }

    /// Rejects further claims; requests that hold one continue to be traced.
    pub fn disarm(&self) {
        self.left.store(0, Ordering::SeqCst);
    }
}

/// A request's claim on a watch, dropped when the request finishes.
#[derive(Debug)]
pub struct Claim(Arc<Watch>);

impl Claim {
    /// Sends an event, or counts it as lost where the queue is full.
    pub fn send(&self, event: Event) {
        if self.0.events.try_send(event).is_err() {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        if self.0.has_ended() {
            self.0.over.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use admin_types::trace::{Event, Message, Severity};

    use super::{RequestInfo, TraceFilter, Watch};
    use crate::limits::QUEUED_EVENTS;

    const REQUEST: RequestInfo<'_> = RequestInfo {
        method: b"GET",
        host: b"a.example",
        path: b"/v1/x",
        request_id: Some(b"7"),
    };

    fn event() -> Event {
        Event {
            event_start: 0,
            event_end: 0,
            shard: 0,
            request_id: None,
            severity: Severity::Info,
            message: Message::EventsLost { count: 0 },
        }
    }

    #[test]
    fn a_match_selects_by_method_host_and_path() {
        for (text, expected) in [
            ("", true),
            ("GET", true),
            ("POST", false),
            ("GET a.example", true),
            ("GET A.example/v1", true),
            ("a.example/v2", false),
            ("*/v1", true),
            ("/v1", true),
            ("GET /v2", false),
            ("b.example", false),
        ] {
            let filter = TraceFilter::parse(text).expect(text);
            assert_eq!(filter.matches(&REQUEST), expected, "{text}");
        }
        for text in ["get /x", "GET a b", " /x"] {
            assert!(TraceFilter::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_id_selects_one_request() {
        let id = |id: &str| TraceFilter {
            request_id: Some(id.to_owned()),
            ..TraceFilter::default()
        };
        assert!(id("7").matches(&REQUEST));
        assert!(!id("8").matches(&REQUEST));
    }

    #[test]
    fn the_number_of_claims_is_limited() {
        let (watch, _events) = Watch::new(TraceFilter::default(), 2);
        let first = watch.claim(&REQUEST).expect("the first");
        let second = watch.claim(&REQUEST).expect("the second");
        assert!(watch.claim(&REQUEST).is_none());
        assert!(watch.is_exhausted() && !watch.has_ended());
        drop((first, second));
        assert!(watch.has_ended());
    }

    #[test]
    fn events_that_do_not_fit_are_counted() {
        let (watch, mut events) = Watch::new(TraceFilter::default(), 1);
        let claim = watch.claim(&REQUEST).expect("the first");
        for _ in 0..QUEUED_EVENTS + 3 {
            claim.send(event());
        }
        assert_eq!(watch.lost(), 3);
        assert!(events.try_recv().is_ok());
    }

    #[test]
    fn dropping_the_receiver_ends_a_watch() {
        let (watch, events) = Watch::new(TraceFilter::default(), 1);
        drop(events);
        assert!(watch.is_exhausted());
    }
}
