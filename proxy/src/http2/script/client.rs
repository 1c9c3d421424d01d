//! The client of a script: sends the planned frames in pieces, and checks the responses.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use super::{MAX_CANCELED, MAX_OPENED, Plan, frame, has_ping};
use crate::http::engine::frame::{FrameHead, Kind, PREFACE};
use crate::limits::BUFFER_BYTES;

pub(super) struct Client {
    socket: UnixStream,
    /// Frames not started yet.
    frames: VecDeque<Vec<u8>>,
    /// The unsent rest of the current frame.
    begun: Vec<u8>,
    /// Number of requests started.
    requests: u32,
    /// Body bytes that the server accepts.
    credit: usize,
    /// The incomplete frame being received.
    came: Vec<u8>,
    answers: BTreeMap<u32, ReceivedResponse>,
    pongs: Vec<Vec<u8>>,
    /// Outstanding responses and pongs.
    left: u32,
    opened: u32,
    canceled: u32,
    ended: bool,
}

#[derive(Default)]
struct ReceivedResponse {
    heads: u32,
    body: Vec<u8>,
    ended: bool,
}

impl Client {
    pub(super) fn new(socket: UnixStream, plan: &Plan) -> Self {
        socket.set_nonblocking(true).expect("our socket");
        // SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 section 6.5.2).
        let setting = [&[0, 4][..], &plan.window.to_be_bytes()].concat();
        let settings = frame(4, 0, 0, &setting);
        let pings = plan.ids().map(|id| u32::from(has_ping(id)));
        Self {
            socket,
            frames: plan.frames(),
            begun: [PREFACE, &settings].concat(),
            requests: 0,
            credit: FIRST_WINDOW,
            came: Vec::new(),
            answers: BTreeMap::new(),
            pongs: Vec::new(),
            left: plan.streams + pings.sum::<u32>(),
            opened: 0,
            canceled: 0,
            ended: false,
        }
    }

    /// Sends this many bytes, or as many as there are and the socket accepts.
    pub(super) fn delivers(&mut self, max: usize) {
        while self.begun.len() < max {
            let Some(frame) = self.next_frame() else {
                break;
            };
            self.begun.extend(frame);
        }
        let piece = &self.begun[..max.min(self.begun.len())];
        match self.socket.write(piece) {
            Ok(sent) => drop(self.begun.drain(..sent)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }

    /// The next frame that the server accepts; everything waits behind DATA that it does not.
    fn next_frame(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.front()?;
        let head = FrameHead::read(*frame.first_chunk()?);
        match head.kind {
            Kind::Data => self.credit = self.credit.checked_sub(head.length as usize)?,
            Kind::Headers => self.requests += 1,
            _ => {}
        }
        self.frames.pop_front()
    }

    /// Reads this many bytes, or as many as available.
    pub(super) fn reads(&mut self, max: usize) {
        let mut buffer = vec![0; max.min(BUFFER_BYTES)];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => self.came.extend_from_slice(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let mut bytes = std::mem::take(&mut self.came);
        let mut rest = &bytes[..];
        while let Some((head, behind)) = rest.split_first_chunk::<{ FrameHead::BYTES }>() {
            let head = FrameHead::read(*head);
            let Some((payload, behind)) = behind.split_at_checked(head.length as usize) else {
                break;
            };
            self.takes(head, payload);
            rest = behind;
        }
        bytes.drain(..bytes.len() - rest.len());
        self.came = bytes;
    }

    fn takes(&mut self, head: FrameHead, payload: &[u8]) {
        let is_answer = head.has(FrameHead::ACK);
        match head.kind {
            Kind::Headers | Kind::Data => self.takes_of_answer(head, payload),
            Kind::Ping if is_answer => {
                self.pongs.push(payload.to_vec());
                self.left -= 1;
            }
            Kind::Ping => self.frames.push_front(frame(6, FrameHead::ACK, 0, payload)),
            Kind::Settings if is_answer => {}
            Kind::Settings => self.frames.push_front(frame(4, FrameHead::ACK, 0, b"")),
            Kind::WindowUpdate if head.stream == 0 => {
                let by = payload.first_chunk().expect("four bytes");
                self.credit += u32::from_be_bytes(*by) as usize;
            }
            Kind::WindowUpdate => {}
            _ => panic!("{head:?} {payload:?}"),
        }
    }

    fn takes_of_answer(&mut self, head: FrameHead, payload: &[u8]) {
        let answer = self.answers.entry(head.stream).or_default();
        assert!(!answer.ended, "{head:?} behind the end");
        if head.kind == Kind::Headers {
            // `:status: 200`.
            assert_eq!(payload, b"\x88");
            answer.heads += 1;
        } else {
            answer.body.extend_from_slice(payload);
        }
        answer.ended = head.has(FrameHead::END_STREAM);
        self.left -= u32::from(answer.ended);
    }

    /// Opens the window of the connection, or of a started stream.
    pub(super) fn opens_a_window(&mut self, by: u32) {
        if self.opened < MAX_OPENED {
            let number = self.opened % (self.requests + 1);
            let stream = if number == 0 { 0 } else { 2 * number - 1 };
            self.frames.push_front(window_update(stream, by));
            self.opened += 1;
        }
    }

    /// Opens all windows at the end, by more than needed.
    pub(super) fn opens_all_windows(&mut self, plan: &Plan) {
        let streams = std::iter::once(0).chain(plan.ids());
        let all = streams.map(|stream| window_update(stream, WIDE_WINDOW));
        self.frames.extend(all);
    }

    /// Whether another read timeout is allowed.
    pub(super) fn may_be_silent(&mut self) -> bool {
        self.canceled += 1;
        self.canceled <= MAX_CANCELED
    }

    /// Whether everything was sent, and all responses were received.
    pub(super) fn has_all(&self) -> bool {
        self.begun.is_empty() && self.frames.is_empty() && self.left == 0
    }

    pub(super) fn finishes(&self) {
        self.socket.shutdown(Shutdown::Write).expect("our socket");
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.ended
    }

    /// Checks that every stream has its own bytes back, every PING its response, and nothing else
    /// was received.
    pub(super) fn check(self, plan: &Plan) {
        assert!(self.came.is_empty(), "the end is cut: {:?}", self.came);
        let pings = plan.ids().filter(|id| has_ping(*id));
        let pings: Vec<_> = pings.map(|id| u64::from(id).to_be_bytes()).collect();
        assert_eq!(self.pongs, pings);
        assert!(self.answers.keys().copied().eq(plan.ids()));
        for (id, answer) in self.answers {
            assert!(answer.heads == 1 && answer.body == plan.body(id), "{id}");
        }
    }
}

impl fmt::Debug for Client {
    /// The progress; the bytes themselves would be hundreds of kilobytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("requests", &self.requests)
            .field("left", &self.left)
            .field("to_send", &(self.begun.len(), self.frames.len()))
            .field("credit", &self.credit)
            .field("cut", &self.came.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

fn window_update(stream: u32, by: u32) -> Vec<u8> {
    frame(8, 0, stream, &by.to_be_bytes())
}

/// A connection's window before any update (RFC 9113 section 6.9.2).
const FIRST_WINDOW: usize = 65_535;
const WIDE_WINDOW: u32 = 1 << 24;
