//! What a shard counts: for itself, for each route, listener and endpoint.
//!
//! Every counter has one writer, its shard, so counting is a load and a store without a locked
//! instruction; a scrape reads them from its own thread and adds the shards up. Counters are found
//! by interned id and start from zero with each new owner of an index.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam::utils::CachePadded;

use super::causes::ByCause;
use super::external_auth::ExternalAuths;
use super::handshakes::Handshakes;
use super::heartbeat::Heartbeat;
use super::picks::Picks;
use super::proxy_headers::ProxyHeaderFailure;
use super::series::SeriesTable;
use super::shed::ShedCause;
use super::thread_clock::ThreadClock;
use crate::failure::FailureKind;
use crate::http::h2::guard::Abuse;
use crate::names::{Cause, Interned};
use crate::policy::authorization::Forbidden;
use crate::policy::jwt::{Proof, Refusal};
use crate::tls::UpstreamTlsFailure;

/// A number that grows, written by one thread.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it. Its shard alone may.
    pub fn add(&self, n: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(n);
        self.0.store(sum, Ordering::Relaxed);
    }

    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A number that goes up and down, written by one thread.
#[derive(Debug, Default)]
pub struct Gauge(Counter);

impl Gauge {
    /// One more.
    pub fn up(&self) {
        self.0.increment();
    }

    /// One less; what never went up stays at zero.
    pub fn down(&self) {
        self.set(self.value().saturating_sub(1));
    }

    /// So many.
    pub fn set(&self, value: u64) {
        self.0.0.store(value, Ordering::Relaxed);
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.value()
    }
}

/// One more of what a gauge counts, until it is dropped: also by a panic.
#[derive(Debug)]
pub struct GaugeGuard<'a>(&'a Gauge);

impl<'a> GaugeGuard<'a> {
    /// Counts one more.
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

/// How many durations fell into each of fixed buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum_micros: Counter,
}

impl Histogram {
    /// Counts a duration.
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

/// A histogram as read, or the sum of some.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistogramSum {
    /// Durations in each bucket alone; the last one is for what is above every bound.
    pub buckets: [u64; BUCKETS],
    /// Sum of all durations in µs.
    pub sum_micros: u64,
}

impl HistogramSum {
    /// Adds a shard's.
    pub fn merge(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum = sum.wrapping_add(bucket.value());
        }
        self.sum_micros = self.sum_micros.wrapping_add(histogram.sum_micros.value());
    }

    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Upper bounds of the buckets in µs, 500 µs to 60 s; what one more bucket holds is above.
pub const BOUNDS_MICROS: [u64; BUCKETS - 1] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
/// Buckets of a histogram.
pub const BUCKETS: usize = 17;

/// Counters that belong to an interned id.
pub trait Block: Default {
    /// Sets all of them to zero, for the next owner.
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

/// What a block can be made of.
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
    /// Of a route rule.
    RouteCounters {
        /// From the first byte of a request's head to the last of its response.
        duration: Histogram,
        /// To connect to an endpoint.
        connect: Histogram,
        /// Bytes of requests' bodies.
        bytes_in: Counter,
        /// Bytes of responses' bodies.
        bytes_out: Counter,
        /// Tries after the first.
        retries: Counter,
        /// Requests now.
        active: Gauge,
    }

    /// Of a bind.
    BindCounters {
        /// Connections accepted.
        accepted: Counter,
        /// Connections now.
        connections: Gauge,
        /// Streams of HTTP/2 connections now.
        streams: Gauge,
    }
    /// Of a listener.
    ListenerCounters {
        /// Requests now.
        requests: Gauge,
    }

    /// Of an endpoint.
    EndpointCounters {
        /// Connections made.
        connected: Counter,
        /// Connections that could not be had.
        failed_connects: Counter,
        /// Connections that TLS came to nothing on.
        tls_failures: ByCause<UpstreamTlsFailure>,
    }
}

/// Counts by the error code that HTTP/2 connections were ended with.
#[derive(Debug, Default)]
pub struct Http2Errors([Counter; HTTP2_ERRORS.len()]);

/// Names of error codes, by number (RFC 9113 section 7), and behind them of what has no code.
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
    /// Counts one. Codes that have no name are nobody's but the peer's.
    pub fn count(&self, code: u32) {
        let counter = usize::try_from(code).ok().and_then(|code| self.0.get(code));
        if let Some(counter) = counter {
            counter.increment();
        }
    }

    /// Counts one that its peer has ended in the middle of a frame.
    pub fn count_cut_off(&self) {
        self.0[HTTP2_ERRORS.len() - 1].increment();
    }

    /// The names and how often each came.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        (HTTP2_ERRORS.into_iter()).zip(self.0.iter().map(Counter::value))
    }
}

/// Requests that a policy of tokens was asked about.
#[derive(Debug, Default)]
pub struct TokenResults {
    /// Let in without a token.
    pub absent: Counter,
    /// Let in by a token that had been verified before.
    pub cached: Counter,
    /// Let in by a token that was verified.
    pub verified: Counter,
    /// Not let in.
    pub refused: ByCause<Refusal>,
}

impl TokenResults {
    /// Counts a result.
    pub fn count(&self, result: Result<Proof, Refusal>) {
        match result {
            Ok(Proof::None) => self.absent.increment(),
            Ok(Proof::Cached) => self.cached.increment(),
            Ok(Proof::Verified) => self.verified.increment(),
            Err(refusal) => self.refused.count(refusal),
        }
    }
}

