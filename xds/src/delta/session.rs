//! One stream of a controller: subscriptions, a cursor in its Gateway's view, and the batch that is
//! not acknowledged yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;

use super::adapt::is_divided;
use super::adapted_view::{Derivation, Prepared};
use super::batch::{self, Batch, Entry, Outgoing, Part};
use super::encoded::Version;
use super::refusal::{self, Refusal};
use super::subscription::Subscription;
use super::symptom::{Symptom, ToldSymptoms};
use super::unknown_types::UnknownTypes;
use super::view::{BatchStart, View};
use super::views::{Form, Views};
use crate::discovery::{DeltaDiscoveryRequest, Status};
use crate::limits::FIRST_REQUESTS;
use crate::model::{Features, Kind, ObjectName, ResourceKey, RouteKey};

/// A stream of a proxy of one Gateway. It sees the view of this Gateway and no other.
#[derive(Debug)]
pub struct ProxySession {
    gateway: ObjectName,
    /// The features of the proxy.
    features: Features,
    number: u64,
    nonces: u64,
    subscriptions: BTreeMap<Kind, Subscription>,
    first_request: Option<Instant>,
    /// Position in the view up to which changes were sent; `None` before the first batch.
    cursor: Option<u64>,
    under_way: Option<InFlightBatch>,
    /// Position in the view up to which the proxy has acknowledged.
    acknowledged: Option<u64>,
    /// Resources that the proxy rejected, with the version last sent.
    refused: BTreeMap<ResourceKey, (Option<Version>, String)>,
    unknown_types: UnknownTypes,
    symptoms: ToldSymptoms,
}

/// A batch that was sent and is not fully acknowledged.
#[derive(Debug)]
struct InFlightBatch {
    batch: Arc<Batch>,
    /// Unacknowledged parts, by nonce.
    open: BTreeMap<String, usize>,
}

/// The next step of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Poll {
    /// Wait for a request or a publication, or until this time.
    Wait(Option<Instant>),
    /// Pass it to [`ProxySession::send`] without holding the views, and send the responses in order.
    Send(Unsent),
    /// Run it without holding the views, install the result ([`Views::install`]), and poll again.
    Derive(Derivation),
    /// End the stream: the proxy is of the release before, and would have to be sent more rules at listeners than
    /// it can take.
    TooManyRules,
    /// End the stream: the proxy is so far behind that it has to report its versions again.
    Resynchronise,
}

/// What is to be sent. Its responses are not encoded yet: that may take long, and is done once for all streams.
#[derive(Debug)]
#[must_use = "the stream waits for its acknowledgement"]
pub struct Unsent {
    responses: Vec<Outgoing>,
    batch: Option<Arc<Batch>>,
}

impl PartialEq for Unsent {
    fn eq(&self, other: &Self) -> bool {
        let batch = |it: &Self| it.batch.as_ref().map(Arc::as_ptr);
        self.responses == other.responses && batch(self) == batch(other)
    }
}

impl Eq for Unsent {}

/// The effect of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// It acknowledged nothing that is waited for: no response, one of an earlier stream, or one
    /// acknowledged before.
    Nothing,
    /// It acknowledged a response (ACK).
    Accepted,
    /// It rejected these resources of a response (NACK).
    Refused(Vec<Refusal>),
    /// It told what the proxy sees ([`ProxySession::symptoms`]).
    Symptoms,
}

/// The state of one resource at one proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged<'a> {
    /// Its current version was not sent, or not acknowledged.
    Open,
    /// Its current version was applied.
    Yes,
    /// Its current version was rejected, for this reason.
    Refused(&'a str),
}

/// How far a proxy is, and its Gateway's view: streams of the same standing have acknowledged the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    acknowledged: Option<u64>,
    head: u64,
}

/// The first request for an unknown type. It should be logged; the stream continues.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a resource type of this version")]
pub struct UnknownType(pub String);

impl ProxySession {
    /// Begins a stream of a proxy of this Gateway with these features. Call [`ProxySession::end`] when it
    /// ends.
    #[must_use]
    pub fn begin(views: &mut Views, gateway: ObjectName, features: Features) -> Self {
        Self {
            gateway,
            features,
            number: views.next_session(),
            nonces: 0,
            subscriptions: BTreeMap::new(),
            first_request: None,
            cursor: None,
            under_way: None,
            acknowledged: None,
            refused: BTreeMap::new(),
            unknown_types: UnknownTypes::default(),
            symptoms: ToldSymptoms::default(),
        }
    }

