//! Carries a response to the picker and back, over the call that asked about its request.
//!
//! [`Review::send_piece`] and [`Review::next`] wait at the same time, in one task. A picker that does
//! not read, or whose answer is due, has [`PICKER_TIMEOUT`]; while the client is slow, or the
//! endpoint has not sent everything, it may take longer.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Instant;

use xds::model::PickerFailureMode;

use super::messages::ProcessingResponse;
use super::passage::{Interest, Passage, Step};
use super::response_message::{response_body, response_head, response_trailers};
use super::{Pick, PickError};
use crate::config::Endpoint;
use crate::http::head::ResponseHead;
use crate::limits::{PICKER_FIRST_RESPONSE, PICKER_TIMEOUT, PICKER_TRAILERS_TIMEOUT};
use crate::memory::BufferPool;
use crate::shard::cutoff::Cutoff;
use crate::upstream::call::{Call, CallError, CallMessages, More};

/// The call to a picker, while a response passes through it.
pub(crate) struct Review<'a> {
    call: Call<'a>,
    interest: Interest,
    pub(crate) failure_mode: PickerFailureMode,
    /// Deadline of the request.
    until: Option<Instant>,
    /// Deadline of the picker's answer to the head.
    head_until: Instant,
    pub(crate) passage: RefCell<Passage>,
    /// Whether a message of the picker is awaited.
    awaits: Cell<bool>,
    /// Whether a message to the picker is being sent.
    sends: Cell<bool>,
    /// Whether the picker must answer before it is sent more.
    waits_for_room: Cell<bool>,
    /// Whether nothing more is sent to the picker.
    is_stopped: Cell<bool>,
    /// Waits until the picker has answered.
    waker: Cell<Option<Waker>>,
}

impl<'a> Pick<'a> {
    /// The call, for the response, if the picker wants any of it. The pool counts what is kept of the
    /// response.
    pub(crate) fn review(
        &mut self,
        until: Option<Instant>,
        pool: &Rc<BufferPool>,
    ) -> Option<(Review<'a>, CallMessages)> {
        let (call, messages) = self.call.take()?;
        let interest = self.interest;
        let review = Review {
            call,
            interest,
            failure_mode: self.failure_mode,
            until,
            head_until: Instant::now() + PICKER_TIMEOUT,
            passage: RefCell::new(Passage::new(interest, pool)),
            awaits: Cell::new(false),
            sends: Cell::new(false),
            waits_for_room: Cell::new(false),
            is_stopped: Cell::new(false),
            waker: Cell::new(None),
        };
        (interest != Interest::Nothing).then_some((review, messages))
    }
}

