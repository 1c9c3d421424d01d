//! A request in progress: the data shared by all of its phases.
//!
//! The phases themselves are in [`crate::request`] and [`crate::forward`].

pub(crate) mod choice;
pub(crate) mod client;
mod expect_continue;
pub(crate) mod feed;
pub(crate) mod local_body;
pub(crate) mod local_response;
mod outgoing;
pub(crate) mod page_fetch;
mod page_requests;
mod proxy;
mod rate_limited;
mod record;
pub(crate) mod scratch;
mod selected;
mod server_decision;
mod waits;

use std::cell::OnceCell;
use std::rc::Rc;

use xds::model::Scheme;

use crate::channel::Channel;
use crate::config::held::HeldRule;
use crate::config::{BindSettings, Cluster, ClusterIndex, Rule, RuleBackend};
use crate::http::h1::encode::Persist;
use crate::memory::Buffer;
use crate::net::Liveness;
use crate::policy::answer::Respond;
use crate::policy::authentication::Principal;
use crate::policy::cors::Cors;
use crate::policy::forwarded::HeaderTrust;
use crate::policy::hash_key::RequestKey;
use crate::policy::headers::HeaderEdits;
use crate::shard::{ListenerHandle, RuleHandle, Shard, SnapshotHandle};
use crate::upstream::picker::Pick;

pub(crate) use self::client::Client;
use self::feed::Feed;
pub(crate) use self::proxy::Proxy;
pub(crate) use self::rate_limited::RateLimited;
pub(crate) use self::record::RequestRecord;
use self::scratch::{Received, RequestBuffers};
pub(crate) use self::selected::{Destination, Matched, PinnedSession};
pub(crate) use self::server_decision::ServerDecision;

/// A request in progress.
pub(crate) struct Exchange<'a> {
    pub(crate) proxy: &'a Rc<Proxy>,
    pub(crate) shard: &'a Rc<Shard>,
    /// The configuration at the time of the request, until its rule is known: a response may take days,
    /// and snapshots are large.
    pub(crate) snapshot: Option<SnapshotHandle>,
    /// What it holds of the configuration instead, to its end.
    pub(crate) holds: &'a Holds,
    pub(crate) bind: &'a BindSettings,
    pub(crate) client: &'a Client,
    pub(crate) received: &'a Received,
    /// Whether its forwarding headers are trusted.
    pub(crate) header_trust: HeaderTrust,
    /// The scheme of its URL, by the same trust.
    pub(crate) scheme: Scheme,
    /// Bytes read from the client: the request's body, and pipelined requests.
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) work: &'a mut RequestBuffers,
    /// Bodies that are being copied to mirrors.
    pub(crate) mirrors: Vec<Feed>,
    /// The backend drawn for it, whose filters include those of its rule.
    pub(crate) backend: Option<&'a RuleBackend>,
    /// Its session, if valid.
    pub(crate) pinned: Option<PinnedSession<'a>>,
    /// What its endpoint is chosen by, if its backend hashes that.
    pub(crate) key: Option<RequestKey>,
    /// The endpoint picker's response.
    pub(crate) picked: Option<Box<Pick<'a>>>,
    /// The verified sender, if the rule requires authentication.
    pub(crate) principal: Option<Principal<'a>>,
    /// The decision of authorization servers; boxed, since most requests have none.
    pub(crate) server_decision: Option<Box<ServerDecision>>,
    /// What rate limits tell the client; boxed, since most requests have none.
    pub(crate) rate_limited: Option<Box<RateLimited>>,
    /// What a policy answers it with in the place of a backend, once that is decided.
    pub(crate) answer: Option<&'a Respond>,
    /// The facts about the request so far, for counters and the log.
    pub(crate) record: RequestRecord<'a>,
}

/// What a request holds of its configuration: set as its listener and its rule become known. Indices of
/// clusters refer to it.
#[derive(Default)]
pub(crate) struct Holds {
    pub(crate) listener: OnceCell<ListenerHandle>,
    pub(crate) rule: OnceCell<RuleHandle<Rule>>,
}

impl Holds {
    /// A cluster that the rule names. `None` before the rule is known.
    pub(crate) fn cluster(&self, index: ClusterIndex) -> Option<&Cluster> {
        let rule: &HeldRule<Rule> = self.rule.get()?;
        Some(rule.cluster(index))
    }
}

/// What happens to the client's connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionOutcome {
    /// It is kept alive.
    KeepAlive,
    End(NextStep),
}

/// The next step of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Idle for a while: park it.
    Park,
    /// Close it; all sent data will be read.
    Close,
    /// Close it, but keep reading for a while so that the response arrives.
    Linger,
    /// Reset it, so that a truncated response does not look complete.
    Reset,
    /// Continue with HTTP/2, which the client has begun.
    UpgradeToHttp2,
}

impl<'a> Exchange<'a> {
    /// Starts the exchange of a parsed request.
    pub(crate) fn begin(
        proxy: &'a Rc<Proxy>,
        snapshot: SnapshotHandle,
        (bind, holds): (&'a BindSettings, &'a Holds),
        client: &'a Client,
        received: &'a Received,
        buffer: &'a mut Buffer,
        work: &'a mut RequestBuffers,
    ) -> Self {
        let framing = client.stream.body_framing(received.head.framing);
        work.request_body.reset(framing);
        work.response_lines.clear();
        work.tried.clear();
        let header_trust = bind.trust.header_trust(&client.hop);
        let scheme = header_trust.scheme(&client.hop, &received.head.fields, &received.bytes);
        Self {
            proxy,
            shard: &proxy.shard,
            snapshot: Some(snapshot),
            holds,
            bind,
            client,
            received,
            header_trust,
            scheme,
            buffer,
            work,
            mirrors: Vec::new(),
            backend: None,
            pinned: None,
            key: None,
            picked: None,
            principal: None,
            server_decision: None,
            rate_limited: None,
            answer: None,
            record: RequestRecord::begin(received),
        }
    }

    /// The CORS filter for responses of the gateway itself.
    pub(crate) fn cors(&self) -> Option<&'a Cors> {
        match self.backend {
            Some(backend) => backend.policy.as_deref()?.cors.as_ref(),
            None => self.record.rule?.responses.as_deref()?.cors.as_ref(),
        }
    }

    /// The edits of response headers for responses of the gateway itself: none before a rule is
    /// selected.
    pub(crate) fn response_edits(&self) -> Option<&'a HeaderEdits> {
        match self.backend {
            Some(backend) => Some(&backend.policy.as_deref()?.response_headers),
            None => Some(&self.record.rule?.responses.as_deref()?.response_headers),
        }
    }

    /// Whether the client's connection may be kept alive after this request.
    pub(crate) fn persistence(&self) -> Persist {
        let limits = &self.bind.limits;
        let persists = self.received.head.keep_alive
            && !self.shard.ends_connections(self.client.bind)
            && limits.allows_request_after(self.client.requests)
            && !self.client.is_old(self.shard.now());
        if persists {
            Persist::Keep
        } else {
            Persist::Close
        }
    }
}

impl ConnectionOutcome {
    /// The connection ends once the client has received everything sent.
    pub(crate) fn close(stream: &Channel) -> Self {
        match stream.liveness() {
            Liveness::Quiet => Self::End(NextStep::Close),
            Liveness::Readable | Liveness::Ending | Liveness::HalfClosed | Liveness::Gone => {
                Self::End(NextStep::Linger)
            }
        }
    }
}
