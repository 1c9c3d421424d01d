//! The configuration thread's loop with a controller as source: follows its stream, applies and
//! acknowledges batches, and saves the current configuration for the next process.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};
use xds::delta::{Client, Received, Refusal};
use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds::model::{BindKey, Change, Kind, Pattern, ResourceKey};
use xds_grpc::client::{ConnectError, Controller};

use super::XdsConfig;
use super::backoff::Backoff;
use super::check::check;
use super::keeper::LastGoodWriter;
use super::last_good::{LastGoodFile, SavedConfig};
use super::link::{Link, LinkEvent};
use super::shortage::Shortage;
use super::state::ControllerState;
use super::symptoms::{self, ToldSymptoms};
use crate::config::Published;
use crate::config::apply::{Applier, Binder, Update, Wait, sleep_until};
use crate::config::dns::Resolver;
use crate::config::in_force::InForce;
use crate::limits::{CONTROLLER_RETRY_MAX, CONTROLLER_RETRY_REFUSED_MAX};

/// The stream, and the applier of its batches.
pub(super) struct Worker {
    controller: Controller,
    link: Link,
    backoff: Backoff,
    client: Client,
    /// Changes of the initial configuration until it is complete.
    held_back: Vec<Change>,
    /// Resources whose current version is rejected.
    refused: BTreeSet<ResourceKey>,
    /// Whether some of them had no room.
    shortage: Option<Shortage>,
    /// Failed binds that were reported to the controller.
    reported_down: BTreeSet<BindKey>,
    applier: Applier,
    keeper: Option<LastGoodWriter>,
    in_force: InForce,
    state: ControllerState,
    symptoms: ToldSymptoms,
    /// When this process began to follow a controller.
    begun: Instant,
}

impl Worker {
    pub(super) fn new(
        config: XdsConfig,
        published: Published,
        binder: Binder,
        resolver: Resolver,
    ) -> Self {
        let XdsConfig {
            controller,
            gateway,
            proxy,
            cache,
            compile,
            session_keys,
            in_force,
            state,
        } = config;
        let node = format!("{gateway}/{proxy}");
        Self {
            controller,
            link: Link::Disconnected(Instant::now()),
            backoff: Backoff::default(),
            client: Client::with_check(node, check),
            held_back: Vec::new(),
            refused: BTreeSet::new(),
            shortage: None,
            reported_down: BTreeSet::new(),
            applier: Applier::new(
                (compile, session_keys),
                in_force.clone(),
                published,
                binder,
                resolver,
            ),
            keeper: cache.map(|folder| LastGoodWriter::new(LastGoodFile::new(folder, gateway))),
            in_force,
            state,
            symptoms: ToldSymptoms::default(),
            begun: Instant::now(),
        }
    }