impl Review<'_> {
    pub(crate) fn wants_body(&self) -> bool {
        self.interest == Interest::HeadAndBody
    }

    pub(crate) fn picker(&self) -> &Endpoint {
        self.call.endpoint()
    }

    /// Cancels the call, such as when the client leaves.
    pub(crate) fn cutoff(&self) -> Cutoff {
        self.call.cutoff()
    }

    /// Whether the request's deadline has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Sends the head of the response. If that fails, so does [`Self::next`].
    pub(crate) async fn send_head(
        &self,
        head: &ResponseHead,
        bytes: &[u8],
        served: &Endpoint,
        end_of_stream: bool,
    ) {
        let message = response_head(head, bytes, served, end_of_stream);
        self.awaits.set(true);
        self.arm();
        // The call stays open: a picker may take its end for that of the request.
        let _ = self.call.send(&message, More::Follow).await;
    }

    /// Sends a piece of the body; `trailers`, if any, follow the last one. Returns whether the picker
    /// listens.
    pub(crate) async fn send_piece(&self, piece: &[u8], is_last: bool, trailers: &[u8]) -> bool {
        let ends = is_last && trailers.is_empty();
        let is_message = !piece.is_empty() || ends;
        if is_message {
            self.wait_for_room().await;
            self.passage.borrow_mut().note_sent(piece, ends);
        }
        if is_last {
            self.passage.borrow_mut().note_end(trailers);
        }
        if self.is_stopped.get() {
            return false;
        }
        self.sends.set(true);
        self.arm();
        let sent = async {
            if is_message {
                let message = response_body(piece, ends);
                self.call.send(&message, More::Follow).await?;
            }
            if is_last && !ends {
                let message = response_trailers(trailers);
                self.call.send(&message, More::Follow).await?;
            }
            Ok::<(), CallError>(())
        };
        let listens = sent.await.is_ok();
        self.sends.set(false);
        self.arm();
        listens
    }

    /// Waits while the picker has more without an answer than it may. A picker that has not answered
    /// at all seems to hold back what it was sent, and is sent more.
    async fn wait_for_room(&self) {
        if self.has_room() {
            return;
        }
        self.waits_for_room.set(true);
        self.arm();
        while !self.has_room() {
            self.wait_for_answer().await;
        }
        self.waits_for_room.set(false);
        self.arm();
    }

    /// Waits for room, or for the answer to the head, until the first answer is overdue.
    async fn wait_for_answer(&self) {
        let awaits_head = || self.passage.borrow().awaits_head();
        let awaited_head = awaits_head();
        let mut timer = None;
        poll_fn(|context| {
            let is_unanswered = self.passage.borrow().is_unanswered();
            // While the client is slow, the picker's messages are not read, and its time does not begin.
            if is_unanswered && self.awaits.get() {
                // Boxed: the runtime's timer is large, and few bodies are that long.
                let timer = timer
                    .get_or_insert_with(|| Box::pin(monoio::time::sleep(PICKER_FIRST_RESPONSE)));
                if timer.as_mut().poll(context).is_ready() {
                    self.passage.borrow_mut().assume_held_back();
                    return Poll::Ready(());
                }
            }
            if self.has_room() || awaits_head() != awaited_head {
                return Poll::Ready(());
            }
            self.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn has_room(&self) -> bool {
        self.is_stopped.get() || !self.passage.borrow().is_full()
    }

    /// Waits for the picker's next message; `None` when it has ended the call successfully.
    ///
    /// # Errors
    ///
    /// The call failed, or the message does not fit the response.
    pub(crate) async fn next(
        &self,
        messages: &mut CallMessages,
    ) -> Result<Option<Step>, PickError> {
        self.awaits.set(true);
        self.arm();
        // If a first answer is waited for, its time begins now.
        self.wake();
        let message = messages.next::<ProcessingResponse>(&self.call).await;
        self.awaits.set(false);
        self.arm();
        let message = match message {
            Err(CallError::TooLate)
                if self.passage.borrow().awaits_trailers_alone() && !self.is_over() =>
            {
                return Ok(None);
            }
            message => message?,
        };
        let Some(message) = message else {
            return Ok(None);
        };
        let step = self.passage.borrow_mut().take(message)?;
        self.wake();
        Ok(Some(step))
    }

    /// Sends nothing more to the picker: what is being sent fails.
    pub(crate) fn stop(&self) {
        self.is_stopped.set(true);
        self.call.cancel();
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Sets the timeout. While nothing is awaited from the picker, as the client is slow, it may not
    /// be able to go on.
    fn arm(&self) {
        let now = Instant::now();
        let left = |until: Instant| until.saturating_duration_since(now);
        let passage = self.passage.borrow();
        let timeout = if !self.awaits.get() {
            None
        } else if passage.awaits_head() {
            Some(left(self.head_until))
        } else if passage.awaits_trailers_alone() {
            Some(PICKER_TRAILERS_TIMEOUT)
        } else {
            let is_due = self.sends.get() || self.waits_for_room.get() || passage.awaits_end();
            is_due.then_some(PICKER_TIMEOUT)
        };
        self.call
            .wait_at_most(match (timeout, self.until.map(left)) {
                (Some(timeout), Some(left)) => Some(timeout.min(left)),
                (timeout, left) => timeout.or(left),
            });
    }
}
