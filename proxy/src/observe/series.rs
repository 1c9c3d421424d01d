//! Request counts by result: one for each combination of labels that occurred.
//!
//! Labels come from the configuration and from closed sets, never from the wire, so the number of
//! series is bounded by the configuration. One shard writes; a scrape reads without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::counters::Counter;
use crate::failure::FailureKind;
use crate::limits::SERIES;
use crate::names::Interned;

/// The owner of a request's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// The route rule it matched.
    Route(Interned),
    /// The listener, if no route matched.
    Listener(Interned),
}

/// A method, or `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each variant is named after its method")]
#[repr(u8)]
pub enum MethodClass {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    /// Any other method; it shares one series to bound their number.
    Other,
}

impl MethodClass {
    const ALL: [Self; 8] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
        Self::Options,
        Self::Other,
    ];

    /// The class of a method.
    #[must_use]
    pub fn of(method: &[u8]) -> Self {
        let is = |class: &Self| class.as_str().as_bytes() == method;
        Self::ALL.into_iter().find(is).unwrap_or(Self::Other)
    }

    /// The value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Other => "other",
        }
    }
}

/// The labels of a request count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// Route rule or listener.
    pub owner: Owner,
    /// The backend or service it was sent to, if any.
    pub backend: Option<Interned>,
    /// Method of the request.
    pub method: MethodClass,
    /// The status; `None` for one outside of the registry.
    pub status: Option<u16>,
    /// Why it failed, if it did.
    pub reason: Option<FailureReason>,
}

/// A failure as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FailureReason(u8);

impl From<FailureKind> for FailureReason {
    fn from(kind: FailureKind) -> Self {
        Self(kind as u8)
    }
}

impl FailureReason {
    /// The value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let kind = FailureKind::ALL.get(usize::from(self.0));
        kind.map_or("unknown", |kind| kind.reason())
    }
}

/// A status as a label: `None` unless it is in IANA's registry (or 499).
#[must_use]
pub fn registered(status: u16) -> Option<u16> {
    let known = matches!(
        status,
        100..=104 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=417 | 421..=426 | 428 | 429
            | 431 | 451 | 499 | 500..=508 | 510 | 511
    );
    known.then_some(status)
}

/// Request counts by series: an open-addressing hash table of segments that double in size, so that
/// it grows without moving entries under a reader.
#[derive(Debug)]
pub struct SeriesTable {
    segments: [OnceLock<Box<[Entry]>>; SEGMENTS],
    /// Requests without an entry, because every segment was full at their hash.
    overflow: Counter,
}

#[derive(Debug, Default)]
struct Entry {
    /// The labels except the owner; 0 while the entry is free.
    labels: AtomicU64,
    /// Generation and index of the owner.
    owner: AtomicU64,
    count: Counter,
}

impl Default for SeriesTable {
    fn default() -> Self {
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
            overflow: Counter::default(),
        }
    }
}

impl SeriesTable {
    /// Counts a request. Only its shard may.
    pub fn count(&self, series: &Series) {
        let key = Key::pack(series);
        let hash = key.hash();
        for (n, segment) in self.segments.iter().enumerate() {
            let entries = segment.get_or_init(|| new_segment(n));
            for entry in window(entries, hash) {
                if entry.is(key) {
                    return entry.count.increment();
                }
            }
        }
        self.overflow.increment();
    }

    /// Number of requests without an entry.
    #[must_use]
    pub fn overflow(&self) -> u64 {
        self.overflow.value()
    }

    /// Calls `read` for every series that occurred, including those of removed owners, which the
    /// caller has to skip.
    pub fn for_each(&self, mut read: impl FnMut(Series, u64)) {
        for entry in self.segments.iter().filter_map(OnceLock::get).flatten() {
            let labels = entry.labels.load(Ordering::Acquire);
            if labels != 0 {
                let owner = entry.owner.load(Ordering::Acquire);
                read(Key { owner, labels }.unpack(), entry.count.value());
            }
        }
    }
}

impl Entry {
    /// Whether it is the key's. A free entry, or one of an earlier owner, is taken.
    fn is(&self, key: Key) -> bool {
        let labels = self.labels.load(Ordering::Relaxed);
        let owner = self.owner.load(Ordering::Relaxed);
        if labels == key.labels && owner == key.owner {
            return true;
        }
        let same_index = labels == key.labels && index_of(owner) == index_of(key.owner);
        if labels != 0 && !same_index {
            return false;
        }
        self.count.reset();
        self.owner.store(key.owner, Ordering::Release);
        self.labels.store(key.labels, Ordering::Release);
        true
    }
}

