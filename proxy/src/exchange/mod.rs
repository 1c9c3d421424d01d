//! A request in progress: the data that all of its phases share.
//!
//! The phases themselves are in [`crate::request`] and [`crate::forward`].

pub(crate) mod answer;
pub(crate) mod choice;
pub(crate) mod client;
pub(crate) mod feed;
mod go_on;
mod key_waits;
mod outgoing;
mod proxy;
mod record;
mod said;
pub(crate) mod scratch;
mod selected;

use std::rc::Rc;

use crate::channel::Channel;
use crate::config::Bind;
use crate::http::h1::encode::Persist;
use crate::memory::Buffer;
use crate::net::Liveness;
use crate::policy::forwarded::Belief;
use crate::policy::jwt::Principal;
use crate::shard::{Held, Shard};
use crate::upstream::picker::Picked;

pub(crate) use self::client::Client;
use self::feed::Feed;
pub(crate) use self::proxy::Proxy;
pub(crate) use self::record::Record;
pub(crate) use self::said::Said;
use self::scratch::{Received, Work};
pub(crate) use self::selected::{Destination, Matched, Pinned};

/// A request under way.
pub(crate) struct Exchange<'a> {
    pub(crate) proxy: &'a Rc<Proxy>,
    /// The proxy's.
    pub(crate) shard: &'a Rc<Shard>,
    /// The configuration when the request came; it stays this request's to the end. What outlives
    /// the exchange holds it too: positions in it mean nothing in a newer one.
    pub(crate) snapshot: &'a Held,
    pub(crate) bind: &'a Bind,
    pub(crate) client: &'a Client,
    /// The request's head.
    pub(crate) received: &'a Received,
    /// Whether what it says of its way to us is believed.
    pub(crate) belief: Belief,
    /// What was read from the client: the request's body, and requests behind it.
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) work: &'a mut Work,
    /// Copies of the request under way.
    pub(crate) mirrors: Vec<Feed>,
    /// The living session that it belongs to.
    pub(crate) pinned: Option<Pinned<'a>>,
    /// What an endpoint picker has said of it.
    pub(crate) picked: Option<Box<Picked<'a>>>,
    /// Who sent it, where the rule asks for that.
    pub(crate) principal: Option<Principal<'a>>,
    /// What authorization servers said of it; in a box, since most requests have none.
    pub(crate) said: Option<Box<Said>>,
    /// What is known of the request by now, for counters and the log.
    pub(crate) record: Record<'a>,
}

/// What becomes of the client's connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request may come.
    KeepAlive,
    /// It ends.
    End(Next),
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
    /// Serve it as HTTP/2: that is what it began with.
    SpeakH2,
}

impl<'a> Exchange<'a> {
    /// A request whose head was parsed.
    pub(crate) fn begin(
        proxy: &'a Rc<Proxy>,
        snapshot: &'a Held,
        bind: &'a Bind,
        client: &'a Client,
        received: &'a Received,
        buffer: &'a mut Buffer,
        work: &'a mut Work,
    ) -> Self {
        let framing = client.stream.body_framing(received.head.framing);
        work.request_body.reset(framing);
        work.response_lines.clear();
        work.tried.clear();
        let belief = bind.trust.belief(&client.hop);
        Self {
            proxy,
            shard: &proxy.shard,
            snapshot,
            bind,
            client,
            received,
            belief,
            buffer,
            work,
            mirrors: Vec::new(),
            pinned: None,
            picked: None,
            principal: None,
            said: None,
            record: Record::begin(received),
        }
    }

    /// Whether the client's connection may live on after this request.
    pub(crate) fn persistence(&self) -> Persist {
        let limits = &self.bind.limits;
        let goes_on = self.received.head.keep_alive
            && !self.shard.ends_connections(self.client.bind)
            && self.client.requests < limits.requests_per_connection.get()
            && !self.client.is_old(self.shard.now());
        if goes_on {
            Persist::Keep
        } else {
            Persist::Close
        }
    }
}

impl After {
    /// The connection ends, when the client has what was sent.
    pub(crate) fn close(stream: &Channel) -> Self {
        match stream.liveness() {
            Liveness::Quiet => Self::End(Next::Close),
            Liveness::Readable | Liveness::Gone => Self::End(Next::Linger),
        }
    }
}
