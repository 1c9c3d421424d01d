//! The call to an endpoint picker for one request: head and body are sent, a verdict comes
//! back.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use xds::model::PickerFailureMode;

use crate::config::{Cluster, Picker};
use crate::exchange::{Client, Destination, Exchange, Matched};
use crate::failure::{Failure, FailureKind};
use crate::http::engine::encode::Switch;
use crate::http::lines::pairs;
use crate::limits::{PICKER_BODY_BYTES, PICKER_TIMEOUT};
use crate::memory::Kept;
use crate::observe::picks::PickResult;
use crate::request::body::Body;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::shard::tasks::TaskState;
use crate::shard::wheel::Tick;
use crate::upstream::call::{Call, CallError, CallMessages, More};
use crate::upstream::picker::{
    PROCESS, Pick, PickError, PickOutcome, PickerHead, ProcessingRequest, ProcessingResponse,
    TooLarge, Verdict, conclude, request_body, request_head,
};

/// Calls the picker of the selected pool with the prepared request.
///
/// # Errors
///
/// The client failed, or the picker failed and the pool's failure mode is `FailClose`.
pub(super) async fn call_picker<'a>(
    exchange: &mut Exchange<'a>,
    matched: &Matched<'a>,
    destination: Destination<'a>,
    picker: &'a Picker,
) -> Result<PickOutcome<'a>, Failure> {
    let begun = Instant::now();
    let over = &destination.cluster.protection;
    let mut head = PickerHead::default();
    exchange.make_head(destination, over, Switch::Ignored, &mut head);
    // An authorization server may have read the body before.
    let authorized_body = exchange
        .server_decision
        .as_mut()
        .and_then(|server_decision| server_decision.body.take());
    let has_body = authorized_body.is_some() || !exchange.work.request_body.is_done();
    let timeout = matched.rule.request_timeout();
    let timeout = timeout.map_or(PICKER_TIMEOUT, |it| it.min(PICKER_TIMEOUT));
    let query = PickerQuery {
        head: request_head(head, has_body),
        has_body,
        timeout,
        until: Cell::new(exchange.shard.now().after(timeout)),
        mode: picker.failure_mode,
    };
    exchange.shard.set_task_state(TaskState::Picking);
    let (body, result) = query
        .ask(exchange, matched, &picker.cluster, authorized_body)
        .await?;
    let took = begun.elapsed();
    exchange.shard.counters.picks.took.observe(took);
    let picked = result.and_then(|(verdict, call)| {
        conclude(
            (destination.cluster, picker.failure_mode),
            verdict,
            call,
            (&exchange.shard.buffers, body.as_deref()),
        )
    });
    exchange.settle(picker, picked, body.as_deref(), took)
}

/// The parameters of a picker call.
struct PickerQuery {
    head: ProcessingRequest,
    has_body: bool,
    /// Timeout for the picker's verdict, not counting waits for the client.
    timeout: Duration,
    /// When the picker is late, in all attempts together.
    until: Cell<Tick>,
    mode: PickerFailureMode,
}

/// What a picker said about a request, and its call.
type Answer<'a> = Result<(Verdict, (Call<'a>, CallMessages)), PickError>;

impl PickerQuery {
    /// Starts the timeout again, after the client was waited for.
    fn restart_timeout(&self, shard: &Shard) {
        self.until.set(shard.now().after(self.timeout));
    }

    /// How long the picker may still take.
    fn left(&self, shard: &Shard) -> Duration {
        self.until.get().since(shard.now())
    }

