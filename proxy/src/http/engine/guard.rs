//! Flood protection: counts frames of a peer where they are dispatched, and reports when they exceed
//! legitimate use.
//!
//! Frames that cost their sender nothing cost the receiver a wake-up, a buffer or a whole upstream
//! request (CVE-2023-44487, CVE-2019-9511 to 9518, CVE-2020-11080, CVE-2024-27316, CVE-2025-8671).

use std::time::Duration;

use crate::limits::{
    H2_CONTINUATIONS, H2_FREE_FRAMES, H2_FREE_FRAMES_PER_STREAM, H2_LOCAL_RESETS,
    H2_PINGS_PER_SECOND, H2_RESETS_PER_SECOND, H2_SAMPLE, H2_SETTINGS_PER_FRAME,
    H2_SETTINGS_PER_SECOND,
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
pub(super) struct Guard {
    peer: Peer,
    resets: Rate,
    pings: Rate,
    settings: Rate,
    /// Streams that we have reset for errors of the peer, in the current sample.
    own_resets: u32,
    /// CONTINUATION frames of the current block, without its last one.
    continuations: u32,
    empty_data: u32,
    window_updates: u64,
    priorities: u64,
    /// Number of streams opened.
    streams: u64,
    /// Number of DATA frames sent, which allow the peer as many `WINDOW_UPDATE` frames.
    data_sent: u64,
    /// Whether DATA was sent since the last PING was received.
    data_since_ping: bool,
    /// Streams since resets were last evaluated, and how many of them were reset.
    sampled: u32,
    cut_short: u32,
}

/// Events in the current second.
#[derive(Debug, Default)]
struct Rate {
    second: u32,
    count: u32,
}

impl Rate {
    /// Counts an event; whether it is within `limit`.
    fn allows(&mut self, now: Duration, limit: u32) -> bool {
        let second = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        if self.second != second {
            self.second = second;
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.count <= limit
    }
}

/// Whether a reset stream had been answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its response had begun. Clients of calls that stream end them so, all of them.
    Begun,
    Missing,
}

impl Guard {
    /// A guard against this peer.
    pub(super) fn against(peer: Peer) -> Self {
        Self {
            peer,
            resets: Rate::default(),
            pings: Rate::default(),
            settings: Rate::default(),
            own_resets: 0,
            continuations: 0,
            empty_data: 0,
            window_updates: 0,
            priorities: 0,
            streams: 0,
            data_sent: 0,
            data_since_ping: false,
            sampled: 0,
            cut_short: 0,
        }
    }

    /// A stream was opened, by either side. A connection carries any number of them, so its peer is judged
    /// by samples: of each, half may be reset by either side.
    pub(super) fn opened(&mut self) -> Result<(), Abuse> {
        self.streams = self.streams.saturating_add(1);
        self.sampled = self.sampled.saturating_add(1);
        if self.sampled < H2_SAMPLE {
            return Ok(());
        }
        self.sampled = 0;
        let cut_short = std::mem::take(&mut self.cut_short);
        let own_resets = std::mem::take(&mut self.own_resets);
        within(cut_short < H2_SAMPLE / 2, Abuse::PrematureResets)?;
        within(own_resets < H2_SAMPLE / 2, Abuse::OwnResets)
    }

    /// HEADERS begins a block.
    pub(super) fn begin_block(&mut self) {
        self.continuations = 0;
    }

    /// A CONTINUATION that does not end its block.
    pub(super) fn continuation(&mut self) -> Result<(), Abuse> {
        self.continuations = self.continuations.saturating_add(1);
        within(self.continuations <= H2_CONTINUATIONS, Abuse::Continuations)
    }

    /// DATA without bytes that does not end its stream.
    pub(super) fn empty_data(&mut self) -> Result<(), Abuse> {
        self.empty_data = self.empty_data.saturating_add(1);
        let allowed = budget(self.streams);
        within(u64::from(self.empty_data) <= allowed, Abuse::EmptyData)
    }

    /// `RST_STREAM`. A server may refuse as many streams as it likes.
    pub(super) fn reset(&mut self, answer: Answer, now: Duration) -> Result<(), Abuse> {
        if self.peer == Peer::Server {
            return Ok(());
        }
        if answer == Answer::Missing {
            self.cut_short = self.cut_short.saturating_add(1);
        }
        within(self.resets.allows(now, H2_RESETS_PER_SECOND), Abuse::Resets)
    }

    /// SETTINGS with this many entries.
    pub(super) fn settings(&mut self, entries: usize, now: Duration) -> Result<(), Abuse> {
        let few = self.settings.allows(now, H2_SETTINGS_PER_SECOND);
        within(few && entries <= H2_SETTINGS_PER_FRAME, Abuse::Settings)
    }

    /// PING. Peers that measure the path send one for DATA, once each (gRPC for Go and Java do).
    pub(super) fn ping(&mut self, now: Duration) -> Result<(), Abuse> {
        let is_answer = std::mem::take(&mut self.data_since_ping);
        within(
            is_answer || self.pings.allows(now, H2_PINGS_PER_SECOND),
            Abuse::Pings,
        )
    }

    /// `WINDOW_UPDATE`.
    pub(super) fn window_update(&mut self) -> Result<(), Abuse> {
        self.window_updates = self.window_updates.saturating_add(1);
        let allowed = budget(self.streams.saturating_add(self.data_sent));
        within(self.window_updates <= allowed, Abuse::WindowUpdates)
    }

    /// PRIORITY.
    pub(super) fn priority(&mut self) -> Result<(), Abuse> {
        self.priorities = self.priorities.saturating_add(1);
        within(self.priorities <= budget(self.streams), Abuse::Priorities)
    }

    /// We have sent DATA.
    pub(super) fn data_sent(&mut self) {
        self.data_sent = self.data_sent.saturating_add(1);
        self.data_since_ping = true;
    }

    /// We have reset a stream for an error of the peer.
    pub(super) fn own_reset(&mut self) -> Result<(), Abuse> {
        if self.peer == Peer::Server {
            return Ok(());
        }
        self.own_resets = self.own_resets.saturating_add(1);
        within(self.own_resets <= H2_LOCAL_RESETS, Abuse::OwnResets)
    }
}

fn within(allowed: bool, abuse: Abuse) -> Result<(), Abuse> {
    if allowed { Ok(()) } else { Err(abuse) }
}

/// Frames that a peer may send, given this many legitimate causes.
fn budget(reasons: u64) -> u64 {
    H2_FREE_FRAMES.saturating_add(reasons.saturating_mul(H2_FREE_FRAMES_PER_STREAM))
}

#[cfg(test)]
mod tests;
