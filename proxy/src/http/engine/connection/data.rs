//! DATA, both ways, and the windows that it uses.

use super::send::StreamGone;
use super::{Connection, Frame};
use crate::http::engine::error::{Code, ConnectionError, Malformed, Violation};
use crate::http::engine::event::Event;
use crate::http::engine::flow::Pressure;
use crate::http::engine::frame::{self, FrameHead, Kind};
use crate::http::engine::head_sink::Then;
use crate::http::engine::streams::{Half, Reset, Stream, StreamKey, Waiting};
use crate::limits::{H2_FRAME_BYTES, H2_PRESSED_CONNECTION_WINDOW_BYTES, H2_PRESSED_WINDOW_BYTES};

impl Connection {
    /// DATA (section 6.1). All of its payload counts for the windows, padding included.
    pub(super) fn receive_data(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Option<Event>, ConnectionError> {
        let head = frame.head;
        self.receive_window.receive(head.length)?;
        let content = frame::unpad(head, frame.payload)?;
        let then = then(head);
        if content.is_empty() && then == Then::More {
            self.guard.empty_data()?;
        }
        let Some((key, stream)) = self.streams.find(head.stream) else {
            return self.receive_late_data(head).map(|()| None);
        };
        if stream.reset == Reset::Ours {
            self.return_to_connection(head.length);
            return Ok(None);
        }
        if stream.reset == Reset::Theirs || stream.receiving == Half::Ended {
            return Err(Violation::ClosedStream.into());
        }
        stream.receive_window.receive(head.length)?;
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        if let Err(cause) = stream.take_data(length, then) {
            return Ok(Some(self.malformed(key, cause)));
        }
        let padding = head.length.saturating_sub(length);
        self.give_back(key, padding);
        if length == 0 && then == Then::More {
            return Ok(None);
        }
        let start = frame
            .start
            .saturating_add(usize::from(head.has(FrameHead::PADDED)));
        Ok(Some(Event::Data {
            key,
            range: start..start.saturating_add(content.len()),
            then,
        }))
    }

    /// DATA of a stream without a record: it is on the way since before we reset the stream, or an error.
    fn receive_late_data(&mut self, head: FrameHead) -> Result<(), ConnectionError> {
        if self.is_idle(head.stream) {
            return Err(Violation::IdleStream.into());
        }
        self.return_to_connection(head.length);
        if !self.ignores(head.stream) {
            self.write_reset(head.stream, Code::STREAM_CLOSED);
            self.count_reset();
            self.remember_reset(head.stream);
        }
        Ok(())
    }

    /// Returns received bytes to the peer, once they were sent on: opens the windows again.
    pub fn give_back(&mut self, key: StreamKey, bytes: u32) {
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        let returned = stream.receive_window.give_back(bytes);
        let target = match self.pressure {
            Pressure::None => self.options.stream_window,
            Pressure::Soft | Pressure::Hard => {
                self.options.stream_window.min(H2_PRESSED_WINDOW_BYTES)
            }
        };
        // A stream that has ended needs no window.
        if stream.receiving == Half::Body && stream.reset == Reset::No {
            let id = stream.id;
            if let Some(increment) = stream.receive_window.take_update(target) {
                self.write_control(|out| frame::write_window_update(out, id, increment));
            }
        }
        self.return_to_connection(returned);
    }

    /// Returns received bytes to the connection's window.
    pub(super) fn return_to_connection(&mut self, bytes: u32) {
        self.receive_window.give_back(bytes);
        self.update_connection_window();
    }

    fn update_connection_window(&mut self) {
        let target = match self.pressure {
            Pressure::None => self.options.connection_window,
            Pressure::Soft | Pressure::Hard => {
                let pressed = H2_PRESSED_CONNECTION_WINDOW_BYTES;
                self.options.connection_window.min(pressed)
            }
        };
        if let Some(increment) = self.receive_window.take_update(target) {
            self.write_control(|out| frame::write_window_update(out, 0, increment));
        }
    }

    /// Sets the state of the memory that received bytes are held in. When it relaxes, the windows
    /// catch up.
    pub fn set_pressure(&mut self, pressure: Pressure) {
        let before = std::mem::replace(&mut self.pressure, pressure);
        if before == pressure {
            return;
        }
        self.update_connection_window();
        for position in 0..self.streams.len() {
            if let Some((key, _)) = self.streams.at(position) {
                self.give_back(key, 0);
            }
        }
    }

    /// Bytes of DATA that a stream may send now.
    #[must_use]
    pub fn capacity(&self, key: StreamKey) -> usize {
        let stream = self.streams.get(key);
        let window = stream.map_or(0, |stream| stream.send_window.room());
        window.min(self.send_window.room())
    }

    /// Writes as much DATA as the windows allow. If it is less than all, or if there is nothing but no
    /// window either, [`Event::Writable`] follows when there is one.
    ///
    /// # Errors
    ///
    /// The stream cannot send any more.
    pub fn write_data(
        &mut self,
        key: StreamKey,
        bytes: &[u8],
        then: Then,
    ) -> Result<usize, StreamGone> {
        let mut written = 0_usize;
        loop {
            let rest = bytes.get(written..).unwrap_or_default();
            let length = self.write_data_head(key, rest.len(), then)?;
            let sent = rest.get(..length).unwrap_or_default();
            self.output.extend_from_slice(sent);
            written = written.saturating_add(length);
            if length == 0 || written == bytes.len() {
                return Ok(written);
            }
        }
    }

    /// Writes the header of one DATA frame, for up to `length` bytes that its user sends behind it before
    /// anything else: returns their number. It is 0 if nothing was written since there is no window;
    /// or, if `length` is 0, since none is needed.
    ///
    /// # Errors
    ///
    /// The stream cannot send any more.
    pub fn write_data_head(
        &mut self,
        key: StreamKey,
        length: usize,
        then: Then,
    ) -> Result<usize, StreamGone> {
        self.check_sending(key, Half::Body)?;
        let allowed = length.min(FRAME).min(self.capacity(key));
        let written = if allowed == 0 && (length > 0 || then == Then::More) {
            if length > 0 {
                self.wait(key);
            }
            0
        } else {
            let is_last = then == Then::End && allowed == length;
            self.write_data_frame(key, allowed, is_last);
            allowed
        };
        // What it has left of the connection's window is for others.
        self.wake_waiting();
        Ok(written)
    }

    fn write_data_frame(&mut self, key: StreamKey, length: usize, is_last: bool) {
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        let flags = if is_last { FrameHead::END_STREAM } else { 0 };
        stream.send_window.spend(length);
        if is_last {
            stream.sending = Half::Ended;
        }
        self.turn = self.turn.wrapping_add(1);
        stream.turn = self.turn;
        let id = stream.id;
        self.send_window.spend(length);
        let size = u32::try_from(length).unwrap_or(u32::MAX);
        frame::write_head(&mut self.output, Kind::Data, flags, id, size);
        self.guard.data_sent();
    }

    /// A stream has more to send than a window allows.
    fn wait(&mut self, key: StreamKey) {
        let connection_room = self.send_window.room();
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        if stream.waiting != Waiting::No {
            return;
        }
        stream.waiting = Waiting::Stream;
        if stream.send_window.room() > 0 && connection_room == 0 {
            stream.waiting = Waiting::Connection;
            let turn = stream.turn;
            self.queue(turn, key);
        }
    }

    /// Lets a stream wait for the connection's window, before those that have sent after it.
    fn queue(&mut self, turn: u64, key: StreamKey) {
        let place = self.waiting.partition_point(|(other, _)| *other <= turn);
        self.waiting.insert(place, (turn, key));
    }

    /// A stream's window has opened.
    pub(super) fn wake(&mut self, key: StreamKey) {
        let has_room = self.send_window.room() > 0;
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        if stream.waiting != Waiting::Stream || stream.send_window.room() == 0 {
            return;
        }
        if has_room {
            stream.waiting = Waiting::Ready;
            self.ready.push_back(key);
        } else {
            stream.waiting = Waiting::Connection;
            let turn = stream.turn;
            self.queue(turn, key);
        }
    }

    /// Tells as many of the streams that wait for the connection's window as can each send a frame, in the
    /// order in which they sent last. When one of them has written or is released, the next ones follow:
    /// so an update for one byte does not wake everyone, and no room is left unused.
    pub(super) fn wake_waiting(&mut self) {
        let mut room = self.send_window.room();
        while room > 0
            && let Some((_, key)) = self.waiting.pop_front()
        {
            // One that was reset since has nothing to send.
            let stream = self.streams.get_mut(key);
            if let Some(stream) = stream.filter(|stream| !stream.is_closed()) {
                stream.waiting = Waiting::Ready;
                self.ready.push_back(key);
                room = room.saturating_sub(FRAME);
            }
        }
    }
}

/// Bytes of the largest frame, which every peer accepts (section 4.2).
const FRAME: usize = H2_FRAME_BYTES as usize;

impl Stream {
    /// Checks received bytes of a body against the state and Content-Length (section 8.1.1).
    fn take_data(&mut self, length: u32, then: Then) -> Result<(), Malformed> {
        if self.receiving == Half::Head {
            return Err(Malformed::Order);
        }
        if let Some(expected) = self.expected {
            let left = expected.checked_sub(u64::from(length));
            self.expected = Some(left.ok_or(Malformed::Length)?);
        }
        if then == Then::End {
            self.end_receiving()?;
        }
        Ok(())
    }

    /// The peer has ended its message.
    pub(super) fn end_receiving(&mut self) -> Result<(), Malformed> {
        if self.expected.is_some_and(|left| left > 0) {
            return Err(Malformed::Length);
        }
        self.receiving = Half::Ended;
        Ok(())
    }
}

/// Whether a frame ends its stream.
pub(super) fn then(head: FrameHead) -> Then {
    if head.has(FrameHead::END_STREAM) {
        Then::End
    } else {
        Then::More
    }
}
