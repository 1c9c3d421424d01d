//! The counters of a shard: for itself, and for each route, listener and endpoint.
//!
//! Every counter has one writer, its shard, so counting is a load and a store without a locked
//! instruction; a scrape reads them from its own thread and sums the shards. Counters are found by
//! interned id and start from zero with each new owner of an index.

mod blocks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use self::blocks::Blocks;
use super::causes::ByCause;
use super::external_auth::ExternalAuths;
use super::handshakes::Handshakes;
use super::hashes::HashResult;
use super::heartbeat::Heartbeat;
use super::picks::Picks;
use super::proxy_headers::ProxyHeaderFailure;
use super::series::SeriesTable;
use super::shed::ShedCause;
use super::thread_clock::ThreadClock;
use crate::failure::FailureKind;
use crate::http::engine::guard::Abuse;
use crate::names::Cause;
use crate::policy::answer::{Decision, PageResult, PageSource};
use crate::policy::api_keys::KeyRefusal;
use crate::policy::authorization::Forbidden;
use crate::policy::basic_auth::{PasswordRefusal, PasswordUse};
use crate::policy::client_networks::Outside;
use crate::policy::jwt::{AuthenticatedBy, Refusal};
use crate::policy::path_rewrite::RewriteResult;
use crate::tls::UpstreamTlsFailure;

/// A monotonic counter, written by one thread.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it. Only its shard may.
    pub fn add(&self, n: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(n);
        self.0.store(sum, Ordering::Relaxed);
    }

    /// Increments it. Only its shard may.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Reads the counter; other threads may do so at any time.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A value that goes up and down, written by one thread.
#[derive(Debug, Default)]
pub struct Gauge(Counter);

impl Gauge {
    /// Adds one; [`GaugeGuard`] undoes it on drop.
    pub fn up(&self) {
        self.0.increment();
    }

    /// Decrements it, but not below zero.
    pub fn down(&self) {
        self.set(self.value().saturating_sub(1));
    }

    /// Replaces the value; only the shard that owns the gauge may do so.
    pub fn set(&self, value: u64) {
        self.0.0.store(value, Ordering::Relaxed);
    }

    /// Reads the gauge; other threads may do so at any time.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.value()
    }
}

/// Increments a gauge until dropped, also by a panic.
#[derive(Debug)]
pub struct GaugeGuard<'a>(&'a Gauge);

impl<'a> GaugeGuard<'a> {
    /// Adds one until the guard is dropped.
    #[must_use]
    pub fn new(gauge: &'a Gauge) -> Self {
        gauge.up();
        Self(gauge)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.down();
    }
}

/// A histogram of durations with fixed buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum_micros: Counter,
}

impl Histogram {
    /// Counts a duration in its bucket, and adds it to the sum.
    pub fn observe(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        if let Some(counter) = self.buckets.get(bucket) {
            counter.increment();
        }
        self.sum_micros.add(micros);
    }

    fn reset(&self) {
        self.buckets.iter().for_each(Counter::reset);
        self.sum_micros.reset();
    }
}

/// A snapshot of a histogram, or the sum of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistogramSum {
    /// Durations in each bucket, not cumulative; the last one is for values above every bound.
    pub buckets: [u64; BUCKETS],
    /// Sum of all durations in µs.
    pub sum_micros: u64,
}

impl HistogramSum {
    /// Adds a shard's histogram.
    pub fn merge(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum = sum.wrapping_add(bucket.value());
        }
        self.sum_micros = self.sum_micros.wrapping_add(histogram.sum_micros.value());
    }

    /// Number of durations in all buckets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Upper bounds of the buckets in µs, 500 µs to 60 s; one more bucket is unbounded.
pub const BOUNDS_MICROS: [u64; BUCKETS - 1] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
/// Buckets of a histogram.
pub const BUCKETS: usize = 17;

/// Counters that belong to an interned id.
pub trait Block: Default {
    /// Resets all of them for the next owner.
    fn reset(&self);
}

macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl Block for $name {
            fn reset(&self) {
                $(Zero::zero(&self.$field);)*
            }
        }
    )*};
}

/// The types that a block consists of.
trait Zero {
    fn zero(&self);
}

impl Zero for Counter {
    fn zero(&self) {
        self.reset();
    }
}

impl Zero for Gauge {
    fn zero(&self) {
        self.set(0);
    }
}

impl<C: Cause> Zero for ByCause<C> {
    fn zero(&self) {
        self.reset();
    }
}

impl Zero for Histogram {
    fn zero(&self) {
        self.reset();
    }
}

