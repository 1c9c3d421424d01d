//! Flood protection: counts frames of a peer, and reports when they exceed legitimate use.
//!
//! Frames that cost their sender nothing cost the receiver a wake-up, a buffer or a whole upstream
//! request (CVE-2023-44487, CVE-2019-9511 to 9518, CVE-2024-27316, CVE-2025-8671). The `h2` crate
//! does not limit most of them, so received headers are counted here, and our own resets when sent.

use std::time::Duration;

use super::frame::{FrameHead, Frames, Kind, PaddedFrame, Part};
use super::heads::Heads;
use crate::limits::{
    H2_CONTINUATIONS, H2_EMPTY_DATA, H2_FREE_FRAMES, H2_FREE_FRAMES_PER_STREAM, H2_LOCAL_RESETS,
    H2_PINGS_PER_SECOND, H2_RESETS_PER_SECOND, H2_SAMPLE, H2_SETTINGS_PER_SECOND,
    H2_WATCHED_STREAMS,
};
use crate::names::causes;

/// The role of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A client of the gateway, which opens streams.
    Client,
    /// It responds on them, and may refuse as many as it likes.
    Server,
}

causes! {
    /// The limit that a peer has exceeded.
    Abuse;
    /// Streams that the peer reset (CVE-2023-44487).
    Resets "resets";
    /// Reset most streams before they could be answered.
    PrematureResets "premature_resets";
    /// Made us reset streams.
    OwnResets "own_resets";
    /// PING frames that the peer sent, each of which needs an acknowledgement.
    Pings "pings";
    /// SETTINGS frames that the peer sent, each of which needs an acknowledgement.
    Settings "settings";
    /// CONTINUATION frames of one head.
    Continuations "continuations";
    /// Sent DATA without bytes.
    EmptyData "empty_data";
    /// `WINDOW_UPDATE` frames beyond those that sent data explains.
    WindowUpdates "window_updates";
    /// PRIORITY frames, which have no effect.
    Priorities "priorities";
}

/// The counters of one connection. Times are relative to any fixed moment.
#[derive(Debug)]
pub struct Guard {
    peer: Peer,
    received: Frames,
    sent: Frames,
    counts: Counts,
    heads: Heads,
}

#[derive(Debug, Default)]
struct Counts {
    resets: Rate,
    pings: Rate,
    settings: Rate,
    /// Streams that we have reset for errors of the peer, in the current sample.
    own_resets: u32,
    sending: Sending,
    /// CONTINUATION frames of the current head, without its last one; `None` between heads.
    continuations: Option<u32>,
    /// Empty DATA frames in the current sample.
    empty_data: u32,
    window_updates: u64,
    priorities: u64,
    /// Number of streams opened.
    streams: u64,
    /// Number of DATA frames sent, which allow the peer as many `WINDOW_UPDATE` frames.
    data_sent: u64,
    /// Whether DATA was sent since the last PING was received.
    data_since_ping: bool,
    /// The highest stream opened.
    last_stream: u32,
    /// Streams without a complete response.
    open: Vec<u32>,
    /// Streams since resets were last evaluated, and how many of them were reset.
    sampled: u32,
    cut_short: u32,
    has_settings: bool,
    is_leaving: bool,
    heads: u64,
}

/// The frame being sent.
#[derive(Debug, Default, PartialEq, Eq)]
enum Sending {
    #[default]
    Other,
    /// A reset whose code is zero so far.
    Reset,
}

/// Events in the current second.
#[derive(Debug, Default)]
struct Rate {
    second: u64,
    count: u32,
}

impl Rate {
    /// Counts an event; whether it is within `limit`.
    fn allows(&mut self, now: Duration, limit: u32) -> bool {
        if self.second != now.as_secs() {
            self.second = now.as_secs();
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.count <= limit
    }
}

impl Guard {
    /// A guard against this peer.
    #[must_use]
    pub fn against(peer: Peer) -> Self {
        let (received, sent) = match peer {
            Peer::Client => (Frames::after_preface(), Frames::at_once()),
            Peer::Server => (Frames::at_once(), Frames::after_preface()),
        };
        Self {
            peer,
            received,
            sent,
            counts: Counts::default(),
            heads: Heads::of(peer),
        }
    }