    /// Calls the picker; once more, if no picker has processed the call. Returns the request's body,
    /// as far as it was read.
    async fn ask<'a>(
        self,
        exchange: &mut Exchange<'a>,
        matched: &Matched<'a>,
        pickers: &'a Cluster,
        mut body: Option<Kept>,
    ) -> Result<(Option<Kept>, Answer<'a>), Failure> {
        let upstreams = &exchange.proxy.upstreams;
        let client: &'a Client = exchange.client;
        let mut refused_by = None;
        loop {
            let (to, client) = ((pickers, refused_by), Some(&client.deadline));
            let left = self.left(exchange.shard);
            let opened = Call::open(upstreams, to, PROCESS, left, client).await;
            let (call, messages) = match opened {
                Ok(opened) => opened,
                Err(error) => return Ok((body, Err(error.into()))),
            };
            if self.has_body && body.is_none() && exchange.buffer.is_empty() {
                exchange.send_continue().await?;
                self.restart_timeout(exchange.shard);
            }
            let (read, verdict) = self.put(exchange, matched, body, &call, messages).await?;
            body = self.has_body.then_some(read);
            match verdict {
                Err(PickError::Call(CallError::Unprocessed)) => {
                    refused_by = Some(call.endpoint().id);
                }
                verdict => {
                    let answer = verdict.map(|(verdict, messages)| (verdict, (call, messages)));
                    return Ok((body, answer));
                }
            }
        }
    }

    /// Sends the request to the picker while waiting for its verdict. The body is read to its end
    /// whatever the picker does, unless it is no longer needed.
    async fn put<'a>(
        &self,
        exchange: &mut Exchange<'a>,
        matched: &Matched<'_>,
        known_body: Option<Kept>,
        call: &Call<'_>,
        mut messages: CallMessages,
    ) -> Result<(Kept, Result<(Verdict, CallMessages), PickError>), Failure> {
        let client: &'a Client = exchange.client;
        let (received, buffers) = (exchange.received, &exchange.shard.buffers);
        let reading = Deadline::new(exchange.shard, client.stream.cutoff());
        let limits = &matched.rule.limits;
        let mut body = Body::of(
            exchange.shard,
            client,
            limits,
            PICKER_BODY_BYTES as u64,
            &reading,
        );
        if let Some(known_body) = known_body {
            body = body.received(known_body);
        }
        let lines = exchange.work.request_lines.clone();
        let has = |name: &[u8]| {
            received.value(name).is_some()
                || pairs(&lines).any(|(it, _)| it.eq_ignore_ascii_case(name))
        };
        let (sent, result) = {
            let sending = send_request(exchange, self, call, &mut body);
            let answering = async {
                let mut verdict = Verdict::new(buffers);
                while !verdict.is_complete(self.has_body) {
                    let message = messages.next::<ProcessingResponse>(call).await?;
                    let message = message.ok_or(PickError::Ended)?;
                    let taken = verdict.take(message, has);
                    taken.map_err(|error| match error {
                        TooLarge::Body => PickError::BodyTooLarge,
                        TooLarge::Head(error) => PickError::Edits(error),
                    })?;
                }
                Ok(verdict)
            };
            let is_done_with = |result: &Result<Verdict, PickError>| match result {
                Ok(verdict) => verdict.immediate.is_some(),
                // The next call needs the whole body.
                Err(PickError::Call(CallError::Unprocessed)) => false,
                Err(_) => self.mode == PickerFailureMode::FailClose,
            };
            let stop = || reading.cancel_read();
            join_unless_done(pin!(sending), pin!(answering), is_done_with, stop).await
        };
        // The pod may take as long as the rule allows.
        call.wait_at_most(None);
        client.deadline.disarm();
        if client.deadline.expired() {
            return Err(FailureKind::ClientGone.into());
        }
        sent?;
        exchange.record.bytes_in = body.all.len() as u64;
        // Without a verdict, sending has failed.
        let result = result.unwrap_or(Err(PickError::Ended));
        Ok((body.all, result.map(|verdict| (verdict, messages))))
    }
}

