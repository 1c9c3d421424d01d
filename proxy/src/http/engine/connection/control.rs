//! Frames about the connection and its streams: SETTINGS, PING, GOAWAY, `WINDOW_UPDATE` and
//! `RST_STREAM`, received.

use super::closing::Closing;
use super::{Connection, Frame, Role};
use crate::http::engine::error::{Code, ConnectionError, ResetCause, Violation};
use crate::http::engine::event::Event;
use crate::http::engine::frame::{self, FrameHead};
use crate::http::engine::guard::Answer;
use crate::http::engine::streams::{Half, Reset, StreamKey};
use crate::limits::MAX_H2_WINDOW_BYTES;

impl Connection {
    /// SETTINGS (section 6.5).
    pub(super) fn receive_settings(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Option<Event>, ConnectionError> {
        if frame.head.has(FrameHead::ACK) {
            self.guard.settings(0, self.now)?;
            if !frame.payload.is_empty() {
                return Err(Violation::FrameSize.into());
            }
            self.apply_own_settings();
            return Ok(None);
        }
        let entries = frame::settings(frame.payload)?;
        self.guard.settings(entries.size_hint().0, self.now)?;
        for (id, value) in entries {
            self.apply_setting(id, value)?;
        }
        self.peer.are_received = true;
        self.write_control(frame::write_settings_ack);
        Ok(Some(Event::Settings))
    }

    /// Our settings hold from their acknowledgement on (section 6.5.3): the windows of the streams that a
    /// client opened before shrink to what we announced.
    fn apply_own_settings(&mut self) {
        if std::mem::replace(&mut self.are_settings_applied, true) {
            return;
        }
        let before = self.window_before_settings();
        let change = i64::from(self.options.stream_window).saturating_sub(before.into());
        for position in 0..self.streams.len() {
            if let Some((_, stream)) = self.streams.at(position) {
                stream.receive_window.change(change);
            }
        }
    }

    fn apply_setting(&mut self, id: u16, value: u32) -> Result<(), Violation> {
        match id {
            frame::HEADER_TABLE_SIZE => self.encoder.set_peer_limit(value),
            // A server may not allow what a client asks for (section 6.5.2).
            frame::ENABLE_PUSH if value > 1 => return Err(Violation::Setting),
            frame::ENABLE_PUSH if value == 1 && self.options.role == Role::Client => {
                return Err(Violation::Setting);
            }
            frame::MAX_CONCURRENT_STREAMS => self.peer.streams = value,
            frame::INITIAL_WINDOW_SIZE => self.change_initial_window(value)?,
            frame::MAX_FRAME_SIZE if !FRAME_SIZES.contains(&value) => {
                return Err(Violation::Setting);
            }
            frame::ENABLE_CONNECT_PROTOCOL => match value {
                // RFC 8441 section 3: it cannot be taken back.
                0 if !self.peer.connect_protocol => {}
                1 => self.peer.connect_protocol = true,
                _ => return Err(Violation::Setting),
            },
            // We send no larger frames than every peer accepts; the size of heads is advice.
            _ => {}
        }
        Ok(())
    }

    /// Section 6.9.2: the windows of all streams change by the difference.
    fn change_initial_window(&mut self, value: u32) -> Result<(), Violation> {
        if value > MAX_H2_WINDOW_BYTES {
            return Err(Violation::Window);
        }
        let before = std::mem::replace(&mut self.peer.initial_window, value);
        let change = i64::from(value).saturating_sub(i64::from(before));
        for position in 0..self.streams.len() {
            let Some((key, stream)) = self.streams.at(position) else {
                continue;
            };
            stream.send_window.change(change)?;
            self.wake(key);
        }
        Ok(())
    }

    /// PING (section 6.7).
    pub(super) fn receive_ping(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Option<Event>, ConnectionError> {
        let data = frame::ping(frame.payload)?;
        self.guard.ping(self.now)?;
        if !frame.head.has(FrameHead::ACK) {
            self.write_control(|out| frame::write_ping(out, FrameHead::ACK, data));
            return Ok(None);
        }
        if data == DRAIN_PING {
            self.finish_drain();
            return Ok(None);
        }
        Ok((data == LIVENESS_PING).then_some(Event::Pong))
    }

    /// Asks the peer for a sign of life: [`Event::Pong`] follows.
    pub fn ping(&mut self) {
        if self.closing != Closing::Failed {
            frame::write_ping(&mut self.output, 0, LIVENESS_PING);
        }
    }

    /// GOAWAY (section 6.8).
    pub(super) fn receive_go_away(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Option<Event>, ConnectionError> {
        let (last, code) = frame::go_away(frame.payload)?;
        // A peer cannot process more than it has said before.
        let last = self.peer_last.map_or(last, |before| before.min(last));
        self.peer_last = Some(last);
        self.unprocessed_above = Some(last);
        Ok(Some(Event::GoAway { last, code }))
    }

    /// Ends the next stream of ours that the peer's GOAWAY says it will not process.
    pub(super) fn next_unprocessed(&mut self, last: u32) -> Option<StreamKey> {
        if self.options.role == Role::Server {
            return None;
        }
        let mut position = self.streams.position_above(last);
        while let Some((key, stream)) = self.streams.at(position) {
            if !stream.is_closed() {
                // Whatever else it sends on the stream is ignored: others go on.
                stream.reset = Reset::Ours;
                // The next search begins behind it.
                self.unprocessed_above = Some(stream.id);
                return Some(key);
            }
            position = position.saturating_add(1);
        }
        None
    }

    /// `WINDOW_UPDATE` (section 6.9). An error of its own on a stream ends the connection (section
    /// 5.4.1): no correct peer sends it, and resetting the stream would be work for nothing
    /// (CVE-2025-8671).
    pub(super) fn receive_window_update(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Option<Event>, ConnectionError> {
        let increment = frame::window_update(frame.payload)?;
        self.guard.window_update()?;
        if increment == 0 {
            return Err(Violation::ZeroIncrement.into());
        }
        let id = frame.head.stream;
        if id == 0 {
            self.send_window.change(i64::from(increment))?;
            self.wake_waiting();
        } else if let Some((key, stream)) = self.streams.find(id) {
            if !stream.is_closed() {
                if let Err(violation) = stream.send_window.change(i64::from(increment)) {
                    // Section 6.9.1 names the reset; the connection ends all the same.
                    self.write_reset(id, violation.code());
                    return Err(violation.into());
                }
                self.wake(key);
            }
        } else if self.is_idle(id) {
            return Err(Violation::IdleStream.into());
        }
        Ok(None)
    }

    /// `RST_STREAM` (section 6.4).
    pub(super) fn receive_reset(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Option<Event>, ConnectionError> {
        let code = frame::reset(frame.payload)?;
        let id = frame.head.stream;
        let is_idle = self.is_idle(id);
        let Some((key, stream)) = self.streams.find(id) else {
            if is_idle {
                return Err(Violation::IdleStream.into());
            }
            self.guard.reset(Answer::Begun, self.now)?;
            return Ok(None);
        };
        let was_closed = stream.is_closed();
        let answer = if was_closed || stream.sending != Half::Head {
            Answer::Begun
        } else {
            Answer::Missing
        };
        if !was_closed {
            stream.reset = Reset::Theirs;
        }
        self.guard.reset(answer, self.now)?;
        if was_closed {
            return Ok(None);
        }
        // Section 8.7.
        let cause = match (self.options.role, code) {
            (Role::Client, Code::REFUSED_STREAM) => ResetCause::Unprocessed,
            _ => ResetCause::Peer(code),
        };
        Ok(Some(Event::Reset { key, cause }))
    }
}

/// The data of PINGs that ask for a sign of life, and of those that end a drain.
const LIVENESS_PING: [u8; 8] = *b"liveness";
pub(super) const DRAIN_PING: [u8; 8] = *b"draining";

/// Values of `SETTINGS_MAX_FRAME_SIZE` (section 6.5.2).
const FRAME_SIZES: std::ops::RangeInclusive<u32> = (1 << 14)..=((1 << 24) - 1);
