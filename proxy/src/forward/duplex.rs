//! A request whose body is still coming, and its response, which may begin before the body ends.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};

use crate::channel::relay::{Reads, Relay, RelayError, Side};
use crate::exchange::Exchange;
use crate::failure::{Failure, FailureKind};
use crate::limits::WHEEL_TICK;
use crate::shard::deadline::{Deadline, Expiry};
use crate::upstream::pool::Connection;
use crate::upstream::retry::Replay;

use super::attempt::{Attempt, Ended};
use super::download::{Download, Responded};
use super::upload::Upload;

/// Moves both bodies at once, in this one task.
pub(super) async fn run(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange<'_>,
    upload: &mut Upload,
) -> Result<Responded, Ended> {
    let (attempt, connection) = (download.attempt, download.connection);
    let (client, shard) = (exchange.client, exchange.shard);
    let (idle, min_rate) = attempt.upload_pace();
    // Each socket is read and written at once, and each waits for its own peer.
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
        reads: Reads::Cancelable,
        pipes: None,
    };
    if upload.is_waited_for() {
        exchange.tell_to_go_on().await.map_err(Ended::Final)?;
    }
    let (mut request, mut response) = exchange.sides(attempt);
    let uploaded = Uploaded::begin(upload.replay());
    let result = {
        let sending = async {
            let sent = upload
                .send_as_it_comes(&relay, &mut request, &uploaded.replay)
                .await;
            uploaded.note(sent, attempt, connection, &client.deadline);
        };
        let receiving = async {
            // The route's patience holds from the start, the default one from the last byte sent.
            connection
                .deadline
                .arm(attempt.time_left(), Expiry::Disconnect);
            let head = download.head(&mut response, shard).await;
            uploaded.answered.set(true);
            client.deadline.disarm();
            if client.deadline.expired() {
                return Err(Ended::Final(FailureKind::ClientGone.into()));
            }
            let length = head?;
            if download.is_dropped(&mut response, uploaded.replay.get()) {
                return Err(Ended::Retry);
            }
            let done = || uploaded.done.get();
            download
                .respond(length, &mut response, shard, done)
                .await
                .map_err(Ended::Final)
        };
        first_until_second(pin!(sending), pin!(receiving), || {
            reading.cancel_read();
            connection.stream.disconnect();
        })
        .await
    };
    exchange.record.bytes_in = upload.moved.payload;
    uploaded.conclude(result)
}

/// What came of the request's body.
struct Uploaded {
    done: Cell<bool>,
    failure: Cell<Option<Failure>>,
    /// Whether all of it that was sent is kept.
    replay: Cell<Replay>,
    /// Whether the response's head has come.
    answered: Cell<bool>,
}

impl Uploaded {
    fn begin(replay: Replay) -> Self {
        Self {
            done: Cell::new(false),
            failure: Cell::new(None),
            replay: Cell::new(replay),
            answered: Cell::new(false),
        }
    }

    /// What a request and its response came to together.
    fn conclude(&self, result: Result<Responded, Ended>) -> Result<Responded, Ended> {
        match (result, self.failure.take()) {
            // Whoever has the whole response does not mind what became of the request.
            (Ok(responded), _) => Ok(responded),
            (Err(_), Some(failure)) => Err(Ended::Final(failure)),
            // It is not the endpoint's fault that the client took so long.
            (Err(Ended::Failed(failure)), None)
                if failure.kind == FailureKind::UpstreamTimeout && !self.done.get() =>
            {
                Err(Ended::Final(FailureKind::RequestTimeout.into()))
            }
            (result, None) => result,
        }
    }

    /// Starts the time for the response's head, unless that has come.
    fn await_answer(&self, attempt: &Attempt<'_>, connection: &Connection, client: &Deadline) {
        if self.answered.get() {
            return;
        }
        let patience = attempt.head_timeout();
        connection.deadline.arm(patience, Expiry::Disconnect);
        // Nothing more is read from the client, so its leaving has to be looked for.
        let watch = Expiry::Watch {
            other: connection.stream.cutoff(),
            again: WHEEL_TICK,
        };
        client.arm(Some(WHEEL_TICK), watch);
    }

    /// Takes note of how the body ended. If it is all sent, a response is due.
    fn note(
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
            // The endpoint may have answered before it stopped reading, or still do so.
            Err(RelayError::ReceiverGone) => self.await_answer(attempt, connection, client),
            Err(RelayError::Canceled) => {}
            Err(error) => {
                self.failure.set(Some(error.of_upload()));
                connection.stream.disconnect();
            }
        }
    }
}

/// Runs both to their ends; where the second one ends first, `stop` sees to it that the first one
/// does too. Neither is dropped before: the kernel has their buffers.
async fn first_until_second<T>(
    mut first: Pin<&mut impl Future<Output = ()>>,
    mut second: Pin<&mut impl Future<Output = T>>,
    stop: impl FnOnce(),
) -> T {
    let mut sending = true;
    let result = poll_fn(|context| {
        if sending && first.as_mut().poll(context).is_ready() {
            sending = false;
        }
        second.as_mut().poll(context)
    })
    .await;
    if sending {
        stop();
        first.await;
    }
    result
}
