//! The I/O of one stream: passes requests to its [`ProxySession`] and sends the responses.

mod registration;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};
use tonic::{Code, Status, Streaming};
use tracing::{debug, warn};
use xds::delta::{Answered, Derivation, Outgoing, Poll, ProxySession, UnknownType};
use xds::discovery::DeltaDiscoveryRequest;
use xds::model::Features;

use super::authorize::ProxyIdentity;
use super::budget::Budget;
use super::call;
use super::connection::{Call, Connection};
use super::limits::{LOGGED_TEXT, LOGGED_TYPES};
use super::locked;
use super::observer::Event;
use super::response::{self, Response};
use registration::StreamRegistration;

pub(super) struct Stream {
    connection: Arc<Connection>,
    requests: Streaming<DeltaDiscoveryRequest>,
    responses: mpsc::Sender<Response>,
    retiring: watch::Receiver<bool>,
    /// Responses of the current batch that are still to be sent.
    queue: VecDeque<Outgoing>,
    /// When the current batch was started, and when the proxy last read or acknowledged part of it.
    begun: Instant,
    progress: Instant,
    /// Budget of requests that acknowledge nothing.
    budget: Budget,
    unknown_types: u32,
    _call: Call,
}

/// Why a stream ended.
enum StreamEnd {
    Gone,
    Status(Status),
    /// A request exceeds the limit of one, or of what is kept of all.
    TooLarge(Status),
    /// The proxy is of the release before, and its Gateway has more rules than it can be sent.
    Outdated,
    /// The proxy does not read, so no status can be sent.
    Unresponsive,
}

/// What a stream does next.
enum Step {
    /// Waits for an event, or until this time.
    Wait(Option<Instant>),
    Derive(Derivation),
}

/// The event that woke a stream.
enum WakeEvent {
    Request(Box<DeltaDiscoveryRequest>),
    /// A timer or publication: poll the session.
    Check,
    Ended(StreamEnd),
}

impl Stream {
    pub(super) fn new(
        connection: Arc<Connection>,
        call: Call,
        requests: Streaming<DeltaDiscoveryRequest>,
        responses: mpsc::Sender<Response>,
    ) -> Self {
        let now = Instant::now();
        let limits = &connection.server.limits;
        Self {
            budget: Budget::new(limits.requests, limits.requests_per_second, now),
            retiring: connection.follow_retirement(),
            connection,
            requests,
            responses,
            queue: VecDeque::new(),
            begun: now,
            progress: now,
            unknown_types: 0,
            _call: call,
        }
    }

    pub(super) async fn run(mut self, identity: ProxyIdentity) {
        let ending = match self.register_stream(&identity).await {
            Ok((mut registration, first)) => {
                let ending = self.serve(&mut registration, first).await;
                registration.leave(ending.reason());
                ending
            }
            Err(ending) => {
                let address = self.connection.address;
                self.connection
                    .server
                    .log_failure(address, &ending.reason());
                ending
            }
        };
        if let StreamEnd::TooLarge(status) = &ending {
            let gateway = &identity.gateway;
            warn!(%gateway, %status, "requests of a proxy are too large, so it is not served: remove routes of its Gateway");
            self.connection.server.observer.too_large(gateway);
        }
        if let StreamEnd::Outdated = &ending {
            let gateway = &identity.gateway;
            warn!(%gateway, "{OUTDATED}");
            self.connection.server.observer.outdated(gateway);
        }
        self.end(ending).await;
    }

    /// Reads the first request, which identifies the proxy.
    async fn register_stream(
        &mut self,
        identity: &ProxyIdentity,
    ) -> Result<(StreamRegistration, DeltaDiscoveryRequest), StreamEnd> {
        let server = &self.connection.server;
        let first = timeout(server.limits.unresponsive, self.requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded(NO_REQUEST))?;
        let first = first.map_err(StreamEnd::of_request)?;
        let Some(first) = first else {
            return Err(StreamEnd::Gone);
        };
        let stated = first.node.as_ref();
        let node = call::node(identity, stated.map_or("", |node| &node.id))?;
        let features = stated.map_or(Features::NONE, |node| {
            Features::stated(&node.client_features)
        });
        let address = self.connection.address;
        let registration = StreamRegistration::take(server, node, features, address)?;
        Ok((registration, first))
    }

