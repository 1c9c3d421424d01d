//! Whoever watches requests: what it asks for, and what it has been told.
//!
//! A watch is shared by the shards it is armed on. A request claims it by one counter and reports
//! its events through a bounded channel; what finds no room there is lost, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use admin_types::trace::Event;
use tokio::sync::{Notify, mpsc};

use crate::limits::EVENTS_WAITING;

/// Which requests are wanted. What is `None` is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The method.
    pub method: Option<String>,
    /// The host, in lower case, without port.
    pub host: Option<String>,
    /// What the path begins with.
    pub path_prefix: Option<String>,
    /// The id that the request carries.
    pub request_id: Option<String>,
}

/// What of a request is held against [`Wanted`].
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The host, in lower case, without port.
    pub host: &'a [u8],
    /// The path.
    pub path: &'a [u8],
    /// The id that it carries, if any.
    pub request_id: Option<&'a [u8]>,
}

impl Wanted {
    /// Reads `METHOD host/path-prefix`, of which each part may be missing.
    ///
    /// # Errors
    /// The text is none of that.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (method, rest) = match text.split_once(' ') {
            Some((method, rest)) => (Some(method), rest),
            None if is_method(text) => (Some(text), ""),
            None => (None, text),
        };
        if method.is_some_and(|method| !is_method(method)) {
            return Err("the method is upper-case letters");
        }
        if rest.contains(' ') {
            return Err("there is one space, after the method");
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

    /// Whether a request is wanted.
    #[must_use]
    pub fn accepts(&self, offer: &Offer<'_>) -> bool {
        let is = |wanted: &Option<String>, offered: &[u8]| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.as_bytes() == offered)
        };
        let starts = |prefix: &String| offer.path.starts_with(prefix.as_bytes());
        is(&self.method, offer.method)
            && is(&self.host, offer.host)
            && self.path_prefix.as_ref().is_none_or(starts)
            && (self.request_id.is_none()
                || self.request_id.as_ref().map(String::as_bytes) == offer.request_id)
    }
}

fn is_method(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// One watcher.
#[derive(Debug)]
pub struct Watch {
    wanted: Wanted,
    /// Requests that may still claim it.
    left: AtomicU32,
    /// Requests that claimed it and are not over.
    open: AtomicU32,
    events: mpsc::Sender<Event>,
    lost: AtomicU64,
    over: Notify,
}

impl Watch {
    /// Watches for so many requests. The events come out of the other end.
    #[must_use]
    pub fn new(wanted: Wanted, requests: u32) -> (Arc<Self>, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(EVENTS_WAITING);
        let watch = Self {
            wanted,
            left: AtomicU32::new(requests),
            open: AtomicU32::new(0),
            events,
            lost: AtomicU64::new(0),
            over: Notify::new(),
        };
        (Arc::new(watch), receiver)
    }

    /// Whether no further request can claim it.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 || self.events.is_closed()
    }

    /// Claims it for a request, if that is wanted.
    #[must_use]
    pub fn claim(self: &Arc<Self>, offer: &Offer<'_>) -> Option<Claim> {
        if !self.wanted.accepts(offer) {
            return None;
        }
        // Counted first, so that it is never both spent and without an open claim too early.
        self.open.fetch_add(1, Ordering::SeqCst);
        let claim = Claim(Arc::clone(self));
        let one_less = |left: u32| left.checked_sub(1);
        let claimed = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        claimed.is_ok().then_some(claim)
    }

    /// Events lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until every request that it was for is over.
    pub async fn is_over(&self) {
        while !self.has_ended() {
            self.over.notified().await;
        }
    }

    fn has_ended(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0 && self.open.load(Ordering::SeqCst) == 0
    }

    /// Takes no more claims.
    pub fn disarm(&self) {
        self.left.store(0, Ordering::SeqCst);
    }
}

/// A request's claim on a watcher; it ends with the request.
#[derive(Debug)]
pub struct Claim(Arc<Watch>);

impl Claim {
    /// Tells the watcher, who may have no room for it.
    pub fn tell(&self, event: Event) {
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

    use super::{Offer, Wanted, Watch};
    use crate::limits::EVENTS_WAITING;

    const OFFER: Offer<'_> = Offer {
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
    fn a_match_names_method_host_and_path() {
        for (text, accepted) in [
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
            let wanted = Wanted::parse(text).expect(text);
            assert_eq!(wanted.accepts(&OFFER), accepted, "{text}");
        }
        for text in ["get /x", "GET a b", " /x"] {
            assert!(Wanted::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_id_narrows() {
        let id = |id: &str| Wanted {
            request_id: Some(id.to_owned()),
            ..Wanted::default()
        };
        assert!(id("7").accepts(&OFFER));
        assert!(!id("8").accepts(&OFFER));
    }

    #[test]
    fn it_is_claimed_as_often_as_it_is_for() {
        let (watch, _events) = Watch::new(Wanted::default(), 2);
        let first = watch.claim(&OFFER).expect("the first");
        let second = watch.claim(&OFFER).expect("the second");
        assert!(watch.claim(&OFFER).is_none());
        assert!(watch.is_spent() && !watch.has_ended());
        drop((first, second));
        assert!(watch.has_ended());
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (watch, mut events) = Watch::new(Wanted::default(), 1);
        let claim = watch.claim(&OFFER).expect("the first");
        for _ in 0..EVENTS_WAITING + 3 {
            claim.tell(event());
        }
        assert_eq!(watch.lost(), 3);
        assert!(events.try_recv().is_ok());
    }

    #[test]
    fn a_watcher_that_left_is_spent() {
        let (watch, events) = Watch::new(Wanted::default(), 1);
        drop(events);
        assert!(watch.is_spent());
    }
}