/// Requests that a policy of authorization was asked about.
#[derive(Debug, Default)]
pub struct AuthorizationResults {
    /// Let through.
    pub allowed: Counter,
    /// Not let through.
    pub forbidden: ByCause<Forbidden>,
}

impl AuthorizationResults {
    /// Counts a result.
    pub fn count(&self, result: Result<(), Forbidden>) {
        match result {
            Ok(()) => self.allowed.increment(),
            Err(forbidden) => self.forbidden.count(forbidden),
        }
    }
}

/// Everything that one shard counts.
#[derive(Debug, Default)]
pub struct ShardCounters {
    /// Requests, by who served them and how they ended.
    pub requests: SeriesTable,
    /// Connections and sessions of datagrams that are carried as they are, by who carried them and
    /// how they ended. They have no method and no status.
    pub connections: SeriesTable,
    /// By route rule.
    pub routes: Blocks<RouteCounters>,
    /// By bind, of which each has an index for good: [`Interned::bind`].
    pub binds: Blocks<BindCounters>,
    /// By listener.
    pub listeners: Blocks<ListenerCounters>,
    /// By endpoint.
    pub endpoints: Blocks<EndpointCounters>,
    /// When its event loop last turned.
    pub heartbeat: Heartbeat,
    /// How late the event loop comes to its tick.
    pub loop_lag: Histogram,
    /// Tasks that panicked.
    pub panics: Counter,
    /// Heads that never became a request, by what was wrong with them.
    pub refused: ByCause<FailureKind>,
    /// Requests that a policy of tokens was asked about.
    pub tokens: TokenResults,
    /// Requests that a policy of authorization was asked about.
    pub authorizations: AuthorizationResults,
    /// Questions to endpoint pickers.
    pub picks: Picks,
    /// Questions to authorization servers.
    pub external_auth: ExternalAuths,
    /// Connections closed over their PROXY protocol header.
    pub proxy_headers: ByCause<ProxyHeaderFailure>,
    /// Datagrams that were dropped, by reason.
    pub dropped_datagrams: ByCause<FailureKind>,
    /// TLS of clients.
    pub handshakes: Handshakes,
    /// HTTP/2 connections ended because of what their client did too often.
    pub abuses: ByCause<Abuse>,
    /// HTTP/2 connections ended because of what their endpoint did too often.
    pub upstream_abuses: ByCause<Abuse>,
    /// HTTP/2 connections of clients that the `h2` crate ended.
    pub http2_errors: Http2Errors,
    /// Requests refused under overload.
    pub shed: ByCause<ShedCause>,
    /// Bytes of the buffers in use.
    pub buffers: Gauge,
    /// Accepts that failed.
    pub accept_errors: Counter,
    /// Times that accepting paused, for want of descriptors or by overload.
    pub accept_paused: Counter,
    /// Client connections now.
    pub clients: Gauge,
    /// The thread that counts here, and what it costs.
    pub thread: ThreadClock,
}

/// Blocks of counters by interned id. It grows as ids do, never moves a block, and is read without
/// a lock: segments double in size and are made once.
#[derive(Debug)]
pub struct Blocks<T> {
    segments: [OnceLock<Segment<T>>; SEGMENTS],
}

type Segment<T> = Box<[CachePadded<Slot<T>>]>;

#[derive(Debug)]
struct Slot<T> {
    /// Generation of the owner, `VACANT` where there was none yet or the block is being reset.
    generation: AtomicU32,
    block: T,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
        }
    }
}

impl<T: Block> Blocks<T> {
    /// The block of an id, for its shard to count in.
    #[must_use]
    pub fn of(&self, id: Interned) -> &T {
        let (segment, offset) = place(id.index);
        let slots = self.segments[segment].get_or_init(|| new_segment(segment));
        let slot = &slots[offset];
        if slot.generation.load(Ordering::Relaxed) != id.generation {
            slot.generation.store(VACANT, Ordering::Release);
            slot.block.reset();
            slot.generation.store(id.generation, Ordering::Release);
        }
        &slot.block
    }

    /// The block of an id, for others to read; `None` where its shard has not counted yet.
    #[must_use]
    pub fn read(&self, id: Interned) -> Option<&T> {
        let (segment, offset) = place(id.index);
        let slot = self.segments[segment].get()?.get(offset)?;
        let owned = slot.generation.load(Ordering::Acquire) == id.generation;
        owned.then_some(&slot.block)
    }
}

fn new_segment<T: Block>(segment: usize) -> Segment<T> {
    let slot = || {
        CachePadded::new(Slot {
            generation: AtomicU32::new(VACANT),
            block: T::default(),
        })
    };
    std::iter::repeat_with(slot)
        .take(FIRST_SEGMENT << segment)
        .collect()
}

/// Segment and offset of an index: segment `n` holds `FIRST_SEGMENT << n` blocks.
fn place(index: u32) -> (usize, usize) {
    let shifted = index as usize + FIRST_SEGMENT;
    let segment = (shifted / FIRST_SEGMENT).ilog2() as usize;
    (segment, shifted - (FIRST_SEGMENT << segment))
}

const FIRST_SEGMENT: usize = 64;
/// Enough for every index of 32 bits.
const SEGMENTS: usize = 27;
const VACANT: u32 = u32::MAX;

#[cfg(test)]
mod tests;
