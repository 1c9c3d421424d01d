//! Passes a response through the endpoint picker of its request, as `ext_proc` does in
//! `FULL_DUPLEX_STREAMED` mode: head, body and trailers go to the picker as they arrive, and what it
//! returns ([`ReturnedResponse`]) goes to the client, in one task. Neither waits for the other.

use std::pin::pin;

use xds::model::PickerFailureMode;

use crate::channel::relay::{ReadMode, Relay, RelayError, Side};
use crate::exchange::RequestRecord;
use crate::failure::{Failure, FailureKind};
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::http::head::Framing;
use crate::limits::BYTES_PER_POLL;
use crate::memory::{Buffer, Kept};
use crate::observe::picks::ReviewFailure;
use crate::shard::Shard;
use crate::upstream::both_ways::first_until_second;
use crate::upstream::call::CallMessages;
use crate::upstream::picker::{BodySource, Review};

use super::download::{Download, ResponseEnd, ResponseSide};
use super::returned_response::{PickerEnd, ReturnedResponse};

impl Download<'_, '_> {
    /// Sends the response, whose head has `length` bytes, through the picker. `None` if the picker receives no body:
    /// then the response is still to be sent. A content that a page will replace is none for the picker either.
    ///
    /// # Errors
    ///
    /// The response was not sent completely.
    pub(super) async fn through_picker(
        &mut self,
        (length, is_replaced): (usize, bool),
        side: &mut ResponseSide<'_, '_>,
        shard: &Shard,
        uploaded: &impl Fn() -> bool,
    ) -> Result<Option<ResponseEnd>, Failure> {
        let (picked, until) = (side.picked.as_deref_mut(), self.attempt.until);
        let reviewed = picked.and_then(|picked| picked.review(until, &shard.buffers));
        let Some((review, messages)) = reviewed else {
            return Ok(None);
        };
        let head = self.buffer.filled().get(..length).unwrap_or_default();
        let head = head.to_vec();
        let framing = side.response.framing;
        let body = self.connection.stream.body_framing(framing);
        let is_bodiless = matches!(body, Framing::Empty | Framing::Length(0));
        let has_body = !is_bodiless && side.response.status != 101 && !is_replaced;
        let sent = review.send_head(side.response, &head, self.attempt.endpoint, !has_body);
        sent.await;
        let rest = BodyDecoder::of_response(Framing::Empty);
        let mut decoder = std::mem::replace(side.decoder, rest);
        let mut returned = ReturnedResponse::new(&review, self.attempt, &head, side);
        if !has_body || !review.wants_body() {
            let ended = returned.take_head(messages).await;
            *side.decoder = decoder;
            settle(&review, ended, true, side.record, shard)?;
            return Ok(None);
        }
        self.buffer.consume(length);
        decoder.reset(body);
        let mut body = EndpointBody {
            review: &review,
            from: self.attempt.download_side(self.connection),
            buffer: self.buffer,
            decoder: &mut decoder,
            is_complete: false,
            failure: None,
        };
        let passed = body.pass(&mut returned, messages, shard).await;
        let reusable = uploaded() && body.is_complete;
        returned.record_end(decoder, passed.is_ok(), &self.connection.stream);
        passed?;
        Ok(Some(side.end(framing, uploaded(), reusable, shard)))
    }
}

/// Whether the response goes on without the picker, whose part has ended like this. `can_continue` says
/// whether it could: not if the picker has altered the body, or if bytes that it holds back were dropped.
fn settle(
    review: &Review<'_>,
    ended: PickerEnd,
    can_continue: bool,
    record: &RequestRecord<'_>,
    shard: &Shard,
) -> Result<(), Failure> {
    let mode = review.failure_mode;
    let (error, opens) = match ended {
        PickerEnd::Complete | PickerEnd::Done if can_continue => return Ok(()),
        PickerEnd::Complete | PickerEnd::Done => (ENDED_EARLY, false),
        PickerEnd::Broken(failure) => return Err(failure),
        PickerEnd::Responds => return Err(picker_failure("the picker responded")),
        PickerEnd::Failed(error) => (error.detail(), mode == PickerFailureMode::FailOpen),
    };
    let picker = &review.picker().name;
    tracing::debug!(%picker, %error, ?mode, "an endpoint picker failed during a response");
    let (result, settled) = if opens && can_continue {
        (ReviewFailure::FailedOpen, Ok(()))
    } else {
        let detail = if opens { INCOMPLETE } else { error };
        (ReviewFailure::FailedClosed, Err(picker_failure(detail)))
    };
    shard.counters.picks.review_failures.count(result);
    if let Some(trace) = &record.trace {
        trace.review_failed(review.picker(), result, error);
    }
    settled
}