/// Sends a request's head and body to a picker, and then watches the client for a disconnect.
async fn send_request(
    exchange: &mut Exchange<'_>,
    query: &PickerQuery,
    call: &Call<'_>,
    body: &mut Body<'_>,
) -> Result<(), Failure> {
    call.wait_at_most(Some(query.left(exchange.shard)));
    let mut listens = call.send(&query.head, More::Follow).await.is_ok();
    while query.has_body && !body.done {
        // The client has its own timeouts.
        call.wait_at_most(None);
        let piece = body.next(exchange).await?;
        if !body.was_read_before() {
            query.restart_timeout(exchange.shard);
        }
        call.wait_at_most(Some(query.left(exchange.shard)));
        if listens {
            let bytes = body.all.get(piece).unwrap_or_default();
            let message = request_body(bytes, body.done);
            listens = call.send(&message, More::Follow).await.is_ok();
        }
    }
    call.watch_client();
    Ok(())
}

/// Runs both futures to completion. A failure of the first ends the second; if the second result
/// satisfies `is_done_with`, `stop` cancels the first. It is never dropped early: the kernel may
/// still own its buffer.
async fn join_unless_done<T>(
    mut first: Pin<&mut impl Future<Output = Result<(), Failure>>>,
    mut second: Pin<&mut impl Future<Output = T>>,
    is_done_with: impl Fn(&T) -> bool,
    stop: impl FnOnce(),
) -> (Result<(), Failure>, Option<T>) {
    let mut sent = None;
    let result = poll_fn(|context| {
        if sent.is_none()
            && let Poll::Ready(result) = first.as_mut().poll(context)
        {
            let has_failed = result.is_err();
            sent = Some(result);
            if has_failed {
                return Poll::Ready(None);
            }
        }
        second.as_mut().poll(context).map(Some)
    })
    .await;
    let sent = match (sent, &result) {
        (Some(sent), _) => sent,
        (None, Some(result)) if is_done_with(result) => {
            stop();
            // Being cancelled is not a failure.
            let _ = first.await;
            Ok(())
        }
        (None, _) => first.await,
    };
    (sent, result)
}

impl<'a> Exchange<'a> {
    /// Handles the result of a picker call: counters, traces, and the pool's failure mode.
    fn settle(
        &mut self,
        picker: &Picker,
        outcome: Result<PickOutcome<'a>, PickError>,
        body: Option<&[u8]>,
        took: Duration,
    ) -> Result<PickOutcome<'a>, Failure> {
        let result = match (&outcome, picker.failure_mode) {
            (Ok(PickOutcome::Picked(_)), _) => PickResult::Picked,
            (Ok(PickOutcome::Immediate(_)), _) => PickResult::Answered,
            (Err(_), PickerFailureMode::FailOpen) => PickResult::FailedOpen,
            (Err(_), PickerFailureMode::FailClose) => PickResult::FailedClosed,
        };
        self.shard.counters.picks.results.count(result);
        if let Some(trace) = &self.record.trace {
            let endpoints = match &outcome {
                Ok(PickOutcome::Picked(picked)) => picked.endpoints(),
                Ok(PickOutcome::Immediate(_)) | Err(_) => &[],
            };
            let error = outcome.as_ref().err().map(ToString::to_string);
            trace.picked(picker, endpoints, (result, error), took);
        }
        match outcome {
            Ok(PickOutcome::Picked(mut picked)) => {
                // The backend trusts these as what the token says, whoever picks its pods.
                if let Some(principal) = &self.principal {
                    picked.revoke(|name| principal.claims_header(name));
                }
                picked.edit(&mut self.work.request_lines);
                Ok(PickOutcome::Picked(picked))
            }
            Ok(immediate) => Ok(immediate),
            Err(error) => {
                let name = &picker.cluster.name;
                tracing::debug!(picker = %name, %error, ?result, "an endpoint picker failed");
                match picker.failure_mode {
                    PickerFailureMode::FailOpen => {
                        let body = body.map(|body| self.shard.buffers.holding(body));
                        Ok(PickOutcome::Picked(Pick::any(body)))
                    }
                    PickerFailureMode::FailClose => {
                        Err(Failure::because(FailureKind::PickerFailed, error.detail()))
                    }
                }
            }
        }
    }
}
