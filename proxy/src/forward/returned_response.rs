//! A response as its picker returns it, on its way to the client.

use crate::channel::Channel;
use crate::channel::relay::{OutgoingFraming, ReadMode, Relay, RelayError, Side, Transferred};
use crate::exchange::RequestRecord;
use crate::failure::{Failure, FailureKind};
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::http::h1::encode::{self, Persist};
use crate::http::head::Framing;
use crate::http::hop_by_hop::is_forbidden_trailer;
use crate::http::lines::pairs;
use crate::limits::{BUFFER_BYTES, CLIENT_CHECK_INTERVAL};
use crate::memory::Kept;
use crate::policy::mutation::{HeaderMutation, Mutation, TooManyEdits};
use crate::shard::Shard;
use crate::upstream::call::CallMessages;
use crate::upstream::picker::{BodySource, PickError, Review, Step};

use super::attempt::Attempt;
use super::download::ResponseSide;

/// How a picker's part in a response ended.
#[derive(Clone, Copy)]
pub(super) enum PickerEnd {
    /// The client has received everything.
    Complete,
    /// The picker has ended the call, or receives no more of the response.
    Done,
    Failed(PickError),
    /// It responds itself.
    Responds,
    /// The client failed, or the request took too long.
    Broken(Failure),
}

/// A response that a picker returns.
pub(super) struct ReturnedResponse<'r, 'e, 'x> {
    review: &'r Review<'r>,
    attempt: &'r Attempt<'r>,
    /// The head as the endpoint sent it.
    head: &'r [u8],
    side: &'r mut ResponseSide<'e, 'x>,
    /// Whether the client is being sent the response.
    is_begun: bool,
    outward: OutgoingFraming,
    moved: Transferred,
    /// The end of the body for the client, with its trailers.
    end: BodyDecoder,
}

impl<'r, 'e, 'x> ReturnedResponse<'r, 'e, 'x> {
    pub(super) fn new(
        review: &'r Review<'r>,
        attempt: &'r Attempt<'r>,
        head: &'r [u8],
        side: &'r mut ResponseSide<'e, 'x>,
    ) -> Self {
        Self {
            review,
            attempt,
            head,
            side,
            is_begun: false,
            outward: OutgoingFraming::Plain,
            moved: Transferred::default(),
            end: BodyDecoder::of_response(Framing::Empty),
        }
    }

    /// Takes the picker's edits of the head; it returns nothing else.
    pub(super) async fn take_head(&mut self, mut messages: CallMessages) -> PickerEnd {
        loop {
            let edits = match self.next(&mut messages).await {
                Ok(Step::Head(edits, _)) => edits,
                Ok(Step::Immediate(response)) => {
                    if let Some(picked) = self.side.picked.as_deref_mut() {
                        picked.set_immediate_response(&response);
                    }
                    return PickerEnd::Responds;
                }
                Ok(_) => continue,
                Err(end) => return end,
            };
            return match self.take_edits(edits) {
                Ok(()) => PickerEnd::Done,
                Err(error) => PickerEnd::Failed(error.into()),
            };
        }
    }

    /// Sends the client what the picker returns.
    pub(super) async fn receive(&mut self, mut messages: CallMessages, shard: &Shard) -> PickerEnd {
        loop {
            let step = match self.next(&mut messages).await {
                Ok(step) => step,
                Err(end) => return end,
            };
            if let Err(end) = self.take_step(step, shard).await {
                return end;
            }
        }
    }

    async fn take_step(&mut self, step: Step, shard: &Shard) -> Result<(), PickerEnd> {
        match step {
            Step::Nothing => Ok(()),
            Step::Head(edits, source) => {
                let taken = self.take_edits(edits);
                taken.map_err(|error| PickerEnd::Failed(error.into()))?;
                if source == BodySource::Endpoint {
                    return Err(PickerEnd::Done);
                }
                self.begin(source);
                self.write(b"", false, shard)
                    .await
                    .map_err(PickerEnd::Broken)
            }
            Step::Body { bytes, is_last } => {
                if !bytes.is_empty() || is_last {
                    let written = self.write(&bytes, is_last, shard).await;
                    written.map_err(PickerEnd::Broken)?;
                }
                if is_last {
                    Err(PickerEnd::Complete)
                } else {
                    Ok(())
                }
            }
            Step::Trailers(edits) => {
                let edited = self.edit_trailers(edits);
                edited.map_err(|error| PickerEnd::Failed(error.into()))?;
                let written = self.write(b"", true, shard).await;
                Err(written.map_or_else(PickerEnd::Broken, |()| PickerEnd::Complete))
            }
            Step::Immediate(response) => {
                // Too late to replace a response that has begun: it is cut short.
                if let Some(picked) = self.side.picked.as_deref_mut().filter(|_| !self.is_begun) {
                    picked.set_immediate_response(&response);
                }
                Err(PickerEnd::Responds)
            }
        }
    }

