//! After a switch of protocols: bytes both ways, until both sides are done.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::downstream::connection::Next;
use crate::failure::Failure;
use crate::http::h1::body::{BodyDecoder, Decoded};
use crate::http::head::Framing;
use crate::net::Buffer;
use crate::relay::{Moved, Outward, Reads, Relay, Side, Tap};
use crate::request::{After, Exchange};
use crate::shard::deadline::{Deadline, Expiry};
use crate::upstream::pool::Connection;

/// Carries a tunnel to its end. `buffer` is what the endpoint has sent of it already.
pub(super) async fn run(
    exchange: &mut Exchange<'_>,
    connection: &Connection,
    buffer: &mut Buffer,
) -> Result<After, Failure> {
    let (client, shard) = (exchange.client, exchange.shard);
    let idle = exchange
        .record
        .rule
        .and_then(|rule| rule.limits.stream_idle_timeout);
    let deadlines = [client.stream.fd(), connection.stream.fd()].map(|fd| Deadline::new(shard, fd));
    let [client_writes, upstream_writes] = &deadlines;
    let side = |stream, deadline| Side {
        stream,
        deadline,
        idle,
        until: None,
    };
    let up = Direction {
        from: side(&client.stream, &client.deadline),
        to: side(&connection.stream, upstream_writes),
    };
    let down = Direction {
        from: side(&connection.stream, &connection.deadline),
        to: side(&client.stream, client_writes),
    };
    let (mut sent, mut received) = (Moved::default(), Moved::default());
    both(
        up.run(exchange.buffer, &mut sent, &down.from),
        down.run(buffer, &mut received, &up.from),
    )
    .await;
    exchange.record.bytes_in += sent.payload;
    exchange.record.bytes_out += received.payload;
    Ok(After::End(Next::Close))
}

/// Puts the other direction's deadline off whenever this one moves.
struct KeepsAlive<'a>(&'a Side<'a>);

impl Tap for KeepsAlive<'_> {
    fn payload(&mut self, _bytes: &[u8]) {
        self.0.arm(Expiry::StopReading);
    }
}

/// One direction of a tunnel.
struct Direction<'a> {
    from: Side<'a>,
    to: Side<'a>,
}

impl Direction<'_> {
    /// Moves bytes until their sender is done, then tells the receiver so. A direction that breaks
    /// takes the other one with it; one that moves keeps the other one, whose sender may have
    /// nothing to say.
    async fn run(&self, buffer: &mut Buffer, moved: &mut Moved, other: &Side<'_>) {
        let relay = Relay {
            from: self.from,
            to: self.to,
            outward: Outward::Plain,
            limit: None,
            min_rate: 0,
            reads: Reads::ToTheEnd,
        };
        let mut decoder = BodyDecoder::new(Framing::UntilClose);
        let waiting = Decoded {
            payload: 0..buffer.len(),
            consumed: buffer.len(),
            done: false,
        };
        let ended = relay
            .run(
                &mut Vec::new(),
                buffer,
                &mut decoder,
                waiting,
                moved,
                &mut KeepsAlive(other),
            )
            .await;
        if ended.is_ok() {
            self.to.stream.shutdown_write();
        } else {
            self.to.stream.disconnect();
            self.from.stream.disconnect();
        }
    }
}

async fn both(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut running = (true, true);
    poll_fn(|context| {
        running.0 = running.0 && first.as_mut().poll(context).is_pending();
        running.1 = running.1 && second.as_mut().poll(context).is_pending();
        if running == (false, false) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