blocks! {
    /// The counters of a route rule.
    RouteCounters {
        /// From the first byte of a request head to the last of its response.
        duration: Histogram,
        /// Time to connect to an endpoint.
        connect: Histogram,
        /// Bytes of request bodies.
        bytes_in: Counter,
        /// Bytes of response bodies.
        bytes_out: Counter,
        /// Attempts after the first.
        retries: Counter,
        /// Number of requests in flight.
        active: Gauge,
    }
    /// The counters of a bind.
    BindCounters {
        /// Client connections accepted since the start.
        accepted: Counter,
        /// Number of open client connections.
        connections: Gauge,
        /// Connections closed because their client had as many as it may have.
        client_limit_refusals: Counter,
        /// Connections closed when they were accepted, by why their client's address is refused.
        network_refusals: ByCause<Outside>,
        /// Open streams of HTTP/2 connections.
        streams: Gauge,
    }
    /// The counters of a listener.
    ListenerCounters {
        /// Number of requests in flight.
        requests: Gauge,
    }

    /// The counters of an endpoint.
    EndpointCounters {
        /// Connections opened to it since the start.
        connected: Counter,
        /// Failed attempts to connect to it.
        failed_connects: Counter,
        /// Failed TLS handshakes, by cause.
        tls_failures: ByCause<UpstreamTlsFailure>,
    }
}

/// Counts by the error code with which HTTP/2 connections ended.
#[derive(Debug, Default)]
pub struct Http2Errors([Counter; HTTP2_ERRORS.len()]);

/// Names of error codes, by number (RFC 9113 section 7), followed by those without code.
const HTTP2_ERRORS: [&str; 15] = [
    "no_error",
    "protocol_error",
    "internal_error",
    "flow_control_error",
    "settings_timeout",
    "stream_closed",
    "frame_size_error",
    "refused_stream",
    "cancel",
    "compression_error",
    "connect_error",
    "enhance_your_calm",
    "inadequate_security",
    "http_1_1_required",
    "truncated",
];

impl Http2Errors {
    /// Counts an error code. Unknown codes are not counted.
    pub fn count(&self, code: u32) {
        let counter = usize::try_from(code).ok().and_then(|code| self.0.get(code));
        if let Some(counter) = counter {
            counter.increment();
        }
    }

    /// Counts a connection that its peer closed within a frame.
    pub fn count_cut_off(&self) {
        self.0[HTTP2_ERRORS.len() - 1].increment();
    }

    /// The names with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        (HTTP2_ERRORS.into_iter()).zip(self.0.iter().map(Counter::value))
    }
}

/// Requests checked by a JWT policy.
#[derive(Debug, Default)]
pub struct TokenResults {
    /// Allowed without a token.
    pub absent: Counter,
    /// Allowed by a token verified before.
    pub cached: Counter,
    /// Allowed by a verified token.
    pub verified: Counter,
    /// Tokens that were rejected, by reason.
    pub refused: ByCause<Refusal>,
}

impl TokenResults {
    /// Counts the result of a check.
    pub fn count(&self, result: Result<AuthenticatedBy, Refusal>) {
        match result {
            Ok(AuthenticatedBy::None) => self.absent.increment(),
            Ok(AuthenticatedBy::Cached) => self.cached.increment(),
            Ok(AuthenticatedBy::Verified) => self.verified.increment(),
            Err(refusal) => self.refused.count(refusal),
        }
    }
}

/// Requests checked by API keys.
#[derive(Debug, Default)]
pub struct KeyResults {
    /// Without a key.
    pub absent: Counter,
    /// With the key of a client.
    pub known: Counter,
    /// Rejected, by reason.
    pub refused: ByCause<KeyRefusal>,
}

impl KeyResults {
    /// Counts the result of a check: the client, if there is a key.
    pub fn count(&self, result: Result<Option<&str>, KeyRefusal>) {
        match result {
            Ok(None) => self.absent.increment(),
            Ok(Some(_)) => self.known.increment(),
            Err(refusal) => self.refused.count(refusal),
        }
    }
}

/// Requests checked by passwords.
#[derive(Debug, Default)]
pub struct PasswordResults {
    /// Without a password.
    pub absent: Counter,
    /// With a password that was checked before.
    pub known: Counter,
    /// With a password that was checked.
    pub checked: Counter,
    /// Rejected, by reason.
    pub refused: ByCause<PasswordRefusal>,
}

impl PasswordResults {
    /// Counts the result of a check.
    pub fn count(&self, result: Result<PasswordUse<'_>, PasswordRefusal>) {
        match result {
            Ok(PasswordUse::None) => self.absent.increment(),
            Ok(PasswordUse::Known(_)) => self.known.increment(),
            Ok(PasswordUse::Checked(_)) => self.checked.increment(),
            Err(refusal) => self.refused.count(refusal),
        }
    }
}