    /// The session's number, unique among these views.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes a request: updates subscriptions and acknowledgements.
    ///
    /// # Errors
    ///
    /// The type is unknown: that of a later version, which gets an empty response, as it may wait for one
    /// of every type.
    pub fn receive(
        &mut self,
        mut request: DeltaDiscoveryRequest,
        now: Instant,
    ) -> Result<Answered, UnknownType> {
        if let Some(told) = request.symptoms.take() {
            self.symptoms.take(told, now);
            return Ok(Answered::Symptoms);
        }
        let Some(kind) = Kind::from_type_url(&request.type_url) else {
            let is_new = self.unknown_types.add(&request.type_url);
            return if is_new {
                Err(UnknownType(request.type_url))
            } else {
                Ok(Answered::Nothing)
            };
        };
        self.first_request.get_or_insert(now);
        self.subscriptions
            .entry(kind)
            .and_modify(|subscription| subscription.change(&mut request))
            .or_insert_with(|| Subscription::begin(kind, &mut request));
        Ok(self.answered(kind, &request))
    }

    fn answered(&mut self, kind: Kind, request: &DeltaDiscoveryRequest) -> Answered {
        let Some(under_way) = &mut self.under_way else {
            return Answered::Nothing;
        };
        let nonce = &request.response_nonce;
        let part = under_way.open.get(nonce);
        let part = part.and_then(|at| under_way.batch.parts().get(*at));
        let Some(part) = part.filter(|part| part.kind == kind) else {
            return Answered::Nothing;
        };
        let refusals = request.error_detail.as_ref();
        let refusals = refusals.map(|status| refusals_of(part, status));
        for (key, _) in &part.resources {
            self.refused.remove(key);
        }
        for Refusal { key, text } in refusals.iter().flatten() {
            let version = part.sent(key).and_then(|(_, version)| *version);
            self.refused.insert(key.clone(), (version, text.clone()));
        }
        under_way.open.remove(nonce);
        if under_way.open.is_empty() {
            self.acknowledged = Some(under_way.batch.sequence);
            self.under_way = None;
        }
        let refusals = refusals.map(|it| self.published(it));
        refusals.map_or(Answered::Accepted, Answered::Refused)
    }

    /// Rejections by the keys under which the resources were published: each once.
    fn published(&self, refusals: Vec<Refusal>) -> Vec<Refusal> {
        let refusals = refusals.into_iter();
        let refusals = refusals.map(|refusal| (self.published_key(&refusal.key), refusal.text));
        // A rule that comes once for each listener is one.
        let refusals: BTreeMap<ResourceKey, String> = refusals.collect();
        let refusals = refusals.into_iter();
        refusals.map(|(key, text)| Refusal { key, text }).collect()
    }

    /// The next step. Call it after a request, and after a publication for this Gateway.
    pub fn poll(&mut self, views: &mut Views, now: Instant) -> Poll {
        if self.under_way.is_some() || !views.is_complete() {
            return Poll::Wait(None);
        }
        if let Some(until) = self.waits_for_requests().filter(|until| *until > now) {
            return Poll::Wait(Some(until));
        }
        if self.subscriptions.is_empty() {
            let unsent = Unsent {
                responses: self.answer_unknown_types(0),
                batch: None,
            };
            return unsent.or_wait();
        }
        let prepared = views.prepare(&self.gateway, self.features, self.number);
        let view = match prepared {
            Prepared::View(view) => view,
            Prepared::Derive(derivation) => return Poll::Derive(derivation),
            Prepared::UnderWay => return Poll::Wait(None),
            Prepared::TooLarge => return Poll::TooManyRules,
        };
        if self.cursor.is_some_and(|cursor| !view.covers(cursor)) {
            return Poll::Resynchronise;
        }
        let mut unsent = Unsent {
            responses: self.answer_unknown_types(view.head()),
            batch: None,
        };
        unsent.responses.append(&mut self.ask_for_versions(view));
        if self.is_asking() {
            // A batch has all types, so it waits for what the proxy holds of each.
            return unsent.or_wait();
        }
        if let Some(batch) = self.batch(view) {
            self.cursor = Some(view.head());
            view.advance(self.number);
            if batch.is_empty() {
                // Nothing that it subscribed to changed.
                self.acknowledged = self.cursor;
            } else {
                self.under_way = Some(InFlightBatch {
                    batch: Arc::clone(&batch),
                    open: BTreeMap::new(),
                });
                unsent.batch = Some(batch);
            }
        }
        unsent.or_wait()
    }

