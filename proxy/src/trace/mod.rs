//! Reports requests and byte-proxied connections to watches as they happen (`/debug/trace` of the
//! admin server).
//!
//! A request pays one branch without any watch on its shard. One that is claimed by a watch carries
//! a [`Tracer`], to which every phase reports its decision and reason. The queues of watches are
//! bounded; a request never waits for them.

mod connection;
mod credentials;
mod policy;
mod request;
mod upstream;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use admin::watch::{Claim, RequestInfo, Watch};
use admin_types::trace::{Event, Message, Severity};

pub(crate) use self::connection::ConnectionBegun;
pub(crate) use self::policy::PolicyEffect;
pub(crate) use self::request::RequestBegun;
use crate::policy::credentials::Credentials;

/// The watches of a shard.
#[derive(Default)]
pub(crate) struct Watches {
    list: RefCell<Vec<Arc<Watch>>>,
    armed: Cell<bool>,
}

impl Watches {
    pub(crate) fn arm(&self, watch: Arc<Watch>) {
        self.list.borrow_mut().push(watch);
        self.armed.set(true);
    }

    /// Whether there may be a watch.
    pub(crate) fn are_armed(&self) -> bool {
        self.armed.get()
    }

    /// The watches that match a request; removes those that are spent.
    #[cold]
    fn claim(&self, request: &RequestInfo<'_>) -> Vec<Claim> {
        let mut list = self.list.borrow_mut();
        list.retain(|watch| !watch.is_exhausted());
        self.armed.set(!list.is_empty());
        list.iter()
            .filter_map(|watch| watch.claim(request))
            .collect()
    }
}

/// Reports one request to its watches.
pub(crate) struct Tracer {
    claims: Vec<Claim>,
    shard: u16,
    started: Instant,
    request_id: String,
    attempts: u32,
    attempt_began: Instant,
    /// The parts of the request that are hidden.
    credentials: Arc<Credentials>,
    /// Policies and filters that apply and were not reported yet.
    unreported: RefCell<Vec<&'static str>>,
}

impl Tracer {
    /// A tracer for a request or connection that a watch matches; `None` otherwise.
    fn begin(
        watches: &Watches,
        shard: u16,
        request: &RequestInfo<'_>,
        id: String,
        started: Instant,
    ) -> Option<Self> {
        let claims = watches.claim(request);
        (!claims.is_empty()).then(|| Self {
            claims,
            shard,
            started,
            request_id: id,
            attempts: 0,
            attempt_began: started,
            credentials: Arc::default(),
            unreported: RefCell::default(),
        })
    }

    /// Reports an event now.
    fn emit(&self, severity: Severity, message: Message) {
        self.emit_since(Instant::now(), severity, message);
    }

    /// Reports an event that began at `since` and has ended.
    fn emit_since(&self, since: Instant, severity: Severity, message: Message) {
        let event = Event {
            event_start: self.micros(since),
            event_end: self.micros(Instant::now()),
            shard: self.shard,
            request_id: Some(self.request_id.clone()),
            severity,
            message,
        };
        if let Some((last, others)) = self.claims.split_last() {
            for claim in others {
                claim.send(event.clone());
            }
            last.send(event);
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.started);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }
}

/// Text of bytes from the wire.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