    async fn serve(
        &mut self,
        registration: &mut StreamRegistration,
        first: DeltaDiscoveryRequest,
    ) -> StreamEnd {
        let mut request = Some(Box::new(first));
        loop {
            let taken = request
                .take()
                .map_or(Ok(()), |it| self.take(registration, *it));
            let deadline = match taken {
                Ok(()) => self.advance(registration).await,
                Err(ending) => Err(ending),
            };
            let woken = match deadline {
                Ok(deadline) => self.wait(registration, deadline).await,
                Err(ending) => return ending,
            };
            match woken {
                WakeEvent::Request(next) => request = Some(next),
                WakeEvent::Check => {}
                WakeEvent::Ended(ending) => return ending,
            }
        }
    }

    fn take(
        &mut self,
        registration: &StreamRegistration,
        request: DeltaDiscoveryRequest,
    ) -> Result<(), StreamEnd> {
        let now = Instant::now();
        let (answered, kept) = {
            let mut session = locked(registration.session());
            (session.receive(request, now), session.kept_bytes())
        };
        if kept > self.connection.server.limits.kept_bytes {
            return Err(StreamEnd::TooLarge(Status::resource_exhausted(
                TOO_MANY_NAMES,
            )));
        }
        let after = now.saturating_duration_since(self.begun);
        match answered {
            Ok(Answered::Accepted) => registration.observe(&Event::Accepted { after }),
            Ok(Answered::Refused(refusals)) => {
                for refusal in refusals.iter().take(1) {
                    let (key, text, count) = (&refusal.key, &refusal.text, refusals.len());
                    warn!(proxy = %registration.node(), %key, text, count, "a proxy rejected a resource");
                }
                let refusals = &refusals;
                registration.observe(&Event::Refused { refusals, after });
            }
            Ok(Answered::Symptoms) => {
                registration.observe(&Event::Symptoms);
                return self.charge(now);
            }
            Ok(Answered::Nothing) => return self.charge(now),
            Err(unknown) => {
                self.log_unknown(registration, &unknown);
                return self.charge(now);
            }
        }
        self.progress = now;
        Ok(())
    }

    fn charge(&mut self, now: Instant) -> Result<(), StreamEnd> {
        if self.budget.take(now) {
            return Ok(());
        }
        // Retire the connection: reconnecting slows the proxy down.
        self.connection.retire();
        Err(Status::resource_exhausted(TOO_MANY_REQUESTS).into())
    }

    fn log_unknown(&mut self, registration: &StreamRegistration, UnknownType(text): &UnknownType) {
        self.unknown_types = self.unknown_types.saturating_add(1);
        if self.unknown_types <= LOGGED_TYPES {
            let text = text.get(..text.floor_char_boundary(LOGGED_TEXT));
            let unknown = text.unwrap_or_default();
            let text = "a proxy asks for a resource type that this version does not know, and gets none of it: \
                        update the controller before the proxies";
            warn!(proxy = %registration.node(), unknown, "{text}");
        }
    }

    /// Does all pending work and returns when to wake up next.
    async fn advance(
        &mut self,
        registration: &StreamRegistration,
    ) -> Result<Option<Instant>, StreamEnd> {
        loop {
            match self.step(registration)? {
                Step::Wait(deadline) => return Ok(deadline),
                Step::Derive(derivation) => registration.derive(derivation).await?,
            }
        }
    }

    fn step(&mut self, registration: &StreamRegistration) -> Result<Step, StreamEnd> {
        let now = Instant::now();
        let mut session = locked(registration.session());
        let until = match registration.poll(&mut session, now) {
            Poll::Wait(until) => until,
            Poll::Send(unsent) => {
                self.queue.extend(session.send(unsent));
                (self.begun, self.progress) = (now, now);
                None
            }
            Poll::Derive(derivation) => return Ok(Step::Derive(derivation)),
            Poll::Resynchronise => return Err(Status::aborted(TOO_FAR_BEHIND).into()),
            Poll::TooManyRules => return Err(StreamEnd::Outdated),
        };
        self.deadline(&session, now, until).map(Step::Wait)
    }