/// Why a response cannot go on although its picker may fail.
const INCOMPLETE: &str = "the picker has altered the body, or holds back too much of it";

const ENDED_EARLY: &str =
    "the picker ended the call after it had altered the body, or held back too much of it";

fn picker_failure(detail: &'static str) -> Failure {
    Failure::because(FailureKind::PickerFailed, detail)
}

/// The failure for a body that broke off before the client was sent the head.
fn before_head(error: &RelayError) -> Failure {
    match error {
        RelayError::SenderStalled => FailureKind::UpstreamTimeout.into(),
        _ => Failure::because(FailureKind::UpstreamGarbage, "body cut short"),
    }
}

/// The body of a response as the endpoint sends it.
struct EndpointBody<'b> {
    review: &'b Review<'b>,
    from: Side<'b>,
    buffer: &'b mut Buffer,
    decoder: &'b mut BodyDecoder,
    /// Whether the picker was sent all of it.
    is_complete: bool,
    failure: Option<RelayError>,
}

impl EndpointBody<'_> {
    /// Sends the body to the picker while the client receives what that returns.
    async fn pass(
        &mut self,
        returned: &mut ReturnedResponse<'_, '_, '_>,
        messages: CallMessages,
        shard: &Shard,
    ) -> Result<(), Failure> {
        let relay = returned.relay(self.from, ReadMode::Cancelable);
        // Nothing has been sent yet, so a malformed start of the body can still become a 502.
        let first = relay
            .first(self.buffer, self.decoder)
            .map_err(|error| Failure::because(FailureKind::UpstreamGarbage, error.reason()))?;
        let (review, from) = (self.review, self.from);
        let ended = {
            let sending = self.send(&relay, first);
            let receiving = returned.receive(messages, shard);
            first_until_second(pin!(sending), pin!(receiving), || {
                from.deadline.cancel_read();
                review.stop();
            })
            .await
        };
        match (ended, self.failure.take()) {
            (PickerEnd::Complete, _) => Ok(()),
            (PickerEnd::Broken(failure), _) => Err(failure),
            (_, Some(error)) if returned.is_begun() => Err(error.of_download()),
            (_, Some(error)) => Err(before_head(&error)),
            (ended, None) => {
                let rest = review.passage.borrow_mut().take_rest();
                settle(review, ended, rest.is_some(), returned.record(), shard)?;
                self.continue_without_picker(rest, returned, shard).await
            }
        }
    }

    /// Sends the body to the picker, until its end or until the picker is stopped.
    async fn send(&mut self, relay: &Relay<'_>, first: Decoded) {
        // One handle for all reads: a cancellation between two reads cancels the next one.
        let handle = self.from.deadline.read_handle();
        let mut piece = first;
        let mut since_turn = 0;
        loop {
            let payload = self.buffer.filled().get(piece.payload).unwrap_or_default();
            let trailers = self.decoder.trailers();
            let sent = self.review.send_piece(payload, piece.done, trailers);
            let listens = sent.await;
            self.buffer.consume(piece.consumed);
            self.is_complete = piece.done;
            if piece.done {
                self.from.stream.give_back();
            }
            if piece.done || !listens {
                return;
            }
            since_turn += piece.consumed;
            if since_turn >= BYTES_PER_POLL {
                since_turn = 0;
                self.from.deadline.yield_turn().await;
            }
            let next = relay.next_piece(self.buffer, self.decoder, Some(handle.clone()), (None, 0));
            match next.await {
                Ok(next) => piece = next,
                Err(RelayError::Canceled) => return,
                Err(error) => {
                    self.failure = Some(error);
                    self.review.stop();
                    return;
                }
            }
        }
    }

    /// Sends the response to the client without the picker: what it has not returned, and all that
    /// follows.
    async fn continue_without_picker(
        &mut self,
        rest: Option<Kept>,
        returned: &mut ReturnedResponse<'_, '_, '_>,
        shard: &Shard,
    ) -> Result<(), Failure> {
        returned.begin(BodySource::Endpoint);
        returned.write_rest(rest, self.is_complete, shard).await?;
        if self.is_complete {
            return Ok(());
        }
        let relay = returned.relay(self.from, ReadMode::UntilReceiverGone);
        let (out, moved) = returned.unsent();
        let (nothing, tap) = (Decoded::default(), &mut ());
        let relayed = relay.run(out, self.buffer, self.decoder, nothing, moved, tap);
        relayed.await.map_err(RelayError::of_download)?;
        self.is_complete = true;
        Ok(())
    }
}