/// Requests checked by an authorization policy.
#[derive(Debug, Default)]
pub struct AuthorizationResults {
    /// Requests that a rule allows.
    pub allowed: Counter,
    /// Requests that were rejected, by reason.
    pub forbidden: ByCause<Forbidden>,
}

impl AuthorizationResults {
    /// Counts the result of a check.
    pub fn count(&self, result: Result<(), Forbidden>) {
        match result {
            Ok(()) => self.allowed.increment(),
            Err(forbidden) => self.forbidden.count(forbidden),
        }
    }
}

/// Results of networks of clients.
#[derive(Debug, Default)]
pub struct NetworkResults {
    /// Clients that are accepted.
    pub allowed: Counter,
    /// Clients that were refused, by reason.
    pub outside: ByCause<Outside>,
}

impl NetworkResults {
    /// Counts the result of a check.
    pub fn count(&self, result: Result<(), Outside>) {
        match result {
            Ok(()) => self.allowed.increment(),
            Err(outside) => self.outside.count(outside),
        }
    }
}

/// All counters of one shard.
#[derive(Debug, Default)]
pub struct ShardCounters {
    /// Requests, by owner and result.
    pub requests: SeriesTable,
    /// Byte-proxied connections and UDP sessions, by owner and result. They have no method and no
    /// status.
    pub connections: SeriesTable,
    /// Counters of each route rule.
    pub routes: Blocks<RouteCounters>,
    /// Counters of each bind, whose index is permanent: [`Interned::bind`](crate::names::Interned::bind).
    pub binds: Blocks<BindCounters>,
    /// Counters of each listener.
    pub listeners: Blocks<ListenerCounters>,
    /// Counters of each endpoint.
    pub endpoints: Blocks<EndpointCounters>,
    /// Time of the last iteration of its event loop.
    pub heartbeat: Heartbeat,
    /// Delay of the event loop's ticks.
    pub loop_lag: Histogram,
    /// Tasks of the shard that panicked, each with its connection.
    pub panics: Counter,
    /// Rejected heads, by reason.
    pub refused: ByCause<FailureKind>,
    /// Requests checked by a JWT policy.
    pub tokens: TokenResults,
    /// Requests checked by API keys.
    pub api_keys: KeyResults,
    /// Requests checked by passwords.
    pub passwords: PasswordResults,
    /// Requests checked by an authorization policy.
    pub authorizations: AuthorizationResults,
    /// Results of networks of clients.
    pub networks: NetworkResults,
    /// Endpoints that were chosen by hash.
    pub hashes: ByCause<HashResult>,
    /// What policies with answers decided about requests.
    pub responds: ByCause<Decision>,
    /// Requests whose paths policies rewrite.
    pub path_rewrites: ByCause<RewriteResult>,
    /// Errors whose content was replaced by a page.
    pub error_pages: ByCause<PageSource>,
    /// Requests for pages to page servers.
    pub page_requests: ByCause<PageResult>,
    /// Calls to endpoint pickers.
    pub picks: Picks,
    /// Calls to authorization servers.
    pub external_auth: ExternalAuths,
    /// Connections closed over their PROXY protocol header.
    pub proxy_headers: ByCause<ProxyHeaderFailure>,
    /// Datagrams that were dropped, by reason.
    pub dropped_datagrams: ByCause<FailureKind>,
    /// TLS handshakes of clients.
    pub handshakes: Handshakes,
    /// HTTP/2 connections closed because the client exceeded a flood limit.
    pub abuses: ByCause<Abuse>,
    /// HTTP/2 connections closed because the endpoint exceeded a flood limit.
    pub upstream_abuses: ByCause<Abuse>,
    /// HTTP/2 connections closed because the client violated the protocol.
    pub http2_errors: Http2Errors,
    /// Requests rejected under overload.
    pub shed: ByCause<ShedCause>,
    /// Bytes of buffers in use.
    pub buffers: Gauge,
    /// Calls of `accept` that failed, other than by a client's disconnect.
    pub accept_errors: Counter,
    /// Pauses in accepting, for lack of descriptors or under overload.
    pub accept_paused: Counter,
    /// Open client connections of the shard.
    pub clients: Gauge,
    /// Those of them that are closed in their sending direction and wait for a response.
    pub half_closed: Gauge,
    /// Those of them that receive the rest of a request after its response.
    pub lingering: Gauge,
    /// The shard's thread and its CPU time.
    pub thread: ThreadClock,
}

#[cfg(test)]
mod tests;