    /// Processes received bytes.
    ///
    /// # Errors
    ///
    /// The exceeded limit; the connection must be closed.
    pub fn received(&mut self, bytes: &[u8], now: Duration) -> Result<(), Abuse> {
        let Self {
            peer,
            received,
            counts,
            heads,
            ..
        } = self;
        received.feed_with_payload(bytes, |part| {
            heads.feed(part);
            match part {
                Part::Frame(found) => counts.received(*peer, found, now),
                Part::Payload(_) => Ok(()),
            }
        })
    }

    /// Processes sent bytes.
    ///
    /// # Errors
    ///
    /// The exceeded limit; the connection must be closed.
    pub fn sent(&mut self, bytes: &[u8]) -> Result<(), Abuse> {
        let Self {
            peer, sent, counts, ..
        } = self;
        sent.feed_with_payload(bytes, |part| match part {
            Part::Frame(found) => counts.sent(*peer, found.head),
            Part::Payload(bytes) => counts.sent_payload(bytes),
        })
    }

    /// Whether the path of a stream's head has a fragment, which the `h2` crate cuts off; true only
    /// once.
    pub fn take_fragment(&mut self, stream: u32) -> bool {
        self.heads.take_fragment(stream)
    }

    /// Streams whose response has pseudo-header fields of a request, which the `h2` crate drops, or
    /// invalid fields, or whose request has trailers with pseudo-header fields; each is returned once.
    pub fn take_malformed(&mut self) -> Vec<u32> {
        self.heads.take_malformed()
    }

    /// Streams that a block with a status ended, each once: if it was their trailers, they are malformed,
    /// and the `h2` crate drops the status.
    pub fn drain_ended(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.heads.drain_ended()
    }

    /// Streams whose response has invalid fields, for which the `h2` crate ends the connection; each is
    /// returned once.
    pub fn take_invalid(&mut self) -> Vec<u32> {
        self.heads.take_invalid()
    }

    /// Missing bytes of the client preface.
    #[must_use]
    pub fn preface_left(&self) -> usize {
        self.received.preface_left()
    }

    /// Whether a frame is incomplete.
    #[must_use]
    pub fn is_within_frame(&self) -> bool {
        self.received.is_within()
    }

    /// Whether a head is incomplete, so that no other frame may follow.
    #[must_use]
    pub fn is_within_head(&self) -> bool {
        self.counts.continuations.is_some()
    }

    /// Whether the peer has sent GOAWAY.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.counts.is_leaving
    }

    /// The role of the peer.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Number of heads started, including the current one.
    #[must_use]
    pub fn heads(&self) -> u64 {
        self.counts.heads
    }

    /// Whether the peer's SETTINGS were received, which have to come first.
    #[must_use]
    pub fn has_settings(&self) -> bool {
        self.counts.has_settings
    }
}

impl Counts {
    fn received(&mut self, peer: Peer, found: PaddedFrame, now: Duration) -> Result<(), Abuse> {
        let head = found.head;
        match head.kind {
            Kind::Headers => self.begin_head(peer, head),
            Kind::Continuation => self.continue_head(head),
            Kind::Data if is_empty(found) => {
                self.empty_data = self.empty_data.saturating_add(1);
                within(self.empty_data <= H2_EMPTY_DATA, Abuse::EmptyData)
            }
            Kind::Reset => self.reset(peer, head, now),
            Kind::Settings => {
                self.has_settings = true;
                let few = self.settings.allows(now, H2_SETTINGS_PER_SECOND);
                within(few, Abuse::Settings)
            }
            // Peers that measure the path send a PING for DATA, once each (gRPC for Go and Java
            // do).
            Kind::Ping if std::mem::take(&mut self.data_since_ping) => Ok(()),
            Kind::Ping => within(self.pings.allows(now, H2_PINGS_PER_SECOND), Abuse::Pings),
            Kind::WindowUpdate => {
                self.window_updates = self.window_updates.saturating_add(1);
                let reasons = self.streams.saturating_add(self.data_sent);
                within(self.window_updates <= budget(reasons), Abuse::WindowUpdates)
            }
            Kind::Priority => {
                self.priorities = self.priorities.saturating_add(1);
                within(self.priorities <= budget(self.streams), Abuse::Priorities)
            }
            Kind::GoAway => {
                self.is_leaving = true;
                Ok(())
            }
            Kind::Data | Kind::PushPromise | Kind::Other => Ok(()),
        }
    }

