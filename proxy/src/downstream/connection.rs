//! The life of one client connection.
//!
//! Between requests a connection is parked: it holds no buffer and waits for the socket to become
//! readable. The state of a busy connection is in a box that exists while it is busy, so an idle
//! one costs a few hundred bytes.

use std::net::SocketAddr;
use std::rc::Rc;

use crate::channel::Channel;
use crate::exchange::{Client, NextStep};
use crate::limits::{
    LINGER_TIMEOUT, ORPHAN_GRACE, REST_OF_REQUEST_BYTES_PER_TURN, REST_OF_REQUEST_IDLE_TIMEOUT,
    REST_OF_REQUEST_TIMEOUT,
};
use crate::net::{self, Stream};
use crate::observe::counters::GaugeGuard;
use crate::shard::Shard;
use crate::shard::deadline::Expiry;
use crate::shard::registry::ClientState;
use crate::shard::tasks::TaskState;

use super::{Downstream, h1, h2, open};

/// Serves a connection until it ends. It is counted immediately: the last connections of a burst
/// have to meet the limit before the first ones are served.
pub(crate) fn serve(
    downstream: Rc<Downstream>,
    stream: Stream,
    address: SocketAddr,
    bind: u32,
) -> impl Future<Output = ()> {
    // Built outside of the future, which would otherwise reserve space for the arguments as well.
    let mut client = Client::accepted(&downstream.proxy.shard, stream, address, bind);
    let is_accepted = client.awaits_address() || client.is_within_limit(&downstream.proxy);
    async move {
        if !is_accepted {
            return;
        }
        let mut next = NextStep::Park;
        if client.has_opening() {
            match Box::pin(open::open(&downstream.proxy, &mut client)).await {
                Ok(early) => client.early = Some(Box::new(early)),
                Err(ended) => next = ended,
            }
        }
        while next == NextStep::Park {
            client.set(ClientState::Busy);
            next = Box::pin(h1::serve(&downstream.proxy, &mut client)).await;
            if next == NextStep::UpgradeToHttp2 {
                let early = client.early.take().map(|early| *early).unwrap_or_default();
                Box::pin(h2::serve(&downstream, &mut client, early)).await;
            }
            if next == NextStep::Park && !park(&downstream.proxy.shard, &mut client).await {
                next = NextStep::Close;
            }
        }
        client.count_fault(&downstream.proxy.shard);
        Box::pin(end(&downstream.proxy.shard, &client, next)).await;
    }
}

/// Waits for the next request; `false` if the connection ended.
async fn park(shard: &Shard, client: &mut Client) -> bool {
    if shard.draining.get() {
        return client.has_last_request(shard);
    }
    let snapshot = shard.config.load();
    let timeout = match snapshot.bind(client.bind) {
        Some(bind) => shard.keep_alive(bind.limits.keep_alive_timeout),
        // A request to a removed listener still gets a response.
        None => Some(ORPHAN_GRACE),
    };
    drop(snapshot);
    client.set(ClientState::Idle);
    shard.set_task_state(TaskState::Idle);
    shard.record_parked();
    // A TLS close can still be sent afterwards.
    client.deadline.arm(timeout, Expiry::StopReading);
    let readable = client.stream.readable().await;
    readable.is_ok() && (!client.deadline.expired() || client.has_last_request(shard))
}

async fn end(shard: &Shard, client: &Client, next: NextStep) {
    match next {
        NextStep::Close | NextStep::Park => close(shard, client).await,
        // HTTP/2 has sent GOAWAY already.
        NextStep::UpgradeToHttp2 => {}
        NextStep::Linger => linger(shard, client).await,
        NextStep::Reset => client.stream.reset_on_close(),
    }
}

/// Closes a connection in order; over TLS with an alert (RFC 8446 section 6.1).
async fn close(shard: &Shard, client: &Client) {
    if client.tls.is_none() {
        return;
    }
    let snapshot = shard.config.load();
    let timeout = snapshot
        .bind(client.bind)
        .and_then(|bind| bind.limits.write_idle_timeout);
    drop(snapshot);
    client
        .deadline
        .arm(Some(timeout.unwrap_or(LINGER_TIMEOUT)), Expiry::Disconnect);
    client.stream.shutdown_write().await;
}

/// Lets a final response arrive: closing with unread bytes would reset the connection, and the
/// reset could overtake the response (RFC 9112 section 9.6). So the rest of the request is received and
/// dropped, in limits: one connection may not stay forever, nor may too many, and while the shard drains or
/// is under pressure it ends them after [`LINGER_TIMEOUT`].
async fn linger(shard: &Shard, client: &Client) {
    let Channel::Socket(socket) = &client.stream else {
        return;
    };
    let (now, room) = (shard.now(), shard.room());
    let _place = shard.lingering.enter(socket.fd(), room, now);
    let _counted = GaugeGuard::new(&shard.counters.lingering);
    let until = shard.now().after(REST_OF_REQUEST_TIMEOUT);
    client
        .deadline
        .arm(Some(REST_OF_REQUEST_IDLE_TIMEOUT), Expiry::Disconnect);
    socket.shutdown_write().await;
    loop {
        let left = until.since(shard.now()).min(REST_OF_REQUEST_IDLE_TIMEOUT);
        client.deadline.arm(Some(left), Expiry::Disconnect);
        if socket.readable().await.is_err() || client.deadline.expired() {
            return;
        }
        match net::drop_available(socket.fd(), REST_OF_REQUEST_BYTES_PER_TURN) {
            Ok(Some(0)) | Err(_) => return,
            Ok(_) => shard.turns.yield_turn().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{h1, serve};
    use crate::exchange::{Client, Proxy};

    fn of_idle<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    fn of_busy<'a, F>(_: impl Fn(&'a Rc<Proxy>, &'a mut Client) -> F) -> usize {
        size_of::<F>()
    }

    /// An idle connection is a task of this future; with what the runtime adds, it fits into an
    /// allocation of 512 bytes.
    #[test]
    fn the_future_of_an_idle_connection_is_small() {
        assert!(of_idle(serve) <= 448, "{} bytes", of_idle(serve));
    }

    /// Boxed while requests arrive, and freed in the pause after them.
    #[test]
    fn the_future_of_a_request_is_bounded() {
        assert!(
            of_busy(h1::serve) <= 8 * 1024,
            "{} bytes",
            of_busy(h1::serve)
        );
    }
}