    /// The responses to send, encoded by the first stream that sends them.
    pub fn send(&mut self, unsent: Unsent) -> Vec<Outgoing> {
        let Unsent {
            mut responses,
            batch,
        } = unsent;
        let Some(batch) = batch else {
            return responses;
        };
        let mut open = BTreeMap::new();
        for (at, part) in batch.parts().iter().enumerate() {
            let nonce = self.next_nonce();
            responses.push(part.with_nonce(&nonce));
            open.insert(nonce, at);
        }
        self.under_way = Some(InFlightBatch { batch, open });
        responses
    }

    /// An empty response for each unknown type that is owed one. Each is a batch of its own, which nothing
    /// waits for: its acknowledgement tells nothing.
    fn answer_unknown_types(&mut self, sequence: u64) -> Vec<Outgoing> {
        let owed = self.unknown_types.take();
        let responses = owed.into_iter().map(|type_url| {
            let nonce = self.next_nonce();
            batch::empty(type_url, sequence, nonce)
        });
        responses.collect()
    }

    /// A question for each type whose digest is not that of the view. Digests are compared again before each batch,
    /// since the view may have changed while another type was asked for.
    fn ask_for_versions(&mut self, view: &mut View) -> Vec<Outgoing> {
        let mut questions = Vec::new();
        for (kind, subscription) in &mut self.subscriptions {
            if subscription.has_other_digest(view) {
                self.nonces = self.nonces.saturating_add(1);
                let nonce = nonce(self.number, self.nonces);
                subscription.ask(nonce.clone());
                questions.push(batch::question(*kind, nonce));
            }
        }
        questions
    }

    fn is_asking(&self) -> bool {
        self.subscriptions.values().any(Subscription::is_asked)
    }

    /// Until when the first response waits for the requests of the other types.
    fn waits_for_requests(&self) -> Option<Instant> {
        let waits = self.cursor.is_none() && self.subscriptions.len() < Kind::ALL.len();
        let first = self.first_request.filter(|_| waits)?;
        first.checked_add(FIRST_REQUESTS)
    }

    /// The next batch, if something changed or is owed.
    fn batch(&mut self, view: &mut View) -> Option<Arc<Batch>> {
        let mut all = self.subscriptions.values();
        let has_all = all.len() == Kind::ALL.len();
        match self.cursor {
            None if has_all && all.all(Subscription::is_fresh) => {
                let none: Vec<Entry> = Vec::new();
                for subscription in self.subscriptions.values_mut() {
                    subscription.take(view, &none);
                }
                return Some(view.batch(BatchStart::Nothing));
            }
            Some(cursor) if has_all && all.all(Subscription::is_settled) => {
                return (cursor < view.head()).then(|| view.batch(BatchStart::Sequence(cursor)));
            }
            _ => {}
        }
        let mut subscriptions = self.subscriptions.values();
        let is_owed = subscriptions.any(|it| it.is_unsynced() || it.has_pending_names());
        let changed: Vec<Entry> = match self.cursor {
            Some(cursor) => view.since(cursor).collect(),
            None => Vec::new(),
        };
        if changed.is_empty() && !is_owed {
            return None;
        }
        let mut announced = Vec::new();
        let mut entries = Vec::new();
        for (kind, subscription) in &mut self.subscriptions {
            if subscription.is_unsynced() {
                announced.push(*kind);
            }
            entries.append(&mut subscription.take(view, &changed));
        }
        Some(Arc::new(Batch::new(view.head(), entries, &announced)))
    }

    fn next_nonce(&mut self) -> String {
        self.nonces = self.nonces.saturating_add(1);
        nonce(self.number, self.nonces)
    }