    /// Waits for the picker's next message while the client is watched.
    async fn next(&self, messages: &mut CallMessages) -> Result<Step, PickerEnd> {
        let client = self.side.client.deadline;
        client.watch(self.review.cutoff(), CLIENT_CHECK_INTERVAL);
        let step = self.review.next(messages).await;
        client.disarm();
        if client.expired() {
            return Err(PickerEnd::Broken(FailureKind::ClientGone.into()));
        }
        match step {
            Ok(Some(step)) => Ok(step),
            Ok(None) => Err(PickerEnd::Done),
            Err(_) if self.review.is_over() => Err(PickerEnd::Broken(self.timeout().into())),
            Err(error) => Err(PickerEnd::Failed(error)),
        }
    }

    fn timeout(&self) -> FailureKind {
        if self.is_begun {
            FailureKind::ResponseTimeout
        } else {
            FailureKind::RequestTimeout
        }
    }

    fn take_edits(&mut self, edits: Option<HeaderMutation>) -> Result<(), TooManyEdits> {
        let mut mutation = Mutation::default();
        let fields = &self.side.response.fields;
        if let Some(edits) = edits {
            mutation.take(&edits, |name| fields.has_name(name, self.head))?;
        }
        self.side.changed = mutation;
        Ok(())
    }

    fn edit_trailers(&mut self, edits: Option<HeaderMutation>) -> Result<(), TooManyEdits> {
        let Some(edits) = edits else { return Ok(()) };
        let passage = &mut *self.review.passage.borrow_mut();
        let mut lines = passage.trailers().to_vec();
        let mut mutation = Mutation::default();
        mutation.take(&edits, |name| {
            pairs(&lines).any(|(it, _)| it.eq_ignore_ascii_case(name))
        })?;
        mutation.edit(&mut lines);
        let mut allowed = Vec::with_capacity(lines.len());
        for (name, value) in pairs(&lines).filter(|(name, _)| !is_forbidden_trailer(name)) {
            encode::field(&mut allowed, name, value);
        }
        passage.note_end(&allowed);
        Ok(())
    }

    pub(super) fn record(&self) -> &RequestRecord<'_> {
        self.side.record
    }

    /// Whether the client is being sent the response.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Prepares the head for the client, unless that was done. The length of a body that the picker
    /// returns is unknown.
    pub(super) fn begin(&mut self, source: BodySource) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        let side = &mut *self.side;
        if source == BodySource::Picker {
            side.response.framing = Framing::Chunked;
            side.response.content_length = None;
        }
        let framing = side.response.framing.reframed_for(side.version);
        if framing == Framing::UntilClose {
            side.persist = Persist::Close;
        }
        self.outward = OutgoingFraming::of(framing);
        self.attempt.encode_head(self.head, side, |_| false);
        side.record.status = side.response.status;
        side.record.answered = true;
    }

    /// Sends bytes of the body, after the head.
    pub(super) async fn write(
        &mut self,
        bytes: &[u8],
        is_last: bool,
        shard: &Shard,
    ) -> Result<(), Failure> {
        let mut buffer = shard.buffers.holding(bytes);
        let piece = Decoded {
            payload: 0..bytes.len(),
            consumed: bytes.len(),
            done: is_last,
        };
        if is_last {
            let passage = self.review.passage.borrow();
            self.end.take_trailers(passage.trailers());
        }
        let relay = self.relay(self.side.client, ReadMode::Uncancelable);
        let (out, moved) = (&mut *self.side.out, &mut self.moved);
        let sent = relay.send(out, &mut buffer, &self.end, piece, moved);
        let (_, sent) = sent.await;
        sent.map_err(RelayError::of_download)
    }

    /// Sends bytes that the picker has not returned, in pieces, so that no other copy of them is as
    /// long; their memory is freed meanwhile.
    pub(super) async fn write_rest(
        &mut self,
        rest: Option<Kept>,
        is_complete: bool,
        shard: &Shard,
    ) -> Result<(), Failure> {
        if let Some(mut rest) = rest {
            while rest.len() > BUFFER_BYTES {
                let piece = rest.get(..BUFFER_BYTES).unwrap_or_default();
                self.write(piece, false, shard).await?;
                rest.consume(BUFFER_BYTES);
            }
            return self.write(&rest, is_complete, shard).await;
        }
        self.write(b"", is_complete, shard).await
    }

    /// A relay of the body to the client.
    pub(super) fn relay<'s>(&self, from: Side<'s>, read_mode: ReadMode) -> Relay<'s>
    where
        'e: 's,
    {
        Relay {
            from,
            to: self.side.client,
            outward: self.outward,
            limit: None,
            min_rate: 0,
            read_mode,
            pipes: None,
        }
    }

    /// What has not been sent of the head, and the amount that was sent of the body.
    pub(super) fn unsent(&mut self) -> (&mut Vec<u8>, &mut Transferred) {
        (self.side.out, &mut self.moved)
    }

    /// Records how the body ended.
    pub(super) fn record_end(self, decoder: BodyDecoder, is_whole: bool, upstream: &Channel) {
        self.side.record.bytes_out = self.moved.payload;
        *self.side.decoder = decoder;
        if !self.end.trailers().is_empty() {
            self.side.decoder.take_trailers(self.end.trailers());
        }
        self.side.record_end(is_whole, upstream);
    }
}
