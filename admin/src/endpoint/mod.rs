//! What the servers answer, path by path. A new endpoint is a file here and a line in its table.

pub(crate) mod config_dump;
pub(crate) mod cpu_profile;
mod heap_profile;
mod logging;
mod memory;
mod metrics;
mod page;
mod quit;
mod readiness;
pub(crate) mod tasks;
pub(crate) mod trace;

use std::pin::Pin;

use http::{HeaderMap, Method};

use crate::query::Query;
use crate::server::{Answer, Encoding, ErrorForm, Refusal, Shared};

/// The admin server's.
pub(crate) const ADMIN: &[Endpoint] = &[
    config_dump::ENDPOINT,
    cpu_profile::ENDPOINT,
    heap_profile::ENDPOINT,
    logging::ENDPOINT,
    memory::ENDPOINT,
    quit::ENDPOINT,
    tasks::ENDPOINT,
    trace::ENDPOINT,
];

/// The admin server's, for people with a browser.
pub(crate) const PAGE: &[Endpoint] = page::ENDPOINTS;

/// The metrics server's.
pub(crate) const METRICS: &[Endpoint] = &[metrics::ENDPOINT];

/// The readiness server's.
pub(crate) const READINESS: &[Endpoint] = &[readiness::ENDPOINT];

/// What is at a path.
pub(crate) struct Endpoint {
    /// The whole path.
    pub(crate) path: &'static str,
    /// The methods it takes.
    pub(crate) methods: &'static [Method],
    /// The parameters it takes, each at most once.
    pub(crate) parameters: &'static [&'static str],
    /// How it is asked, for those who do it otherwise.
    pub(crate) usage: &'static str,
    /// How it refuses.
    pub(crate) errors: ErrorForm,
    /// Answers a request whose method and parameters are among those above.
    pub(crate) answer: for<'a> fn(Asked<'a>) -> Answering<'a>,
}

/// An answer on its way.
pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + 'a>>;

/// A request to an endpoint.
pub(crate) struct Asked<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query<'a>,
    pub(crate) encoding: Encoding,
}

/// Methods of what can be read.
const READ: &[Method] = &[Method::GET, Method::HEAD];

impl Asked<'_> {
    /// Leave to make a long answer.
    fn slot(&self) -> Result<crate::background::Slot, Refusal> {
        let slot = self.shared.background.slot();
        slot.ok_or_else(|| {
            Refusal::busy("too many answers are being made: ask again when they are done")
        })
    }
}