    fn begin_head(&mut self, peer: Peer, head: FrameHead) -> Result<(), Abuse> {
        self.continuations = (!head.has(FrameHead::END_HEADERS)).then_some(0);
        self.heads = self.heads.saturating_add(1);
        if peer == Peer::Server || head.stream <= self.last_stream {
            return Ok(());
        }
        self.last_stream = head.stream;
        self.streams = self.streams.saturating_add(1);
        if self.open.len() < H2_WATCHED_STREAMS {
            self.open.push(head.stream);
        }
        self.begin_stream()
    }

    fn continue_head(&mut self, head: FrameHead) -> Result<(), Abuse> {
        if head.has(FrameHead::END_HEADERS) {
            self.continuations = None;
            return Ok(());
        }
        let count = self.continuations.unwrap_or_default().saturating_add(1);
        self.continuations = Some(count);
        within(count <= H2_CONTINUATIONS, Abuse::Continuations)
    }

    fn reset(&mut self, peer: Peer, head: FrameHead, now: Duration) -> Result<(), Abuse> {
        if peer == Peer::Server {
            return Ok(());
        }
        if self.close(head.stream) {
            self.cut_short = self.cut_short.saturating_add(1);
        }
        within(self.resets.allows(now, H2_RESETS_PER_SECOND), Abuse::Resets)
    }

    /// Counts a stream. A connection carries any number of them, so its peer is judged by samples: of each,
    /// half may be reset by either side, and the other counts start over with it.
    fn begin_stream(&mut self) -> Result<(), Abuse> {
        self.sampled = self.sampled.saturating_add(1);
        if self.sampled < H2_SAMPLE {
            return Ok(());
        }
        self.sampled = 0;
        self.empty_data = 0;
        let cut_short = std::mem::take(&mut self.cut_short);
        let own_resets = std::mem::take(&mut self.own_resets);
        within(cut_short < H2_SAMPLE / 2, Abuse::PrematureResets)?;
        within(own_resets < H2_SAMPLE / 2, Abuse::OwnResets)
    }

    fn sent(&mut self, peer: Peer, head: FrameHead) -> Result<(), Abuse> {
        self.sending = Sending::Other;
        match head.kind {
            Kind::Data => {
                self.data_sent = self.data_sent.saturating_add(1);
                self.data_since_ping = true;
            }
            Kind::Headers if peer == Peer::Server && head.stream > self.last_stream => {
                self.last_stream = head.stream;
                self.streams = self.streams.saturating_add(1);
                return self.begin_stream();
            }
            Kind::Reset if peer == Peer::Client => {
                self.close(head.stream);
                self.sending = Sending::Reset;
            }
            _ => {}
        }
        if matches!(head.kind, Kind::Data | Kind::Headers) && head.has(FrameHead::END_STREAM) {
            self.close(head.stream);
        }
        Ok(())
    }

    /// A reset counts unless its code is `NO_ERROR`: that is how an early response ends its request (RFC
    /// 9113 section 8.1).
    fn sent_payload(&mut self, bytes: &[u8]) -> Result<(), Abuse> {
        if self.sending == Sending::Other || bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        self.sending = Sending::Other;
        self.own_resets = self.own_resets.saturating_add(1);
        within(self.own_resets <= H2_LOCAL_RESETS, Abuse::OwnResets)
    }

    /// Whether a stream had no complete response yet.
    fn close(&mut self, stream: u32) -> bool {
        let place = self.open.iter().position(|open| *open == stream);
        place.map(|place| self.open.swap_remove(place)).is_some()
    }
}

fn within(allowed: bool, abuse: Abuse) -> Result<(), Abuse> {
    if allowed { Ok(()) } else { Err(abuse) }
}

/// Whether a DATA frame is empty: only padding, and not the end.
fn is_empty(found: PaddedFrame) -> bool {
    found.head.length <= found.padding && !found.head.has(FrameHead::END_STREAM)
}

/// Frames that a peer may send, given this many legitimate causes.
fn budget(reasons: u64) -> u64 {
    H2_FREE_FRAMES.saturating_add(reasons.saturating_mul(H2_FREE_FRAMES_PER_STREAM))
}

#[cfg(test)]
mod tests;