    /// The proxy's acknowledgement of the current version of a resource.
    #[must_use]
    pub fn acknowledged(&self, views: &Views, key: &ResourceKey) -> Acknowledged<'_> {
        let view = views.view_for(&self.gateway, self.features).into_iter();
        // A rule that comes once for each listener has to be applied at all of them.
        let mut last_change = None;
        for form in view.flat_map(|view| view.forms(key)) {
            if let Some(text) = self.refusal(&form) {
                return Acknowledged::Refused(text);
            }
            last_change = last_change.max(Some(form.changed));
        }
        match last_change.zip(self.acknowledged) {
            Some((changed, until)) if changed <= until => Acknowledged::Yes,
            _ => Acknowledged::Open,
        }
    }

    /// On what [`ProxySession::acknowledged`] depends, so that it can be asked once for many streams. `None` if it
    /// depends on more: for a proxy that rejected something, or of an earlier release.
    #[must_use]
    pub fn standing(&self, views: &Views) -> Option<Standing> {
        let is_plain = self.refused.is_empty() && self.features == Features::all();
        is_plain.then(|| Standing {
            acknowledged: self.acknowledged,
            head: views.head(&self.gateway),
        })
    }

    /// Why the proxy rejected the current version of a resource.
    fn refusal(&self, form: &Form) -> Option<&str> {
        let (version, text) = self.refused.get(&form.key)?;
        (*version == Some(form.version)).then_some(text)
    }

    /// The resources of the current configuration that this proxy has rejected, and why.
    #[must_use]
    pub fn refused(&self, views: &Views) -> Vec<Refusal> {
        let Some(view) = views.view_for(&self.gateway, self.features) else {
            return Vec::new();
        };
        let published = self.refused.keys().map(|key| self.published_key(key));
        let published: BTreeSet<ResourceKey> = published.collect();
        let refusals = published.iter().filter_map(|key| {
            let mut forms = view.forms(key);
            let text = forms.find_map(|form| self.refusal(&form))?.to_owned();
            let key = key.clone();
            Some(Refusal { key, text })
        });
        refusals.collect()
    }

    /// What the proxy told last that it sees, of resources of its Gateway.
    #[must_use]
    pub fn symptoms(&self, views: &Views) -> Vec<Symptom> {
        let told = self.symptoms.iter();
        let own = told.filter(|it| views.version(&self.gateway, &it.key).is_some());
        own.collect()
    }

    /// The key under which a resource of this proxy was published.
    fn published_key(&self, key: &ResourceKey) -> ResourceKey {
        let is_divided = key.kind == Kind::Route && is_divided(self.features);
        let rule = is_divided.then(|| RouteKey::parse(&key.key).ok()).flatten();
        rule.map_or_else(
            || key.clone(),
            |rule| ResourceKey {
                kind: key.kind,
                key: rule.at_gateway(&self.gateway).to_shared(),
            },
        )
    }

    /// Whether a response is not acknowledged yet, or a question not answered.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.under_way.is_some() || self.is_asking()
    }

    /// Bytes kept of the proxy's requests: names subscribed to or owed, and reported versions.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let subscriptions = self.subscriptions.values();
        let bytes = subscriptions.map(Subscription::kept_bytes);
        bytes.fold(0, usize::saturating_add)
    }

    /// Ends the stream. The session must not be used afterwards.
    pub fn end(&self, views: &mut Views) {
        views.disconnect(&self.gateway, self.features, self.number);
    }
}

fn nonce(session: u64, number: u64) -> String {
    format!("{session}-{number}")
}

impl Unsent {
    fn or_wait(self) -> Poll {
        if self.responses.is_empty() && self.batch.is_none() {
            return Poll::Wait(None);
        }
        Poll::Send(self)
    }
}

/// The resources of a part that a NACK rejects: those it names, or all if it names none.
fn refusals_of(part: &Part, status: &Status) -> Vec<Refusal> {
    // Each once, however often it is named: there are no more rejections than resources.
    let mut refusals = BTreeMap::new();
    for refusal in refusal::named(part.kind, status) {
        if let Some((key, _)) = part.sent(&refusal.key) {
            refusals.entry(key.clone()).or_insert(refusal.text);
        }
    }
    if refusals.is_empty() {
        let text = refusal::shortened(&status.message);
        let all = part.resources.iter();
        refusals.extend(all.map(|(key, _)| (key.clone(), text.to_owned())));
    }
    let refusals = refusals.into_iter();
    refusals.map(|(key, text)| Refusal { key, text }).collect()
}