    fn deadline(
        &self,
        session: &ProxySession,
        now: Instant,
        until: Option<Instant>,
    ) -> Result<Option<Instant>, StreamEnd> {
        if !session.is_waiting() {
            if *self.retiring.borrow() {
                return Err(Status::ok(RETIRED).into());
            }
            return Ok(until);
        }
        let unresponsive = self.connection.server.limits.unresponsive;
        let deadline = self.progress.checked_add(unresponsive);
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(StreamEnd::Unresponsive);
        }
        Ok(deadline)
    }

    async fn wait(
        &mut self,
        registration: &mut StreamRegistration,
        deadline: Option<Instant>,
    ) -> WakeEvent {
        let is_retiring = *self.retiring.borrow_and_update();
        tokio::select! {
            request = self.requests.message() => match request {
                Ok(Some(request)) => WakeEvent::Request(Box::new(request)),
                Ok(None) => WakeEvent::Ended(StreamEnd::Gone),
                Err(status) => WakeEvent::Ended(StreamEnd::of_request(status)),
            },
            room = self.responses.reserve(), if !self.queue.is_empty() => {
                let next = self.queue.pop_front();
                let Some((room, next)) = room.ok().zip(next) else {
                    return WakeEvent::Ended(StreamEnd::Gone);
                };
                self.progress = Instant::now();
                if let Some(sent) = sent(&next) {
                    registration.observe(&sent);
                }
                match response::message(next) {
                    Some(message) => room.send(Response::Message(message)),
                    None => return WakeEvent::Ended(Status::internal(TOO_LARGE).into()),
                }
                WakeEvent::Check
            }
            () = self.responses.closed() => WakeEvent::Ended(StreamEnd::Gone),
            () = registration.published() => WakeEvent::Check,
            _ = self.retiring.changed(), if !is_retiring => WakeEvent::Check,
            () = until(deadline) => WakeEvent::Check,
        }
    }

    async fn end(self, ending: StreamEnd) {
        let status = match ending {
            StreamEnd::Gone => Status::ok(""),
            StreamEnd::Status(status) | StreamEnd::TooLarge(status) => status,
            StreamEnd::Outdated => Status::failed_precondition(OUTDATED),
            StreamEnd::Unresponsive => return self.connection.close_now(),
        };
        debug!(%status, "an xDS stream ended");
        let sent = self.responses.send(Response::End(status));
        if timeout(self.connection.server.limits.grace, sent)
            .await
            .is_err()
        {
            self.connection.close_now();
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn sent(outgoing: &Outgoing) -> Option<Event<'static>> {
    Some(Event::Sent {
        kind: outgoing.kind?,
        bytes: outgoing.body.len().saturating_add(outgoing.tail.len()),
    })
}

impl From<Status> for StreamEnd {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl StreamEnd {
    /// The end because a request could not be received.
    fn of_request(status: Status) -> Self {
        // The code that tonic has for messages beyond the limit, and for nothing else.
        match status.code() {
            Code::OutOfRange => Self::TooLarge(status),
            _ => Self::Status(status),
        }
    }

    fn reason(&self) -> &str {
        match self {
            Self::Gone => "the proxy closed it",
            Self::Status(status) | Self::TooLarge(status) => status.message(),
            Self::Outdated => OUTDATED,
            Self::Unresponsive => "timed out: the proxy neither read nor acknowledged responses",
        }
    }
}

const OUTDATED: &str = "a proxy of the release before gets each rule once for each listener, and the routes of its \
     Gateway are too many for that: upgrade the proxies, or remove routes or listeners of the Gateway";

const NO_REQUEST: &str = "timed out waiting for the first request of the stream";

const TOO_MANY_NAMES: &str = "the stream subscribes to too many names, or lists too \
     many resources";

const TOO_MANY_REQUESTS: &str = "the stream sends too many requests that acknowledge no response";

const TOO_FAR_BEHIND: &str =
    "the proxy is too far behind; reconnect with its current resource versions";

const RETIRED: &str = "the controller closes the connection; reconnect";

const TOO_LARGE: &str = "a response exceeds the gRPC message limit";