    /// Applies the configuration that an earlier process saved.
    pub(super) async fn restore(&mut self) {
        let Some(file) = self.keeper.as_ref().map(|it| it.file().clone()) else {
            return;
        };
        let begun = Instant::now();
        let path = file.path();
        let kept = match file.read() {
            Ok(Some(kept)) => kept,
            Ok(None) => return debug!(path = %path.display(), "no configuration was cached"),
            Err(error) => {
                return warn!(
                    path = %path.display(),
                    "the saved configuration is not used: {error}; the controller's \
                     is waited for"
                );
            }
        };
        let (substitutes, held): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|it| it.is_substitute);
        let changes = held.iter().chain(&substitutes).map(|it| {
            let resource = &it.resource;
            (resource.resource_key(), Some(resource.clone()))
        });
        self.apply(changes.collect(), begun, Wait::First).await;
        let down: BTreeSet<ResourceKey> = self.down().map(|refusal| refusal.key).collect();
        self.client.restore(held.iter().map(|it| {
            let is_down = down.contains(&it.resource.resource_key());
            (&it.resource, (!is_down).then_some(it.version))
        }));
        let substitutes = substitutes.into_iter();
        let substitutes = substitutes.map(|it| (it.resource.resource_key(), it.version));
        self.client.restore_substituted(substitutes);
        self.state.change(|state| state.restored = true);
        self.publish_versions();
        info!(
            path = %path.display(),
            "using the cached configuration until the controller sends one"
        );
    }

    /// Follows the controller forever.
    pub(super) async fn run(&mut self) -> Infallible {
        loop {
            tokio::select! {
                happened = self.link.next() => self.on_link(happened).await,
                event = self.applier.event() => {
                    let in_force = self.in_force.clone();
                    let locate = |bind: &_| locate(bind, &in_force);
                    self.applier.handle(event, &locate).await;
                    self.report_recovered();
                }
                () = sleep_until(self.shortage.as_ref().map(Shortage::check_at)) => self.check_room(),
                () = sleep_until(self.symptoms.next_at()) => {}
                next = LastGoodWriter::next(&mut self.keeper) => {
                    let config = self.saved_config();
                    if let Some(keeper) = &mut self.keeper {
                        keeper.take(next, config);
                    }
                }
            }
            self.tell_symptoms();
        }
    }

    /// Saves unsaved changes before the worker ends.
    pub(super) async fn finish(self) {
        let config = self.saved_config();
        if let Some(keeper) = self.keeper {
            keeper.finish(&config).await;
        }
    }

    fn saved_config(&self) -> SavedConfig {
        SavedConfig {
            model: self.in_force.applied().model,
            substituted: self.client.substituted().cloned().collect(),
        }
    }

    async fn on_link(&mut self, happened: LinkEvent) {
        match happened {
            LinkEvent::Due => {
                // The next stream reports rejected and incomplete resources again.
                self.refused.clear();
                self.shortage = None;
                self.link = Link::connect(self.controller.clone());
            }
            LinkEvent::Connected(stream) => {
                for request in self.client.connect(stream.report()) {
                    stream.send(request);
                }
                let zone = stream.zone().map(Into::into);
                self.link = Link::Connected(stream);
                self.symptoms.forget();
                let in_force = self.in_force.clone();
                let locate = |bind: &_| locate(bind, &in_force);
                self.applier.learn_zone(zone, &locate).await;
                self.state.change(|state| {
                    state.connected = true;
                    state.changed = Some(Instant::now());
                    state.streams += 1;
                    state.failure = None;
                });
                info!(controller = %self.controller, "connected to the controller");
            }
            LinkEvent::Received(response) => self.receive(response).await,
            LinkEvent::Ended => self.reconnect(None),
            LinkEvent::NotConnected(error @ ConnectError::NotListening(_)) => {
                self.reconnect_within(CONTROLLER_RETRY_REFUSED_MAX, Some(error.to_string()));
            }
            LinkEvent::NotConnected(error) => self.reconnect(Some(error.to_string())),
            LinkEvent::Broken(error) => self.reconnect(Some(error.to_string())),
        }
    }

    /// Ends the stream, if there is one, and schedules a reconnect.
    fn reconnect(&mut self, failure: Option<String>) {
        self.reconnect_within(CONTROLLER_RETRY_MAX, failure);
    }

    fn reconnect_within(&mut self, longest: Duration, failure: Option<String>) {
        let wait = self.backoff.next(longest, rand::random());
        self.link = Link::Disconnected(Instant::now() + wait);
        let mut is_repeated = false;
        self.state.change(|state| {
            is_repeated = failure.is_some() && state.failure == failure;
            if std::mem::take(&mut state.connected) {
                state.changed = Some(Instant::now());
            }
            state.failure.clone_from(&failure);
        });
        let milliseconds = wait.as_millis();
        let controller = &self.controller;
        if let Some(error) = failure {
            // Once for a controller that is away for minutes.
            if is_repeated {
                debug!(%controller, next_try_in_milliseconds = milliseconds, "{error}");
            } else {
                warn!(%controller, next_try_in_milliseconds = milliseconds, "{error}");
            }
        } else {
            let text = "the xDS stream ended";
            info!(%controller, next_try_in_milliseconds = milliseconds, "{text}");
        }
    }

    async fn receive(&mut self, response: DeltaDiscoveryResponse) {
        if let Some(versions) = self.client.answer(&response) {
            return self.link.send(versions);
        }
        let begun = Instant::now();
        let without_room = Pattern::refused_for_room();
        let received = self.client.receive(response);
        if Pattern::refused_for_room() > without_room {
            self.shortage = Some(Shortage::new(Pattern::process_bytes(), begun));
        }
        match received {
            Ok(Some(received)) => self.apply_batch(received, begun).await,
            Ok(None) => {}
            Err(error) => self.reconnect(Some(error.to_string())),
        }
    }

    /// Applies a batch, and acknowledges it.
    async fn apply_batch(&mut self, mut received: Received, begun: Instant) {
        for (key, _) in &received.changes {
            self.refused.remove(key);
        }
        for Refusal { key, text } in &received.refused {
            warn!(resource = %key, "rejected a configuration from the controller: {text}");
            self.refused.insert(key.clone());
        }
        self.held_back.append(&mut received.changes);
        if self.client.is_complete() {
            let is_first = !self.in_force.was_recognised();
            let changes = std::mem::take(&mut self.held_back);
            if is_first || !changes.is_empty() {
                let wait = if is_first { Wait::First } else { Wait::Change };
                self.apply(changes, begun, wait).await;
            }
        }
        let failed: Vec<Refusal> = self.down().collect();
        self.reported_down = self
            .in_force
            .down()
            .iter()
            .map(|it| it.key.clone())
            .collect();
        for request in self.client.acknowledge(received, failed) {
            self.record_response(&request);
            self.link.send(request);
        }
        self.backoff.reset();
        self.publish_versions();
    }

    async fn apply(&mut self, changes: Vec<Change>, begun: Instant, wait: Wait) {
        let update = Update {
            changes,
            problems: self.refused.len(),
            begun,
        };
        let in_force = self.in_force.clone();
        let locate = |bind: &_| locate(bind, &in_force);
        self.applier.update(update, wait, &locate).await;
        self.in_force.recognise();
        if let Some(keeper) = &mut self.keeper {
            keeper.record_change();
        }
    }

    /// Failed binds as rejections.
    fn down(&self) -> impl Iterator<Item = Refusal> + use<> {
        let down = self.in_force.down();
        let refusals = down.iter().map(|down| Refusal {
            key: ResourceKey {
                kind: Kind::Bind,
                key: down.key.to_shared(),
            },
            text: format!("cannot listen on {}: {}", down.address, down.reason),
        });
        refusals.collect::<Vec<_>>().into_iter()
    }

    /// Reports a rejected port that is listened on now. Only a stream's first request lists the
    /// applied resources, so a new stream is opened.
    fn report_recovered(&mut self) {
        let down = self.in_force.down();
        let is_down = |key: &BindKey| down.iter().any(|down| down.key == *key);
        if self.reported_down.iter().all(is_down) {
            return;
        }
        self.reported_down.retain(is_down);
        if matches!(self.link, Link::Connected(_)) {
            info!(
                "a listener that could not be bound before is bound now; reopening the xDS stream to report it"
            );
            self.reconnect(None);
        }
    }

    /// Requests again what was refused for lack of room, once there is some. Only a new stream sends
    /// resources again that have not changed.
    fn check_room(&mut self) {
        let used = Pattern::process_bytes();
        let shortage = self.shortage.as_mut();
        let has_ended = shortage.is_some_and(|it| it.has_ended(used, Instant::now()));
        if self.refused.is_empty() {
            self.shortage = None;
        } else if has_ended && matches!(self.link, Link::Connected(_)) {
            info!(
                "there is room for regular expressions again; reopening the xDS stream for the resources that \
                 were rejected for lack of it"
            );
            self.reconnect(None);
        }
    }

    /// Tells the controller what only this proxy sees, if that has changed.
    fn tell_symptoms(&mut self) {
        if !self.link.takes_symptoms() {
            return;
        }
        let (missing, limited) = (self.in_force.missing_keys(), self.in_force.limited_checks());
        let place = self.in_force.place();
        let mut seen = Vec::new();
        if !missing.is_empty() || !limited.is_empty() || place.zone.is_none() {
            let model = self.in_force.applied().model;
            seen = symptoms::seen(&model, &missing);
            seen.extend(symptoms::seen_of_checks(&model, &limited));
            seen.extend(symptoms::seen_of_zones(&model, &place, self.begun));
        }
        if let Some(request) = self.symptoms.tell(seen, Instant::now()) {
            self.link.send(request);
        }
    }

    fn record_response(&self, request: &DeltaDiscoveryRequest) {
        let Some(kind) = Kind::from_type_url(&request.type_url) else {
            return;
        };
        let is_refused = self.refused.iter().any(|key| key.kind == kind)
            || (kind == Kind::Bind && !self.reported_down.is_empty());
        self.state.change(|state| {
            let of_type = state.types.entry(kind).or_default();
            if let Some(status) = &request.error_detail {
                of_type.nacks += 1;
                of_type.nacked = Some(Instant::now());
                of_type.refused = Some(status.message.clone());
            } else {
                of_type.acks += 1;
                of_type.acked = Some(Instant::now());
                of_type.refused = of_type.refused.take().filter(|_| is_refused);
            }
            state.restored = false;
            state.refused = self.refused.len();
        });
    }

    fn publish_versions(&self) {
        self.state.change(|state| {
            for kind in Kind::ALL {
                state.types.entry(kind).or_default().version = self.client.digest(kind);
            }
        });
    }
}

/// Gateway and listener of a bind, for messages.
fn locate(bind: &BindKey, in_force: &InForce) -> String {
    let model = in_force.applied().model;
    let mut listeners = model.listeners.values();
    match listeners.find(|listener| listener.bind == *bind) {
        Some(listener) => listener.key.to_string(),
        None => bind.to_string(),
    }
}
