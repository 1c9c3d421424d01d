//! A request whose body is still being received, or waits for room at its endpoint, and its response,
//! which may begin before the body ends.

use std::cell::Cell;
use std::pin::pin;

use crate::channel::relay::{ReadMode, Relay, RelayError, Side};
use crate::exchange::Exchange;
use crate::failure::{Failure, FailureKind};
use crate::limits::WHEEL_TICK;
use crate::shard::deadline::{Deadline, Expiry};
use crate::upstream::both_ways::first_until_second;
use crate::upstream::pool::Connection;

use super::attempt::{Attempt, AttemptEnd};
use super::download::{Download, ResponseEnd};
use super::upload::{ReplayState, Upload};

/// Transfers both bodies concurrently, in one task.
pub(super) async fn run(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange<'_>,
    upload: &mut Upload,
) -> Result<ResponseEnd, AttemptEnd> {
    let (attempt, connection) = (download.attempt, download.connection);
    let (client, shard) = (exchange.client, exchange.shard);
    let (idle, min_rate) = attempt.upload_pace();
    // Each socket is read and written concurrently, with separate timeouts.
    let reading = Deadline::new(shard, client.stream.cutoff());
    let writing = Deadline::new(shard, connection.stream.cutoff());
    let relay = Relay {
        from: Side {
            idle,
            ..Side::of(&client.stream, &reading)
        },
        to: attempt.upload_side(connection, &writing),
        outward: upload.outward,
        limit: attempt.body_limit(),
        min_rate,
        read_mode: ReadMode::Cancelable,
        pipes: None,
    };
    if upload.is_waited_for() {
        exchange.send_continue().await.map_err(AttemptEnd::Final)?;
    }
    // Then the client's connection can be kept, whatever the endpoint takes of the body. Its own is of
    // HTTP/2, whose streams are not used again.
    let is_received = upload.whole;
    let (mut request, mut response) = exchange.sides(attempt);
    let uploaded = UploadResult::begin(upload.begin_attempt());
    let result = {
        let sending = async {
            let sent = upload.send(&relay, &mut request, &uploaded.replays).await;
            uploaded.record_end(sent, attempt, connection, &client.deadline);
        };
        let receiving = async {
            // The route's timeout runs from the start, the default one from the last byte sent.
            download.set_timeout(attempt.time_left());
            download.read_early().await;
            let head = download.head(&mut response, shard).await;
            uploaded.has_response.set(true);
            client.deadline.disarm();
            if client.deadline.expired() {
                return Err(AttemptEnd::Final(FailureKind::ClientGone.into()));
            }
            let length = head?;
            let replays = &uploaded.replays;
            download.report_result(&mut response, replays.replay())?;
            replays.settle();
            let done = || is_received || uploaded.done.get();
            download
                .respond(length, &mut response, shard, done)
                .await
                .map_err(AttemptEnd::Final)
        };
        first_until_second(pin!(sending), pin!(receiving), || {
            reading.cancel_read();
            connection.stream.disconnect();
        })
        .await
    };
    exchange.record.bytes_in = upload.moved.payload;
    let result = uploaded.conclude(result);
    upload.end_attempt(uploaded.replays);
    result
}

/// The result of the request body.
struct UploadResult {
    done: Cell<bool>,
    failure: Cell<Option<Failure>>,
    /// The copy of what was sent so far.
    replays: ReplayState,
    /// Whether the response head has arrived.
    has_response: Cell<bool>,
}

impl UploadResult {
    fn begin(replays: ReplayState) -> Self {
        Self {
            done: Cell::new(false),
            failure: Cell::new(None),
            replays,
            has_response: Cell::new(false),
        }
    }

    /// Combines the results of request and response.
    fn conclude(&self, result: Result<ResponseEnd, AttemptEnd>) -> Result<ResponseEnd, AttemptEnd> {
        match (result, self.failure.take()) {
            // With a complete response, the request's result is irrelevant.
            (Ok(responded), _) => Ok(responded),
            // The endpoint took nothing; another one may.
            (Err(AttemptEnd::Failed(_)), Some(failure))
                if failure.kind == FailureKind::UpstreamTimeout =>
            {
                Err(AttemptEnd::Failed(failure))
            }
            (Err(_), Some(failure)) => Err(AttemptEnd::Final(failure)),
            // It is not the endpoint's fault that the client was slow.
            (Err(AttemptEnd::Failed(failure)), None)
                if failure.kind == FailureKind::UpstreamTimeout && !self.done.get() =>
            {
                Err(AttemptEnd::Final(FailureKind::RequestTimeout.into()))
            }
            (result, None) => result,
        }
    }

    /// Starts the timeout of the response head, unless it has arrived.
    fn await_answer(&self, attempt: &Attempt<'_>, connection: &Connection, client: &Deadline) {
        if self.has_response.get() {
            return;
        }
        let timeout = attempt.head_timeout();
        connection.deadline.arm(timeout, Expiry::Disconnect);
        // The client is not read any more, so watch for its disconnect.
        client.watch(connection.stream.cutoff(), WHEEL_TICK);
    }

    /// Records how the body ended. Once it is sent, a response is due.
    fn record_end(
        &self,
        sent: Result<(), RelayError>,
        attempt: &Attempt<'_>,
        connection: &Connection,
        client: &Deadline,
    ) {
        match sent {
            Ok(()) => {
                self.done.set(true);
                self.await_answer(attempt, connection, client);
            }
            // The endpoint may have responded before it stopped reading, or may still do so.
            Err(RelayError::ReceiverGone) => self.await_answer(attempt, connection, client),
            Err(RelayError::Canceled) => {}
            Err(error) => {
                self.failure.set(Some(error.of_upload()));
                connection.stream.disconnect();
            }
        }
    }
}
