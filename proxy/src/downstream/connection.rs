//! The life of one client connection.
//!
//! Between requests a connection is parked: it holds no buffer and waits for the socket to become
//! readable. What a busy connection needs lives in a box that exists while it is busy, so an idle
//! one costs a few hundred bytes.

use std::net::SocketAddr;
use std::rc::Rc;

use rand::RngExt;
use xds::model::Scheme;

use crate::limits::{CONNECTION_AGE_JITTER_PERCENT, LINGER_BYTES, LINGER_TIMEOUT};
use crate::net::{Liveness, Stream};
use crate::policy::forwarded::Hop;
use crate::policy::proxy_protocol::Expectation;
use crate::request::After;
use crate::shard::Shard;
use crate::shard::deadline::{Deadline, Expiry};
use crate::shard::registry::{ClientState, Registered};
use crate::shard::wheel::Tick;

use super::h1;

/// A client's connection.
pub(crate) struct Client {
    /// Its socket.
    pub(crate) stream: Stream,
    /// Deadline of whatever the connection waits for.
    pub(crate) deadline: Deadline,
    /// Where it comes from: the peer, or whom its PROXY protocol header names.
    pub(crate) hop: Hop,
    /// What has to come before its first request.
    pub(super) expects: Expectation,
    /// The bind that accepted it.
    pub(crate) bind: u32,
    /// Requests begun.
    pub(crate) requests: u64,
    /// When it has to end, so that load spreads again now and then.
    retires_at: Option<Tick>,
    registered: Registered,
}

/// What becomes of a connection after it was busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing has come for a while: park it.
    Park,
    /// Close it; everything that was sent has a reader.
    Close,
    /// An answer is on its way to a client that may still be sending: see that it arrives.
    Linger,
    /// Reset it, so that nobody takes what was sent for whole.
    Reset,
}

impl Client {
    fn accepted(shard: &Rc<Shard>, stream: Stream, address: SocketAddr, bind: u32) -> Self {
        let snapshot = shard.config.load();
        let expects = snapshot.bind(bind).map_or(Expectation::Nothing, |bind| {
            bind.proxy_protocol.expectation(address.ip())
        });
        Self {
            deadline: Deadline::new(shard, stream.fd()),
            registered: Registered::new(shard, stream.fd(), bind),
            stream,
            hop: Hop::new(address.ip(), Scheme::Http),
            expects,
            bind,
            requests: 0,
            retires_at: retirement(shard, bind),
        }
    }

    /// Whether it has reached its age.
    pub(crate) fn is_old(&self, now: Tick) -> bool {
        self.retires_at.is_some_and(|retires_at| now >= retires_at)
    }
}

impl After {
    /// The connection ends, when the client has what was sent.
    pub(crate) fn close(stream: &Stream) -> Self {
        match stream.liveness() {
            Liveness::Quiet => Self::End(Next::Close),
            Liveness::Readable | Liveness::Gone => Self::End(Next::Linger),
        }
    }
}

/// Serves a connection until it ends. It counts from now on: of a burst that is accepted at one go,
/// the last ones have to meet the limit before the first ones were served.
pub(crate) fn serve(
    shard: Rc<Shard>,
    stream: Stream,
    address: SocketAddr,
    bind: u32,
) -> impl Future<Output = ()> {
    // Made outside of the future, which would have room for the arguments and for this.
    let mut client = Client::accepted(&shard, stream, address, bind);
    async move {
        loop {
            client.registered.set(ClientState::Busy);
            match Box::pin(h1::serve(&shard, &mut client)).await {
                Next::Park => {}
                Next::Close => return,
                Next::Linger => return Box::pin(linger(&shard, &client)).await,
                Next::Reset => return client.stream.reset_on_close(),
            }
            if !park(&shard, &client).await {
                return;
            }
        }
    }
}

/// When a connection that begins now has to end: some way before its age for some, so that clients
/// that came together do not come again together.
fn retirement(shard: &Shard, bind: u32) -> Option<Tick> {
    let snapshot = shard.config.load();
    let age = snapshot.bind(bind)?.limits.connection_age?;
    let percent = shard.with_rng(|rng| rng.random_range(100 - CONNECTION_AGE_JITTER_PERCENT..=100));
    Some(shard.now().after(age / 100 * percent))
}

/// Waits for the next request. `false` where none will come.
async fn park(shard: &Shard, client: &Client) -> bool {
    let snapshot = shard.config.load();
    let Some(bind) = snapshot.bind(client.bind) else {
        return false;
    };
    if shard.draining.get() {
        return false;
    }
    client.registered.set(ClientState::Idle);
    shard.note_parked();
    client
        .deadline
        .arm(bind.limits.keep_alive_timeout, Expiry::Disconnect);
    drop(snapshot);
    let readable = client.stream.readable().await;
    readable.is_ok() && !client.deadline.expired()
}

/// Lets a final answer arrive: a close with bytes unread would reset the connection, and the reset
/// could overtake the answer (RFC 9112 section 9.6).
async fn linger(shard: &Shard, client: &Client) {
    client.stream.shutdown_write();
    client
        .deadline
        .arm(Some(LINGER_TIMEOUT), Expiry::Disconnect);
    let mut buffer = shard.buffers.take();
    let mut dropped = 0;
    while dropped < LINGER_BYTES {
        match client.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => dropped += count,
        }
        buffer.clear();
    }
    shard.buffers.put(buffer);
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{Client, h1, serve};
    use crate::shard::Shard;

    fn of_idle<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    fn of_busy<'a, F>(_: impl Fn(&'a Rc<Shard>, &'a mut Client) -> F) -> usize {
        size_of::<F>()
    }

    /// An idle connection is a task of this future; with what the runtime adds, it fits into an
    /// allocation of 512 bytes.
    #[test]
    fn the_future_of_an_idle_connection_is_small() {
        assert!(of_idle(serve) <= 448, "{} bytes", of_idle(serve));
    }

    /// Boxed while requests come, and gone with the pause after them.
    #[test]
    fn the_future_of_a_request_is_bounded() {
        assert!(
            of_busy(h1::serve) <= 7 * 1024,
            "{} bytes",
            of_busy(h1::serve)
        );
    }
}