/// A series packed into two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    owner: u64,
    labels: u64,
}

impl Key {
    fn pack(series: &Series) -> Self {
        let (kind, owner) = match series.owner {
            Owner::Route(id) => (0, id),
            Owner::Listener(id) => (1, id),
        };
        let backend = series.backend.map_or(NO_BACKEND, |id| {
            let index = u64::from(id.index).min(NO_BACKEND_INDEX - 1);
            (u64::from(id.generation) & MAX_GENERATION) << INDEX_BITS | index
        });
        let reason = series
            .reason
            .map_or(NO_REASON, |reason| u64::from(reason.0));
        let fields = [
            (backend, INDEX_BITS + GENERATION_BITS),
            (reason, REASON_BITS),
            (u64::from(series.status.unwrap_or(0)), STATUS_BITS),
            (series.method as u64, METHOD_BITS),
            (kind, KIND_BITS),
        ];
        // The leading 1 distinguishes the series from a free entry.
        let labels = fields.into_iter().fold(1, |labels, (value, bits)| {
            labels << bits | (value & mask(bits))
        });
        Self {
            owner: u64::from(owner.generation) << 32 | u64::from(owner.index),
            labels,
        }
    }

    fn unpack(self) -> Series {
        let mut labels = self.labels;
        let mut take = |bits| {
            let value = labels & mask(bits);
            labels >>= bits;
            value
        };
        let (kind, method, status) = (take(KIND_BITS), take(METHOD_BITS), take(STATUS_BITS));
        let (reason, index, generation) =
            (take(REASON_BITS), take(INDEX_BITS), take(GENERATION_BITS));
        let owner = Interned {
            index: low_u32(self.owner),
            generation: low_u32(self.owner >> 32),
        };
        let backend = Interned {
            index: low_u32(index),
            generation: low_u32(generation),
        };
        Series {
            owner: if kind == 0 {
                Owner::Route(owner)
            } else {
                Owner::Listener(owner)
            },
            backend: (index != NO_BACKEND_INDEX).then_some(backend),
            method: MethodClass::ALL[low_u32(method) as usize],
            status: u16::try_from(status).ok().filter(|status| *status != 0),
            reason: u8::try_from(reason)
                .ok()
                .filter(|_| reason != NO_REASON)
                .map(FailureReason),
        }
    }

    /// Hashes index and labels, but not the generation, so that a new owner finds the old entries.
    fn hash(self) -> u64 {
        let mixed = (self.labels ^ u64::from(index_of(self.owner)) << 32).wrapping_mul(SPREAD);
        (mixed ^ mixed >> 29).wrapping_mul(SPREAD) >> 16
    }
}

fn new_segment(segment: usize) -> Box<[Entry]> {
    let entries = std::iter::repeat_with(Entry::default);
    entries.take(FIRST_SEGMENT << segment).collect()
}

/// The candidate entries of a hash.
fn window(entries: &[Entry], hash: u64) -> impl Iterator<Item = &Entry> {
    let windows = entries.len() / WINDOW;
    let start = (low_u32(hash) as usize % windows) * WINDOW;
    entries.iter().skip(start).take(WINDOW)
}

fn index_of(owner: u64) -> u32 {
    low_u32(owner)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is wanted"
)]
fn low_u32(word: u64) -> u32 {
    word as u32
}

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Entries examined per segment.
const WINDOW: usize = 8;
const FIRST_SEGMENT: usize = 256;
/// Each is twice as large as the previous one.
const SEGMENTS: usize = (SERIES / FIRST_SEGMENT).ilog2() as usize;
/// 2^64 over the golden ratio, odd: multiplication by it spreads neighbours.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

const KIND_BITS: u32 = 1;
const METHOD_BITS: u32 = 3;
const STATUS_BITS: u32 = 10;
const REASON_BITS: u32 = 8;
const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 17;
const NO_REASON: u64 = mask(REASON_BITS);
const NO_BACKEND_INDEX: u64 = mask(INDEX_BITS);
const NO_BACKEND: u64 = NO_BACKEND_INDEX;
/// Generations of backends are stored modulo this.
const MAX_GENERATION: u64 = mask(GENERATION_BITS);

#[cfg(test)]
mod tests;
