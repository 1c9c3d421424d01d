//! The watch of one kind, for the lifetime of the process.
//!
//! `events` lists, watches and resumes. This adds what it cannot know: which objects are
//! missing from a new list, which namespaces are selected, and how to handle errors.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use kube::Client;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};
use translate::ObjectKind;
use translate::objects::kinds::Need;
use xds::fast_hash::{FastHashMap, FastHashSet};
use xds::model::ObjectName;

use self::errors::{code, describe};
use self::uid::Uid;
use super::admission;
use super::backoff::Backoff;
use super::change::{Change, ChangeKind, Content};
use super::entries::{ENTRIES, EntryKind};
use super::events::{Events, Read};
use super::kinds::is_scoped;
use super::measures::Measures;
use super::raw::Raw;
use super::readiness::{Readiness, State};
use super::requests::Reads;
use super::rescoping::Reports;
use super::scope::{Scope, Scopes, Selection};

/// How a kind is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Service {
    Unknown,
    Absent,
    Served(ApiResource),
}

/// The watch of one kind.
pub(super) struct Follower {
    pub(super) kind: ObjectKind,
    pub(super) client: Client,
    pub(super) service: watch::Receiver<Service>,
    pub(super) rediscover: Arc<Notify>,
    pub(super) scopes: Scopes,
    pub(super) reports: Reports,
    /// For the watch of namespaces, which determines the scope of the others.
    pub(super) selection: Option<Selection>,
    pub(super) changes: mpsc::Sender<Change>,
    pub(super) readiness: Readiness,
    pub(super) measures: Measures,
    pub(super) reads: Reads,
    pub(super) progress: Progress,
}

/// The progress of a watch.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Objects that were reported.
    known: FastHashMap<ObjectName, Uid>,
    /// The objects that are invalid.
    invalid: FastHashSet<ObjectName>,
    /// Policies that wait for a list.
    held: FastHashMap<ObjectName, Content>,
    /// Versions of ConfigMaps that were read for a policy, until the watch has reported them.
    reread: FastHashMap<ObjectName, u64>,
    /// Known objects that the list in progress has not contained so far.
    unlisted: Option<FastHashSet<ObjectName>>,
    scope: Option<Scope>,
    /// The namespaces of which the list in progress reports all objects.
    listed_scope: Option<Scope>,
    /// How often pages of its lists were shortened.
    shortened: Arc<AtomicU32>,
    backoff: Backoff,
    /// End of the pause after an error.
    paused_until: Option<Instant>,
    /// When to list again, for newly selected namespaces.
    relist_at: Option<Instant>,
    last_error: Option<String>,
    /// When the event at hand was received.
    received: Option<Instant>,
}

/// The receiver of changes is gone: the process is shutting down.
#[derive(Debug)]
pub(super) struct ReceiverClosed;

/// Whether a watch continues, or starts again.
enum WatchOutcome {
    Continue,
    Restart,
}

impl Follower {
    /// Watches the kind until the receiver is gone.
    pub(super) async fn run(mut self) {
        while self.follow_as_served().await.is_ok() {}
    }

    async fn follow_as_served(&mut self) -> Result<(), ReceiverClosed> {
        let service = self.service.borrow_and_update().clone();
        match service {
            Service::Unknown => self.service.changed().await.map_err(|_| ReceiverClosed),
            Service::Absent => {
                self.send_absent().await?;
                self.service.changed().await.map_err(|_| ReceiverClosed)
            }
            Service::Served(resource) => {
                if self.entry_kind().is_some() {
                    self.readiness.references_settled().await;
                }
                if is_scoped(self.kind) {
                    let scope = self.scopes.wait_for(Option::is_some).await;
                    drop(scope.map_err(|_| ReceiverClosed)?);
                    // It may have changed at the same time as the last watch ended.
                    self.rescope(Instant::now()).await?;
                    self.report_scope();
                }
                self.follow(&resource).await
            }
        }
    }

    async fn send_absent(&mut self) -> Result<(), ReceiverClosed> {
        for name in std::mem::take(&mut self.progress.known).into_keys() {
            self.forget(&name);
            self.send(ChangeKind::Delete(name)).await?;
        }
        self.progress.invalid.clear();
        self.progress.held.clear();
        self.reports.absent(self.kind);
        if self.readiness.set(self.kind, State::Absent) {
            info!(
                "{} of group {} is not served by the API server; watching starts when it is",
                self.kind,
                self.kind.group()
            );
        }
        self.send(ChangeKind::Absent).await
    }

    /// Lists and watches, until the kind is served differently, or a new list is needed.
    async fn follow(&mut self, resource: &ApiResource) -> Result<(), ReceiverClosed> {
        let shortened = &self.progress.shortened;
        let heard = self.readiness.heard(self.kind);
        let mut events = Events::new(
            &self.client,
            resource,
            self.kind.definition(),
            shortened,
            &heard,
        );
        if self.progress.paused_until.is_none() {
            events.resume();
        }
        let started = Instant::now();
        self.progress.unlisted = None;
        self.progress.listed_scope = None;
        self.progress.relist_at = None;
        let requests = self.reads.requests.clone();
        let (entry_kind, is_of_policies) = (self.entry_kind(), self.is_of_policies());
        // Nothing is read in the watches of other kinds.
        let read_kind = entry_kind.unwrap_or(EntryKind::ConfigMap);
        loop {
            let paused = self.progress.paused_until;
            let relist = self.progress.relist_at;
            let is_listing = self.progress.unlisted.is_some();
            let far = started + Duration::from_hours(24 * 365);
            let next = tokio::select! {
                served = self.service.changed() => return served.map_err(|_| ReceiverClosed),
                scope = self.scopes.changed() => {
                    scope.map_err(|_| ReceiverClosed)?;
                    self.rescope(started).await?;
                    WatchOutcome::Continue
                }
                () = sleep_until(relist.unwrap_or(far)), if !is_listing && relist.is_some() => WatchOutcome::Restart,
                () = sleep_until(paused.unwrap_or(far)), if paused.is_some() => {
                    self.progress.paused_until = None;
                    events.resume();
                    WatchOutcome::Continue
                }
                reread = self.reads.next(&self.client, read_kind), if entry_kind.is_some() => {
                    self.take_reread(reread, resource).await?;
                    WatchOutcome::Continue
                }
                () = requests.tried(), if is_of_policies => {
                    self.release().await?;
                    WatchOutcome::Continue
                }
                read = events.next(), if paused.is_none() => match read {
                    Some(read) => self.take_read(read, &mut events, resource).await?,
                    None => self.reader_ended(),
                },
            };
            if matches!(next, WatchOutcome::Restart) {
                return Ok(());
            }
        }
    }

    /// Takes an event or error, and those that were read already.
    async fn take_read(
        &mut self,
        first: Read,
        events: &mut Events,
        resource: &ApiResource,
    ) -> Result<WatchOutcome, ReceiverClosed> {
        let mut next = Some(first);
        let mut taken = 0;
        while let Some((received, event)) = next {
            let event = match event {
                Ok(event) => event,
                Err(error) => return self.fail(&error).await,
            };
            self.progress.received = Some(received);
            self.take(event, resource).await?;
            self.progress.received = None;
            taken += 1;
            next = (taken < TAKEN_AT_ONCE).then(|| events.try_next()).flatten();
        }
        Ok(WatchOutcome::Continue)
    }

    async fn take(
        &mut self,
        event: Event<Raw>,
        resource: &ApiResource,
    ) -> Result<(), ReceiverClosed> {
        match event {
            Event::Init => {
                self.progress.unlisted = Some(self.progress.known.keys().cloned().collect());
                self.progress.listed_scope.clone_from(&self.progress.scope);
                return Ok(());
            }
            Event::InitApply(raw) => {
                if let Some(unlisted) = &mut self.progress.unlisted
                    && !unlisted.is_empty()
                {
                    unlisted.remove(&raw.name());
                }
                self.upsert(raw, resource).await?;
                // The list may still fail.
                return Ok(());
            }
            Event::InitDone => {
                self.listed().await?;
                self.recovered();
                // The watch may still fail: if each did, there would be a list after each short wait.
                return Ok(());
            }
            Event::Apply(raw) => self.upsert(raw, resource).await?,
            Event::Delete(raw) => {
                if !self.is_outdated(&raw) {
                    self.delete(&raw.name()).await?;
                }
            }
        }
        self.progress.backoff.reset();
        self.recovered();
        Ok(())
    }

    fn recovered(&mut self) {
        if self.progress.last_error.take().is_some() {
            info!("watch of {} recovered", self.kind);
        }
        self.count();
    }

    /// The end of a list: objects missing in it were deleted.
    async fn listed(&mut self) -> Result<(), ReceiverClosed> {
        for name in self.progress.unlisted.take().unwrap_or_default() {
            // Objects of namespaces that were deselected meanwhile are gone already.
            if self.progress.known.contains_key(&name) {
                self.delete(&name).await?;
            }
        }
        if let Some(selection) = &mut self.selection {
            selection.complete();
        }
        self.measures.list(self.kind.name());
        self.readiness.set(self.kind, State::Synced);
        self.send(ChangeKind::Synced).await?;
        if let Some(scope) = self.progress.listed_scope.take() {
            self.reports.listed(self.kind, &scope);
        }
        Ok(())
    }

    async fn upsert(&mut self, raw: Raw, resource: &ApiResource) -> Result<(), ReceiverClosed> {
        self.measures.event(self.kind.name());
        if self.is_outdated(&raw) {
            return Ok(());
        }
        self.report(raw, resource).await
    }

    async fn report(&mut self, raw: Raw, resource: &ApiResource) -> Result<(), ReceiverClosed> {
        let name = raw.name();
        if is_scoped(self.kind) && !self.is_in_scope(&name) {
            return Ok(());
        }
        let uid = Uid::of(&raw);
        let Some(content) = admission::read(self.kind, &resource.api_version, raw) else {
            return Ok(());
        };
        // An invalid edit keeps the previous version in effect, but not that of a deleted object.
        let replaces = matches!(content, Content::Invalid { .. })
            && self.progress.known.get(&name).is_some_and(|it| *it != uid);
        if replaces {
            self.forget(&name);
        }
        self.record(&name, &content, uid);
        self.take_grant(&name, &content);
        let Some(content) = self.hold(&name, content).await? else {
            return Ok(());
        };
        self.send(if replaces {
            ChangeKind::Replace(name, content)
        } else {
            ChangeKind::Upsert(name, content)
        })
        .await
    }

    fn record(&mut self, name: &ObjectName, content: &Content, uid: Uid) {
        match content {
            Content::Valid { object, .. } => {
                self.progress.invalid.remove(name);
                if let Some(selection) = &mut self.selection {
                    selection.upsert(object);
                }
            }
            Content::Invalid { reference, why, .. } => {
                // Logged once: a condition in its status reports it as long as it lasts.
                if self.progress.invalid.insert(name.clone())
                    && self.progress.invalid.len() <= LOGGED
                {
                    warn!("{reference} is invalid: {why}");
                }
            }
            Content::Parameters(_) | Content::Class { .. } | Content::Release(_) => {}
        }
        // The name in the object, so that both share memory.
        let known = match content {
            Content::Valid { object, .. } => object.metadata().name.clone(),
            _ => name.clone(),
        };
        self.progress.known.insert(known, uid);
    }

    async fn delete(&mut self, name: &ObjectName) -> Result<(), ReceiverClosed> {
        self.measures.event(self.kind.name());
        if self.forget(name) {
            self.send(ChangeKind::Delete(name.clone())).await?;
        }
        Ok(())
    }

    /// Forgets an object. Returns whether it was known.
    fn forget(&mut self, name: &ObjectName) -> bool {
        if self.is_of_policies() {
            self.ask(&ENTRIES.set(name, BTreeSet::new()));
            self.progress.held.remove(name);
        } else if self.is_of_grants() {
            self.ask(&ENTRIES.set_grant(name, None));
        } else if let Some(kind) = self.entry_kind() {
            self.progress.reread.remove(name);
            self.reads.outdate(&(kind, name.clone()));
        }
        self.progress.invalid.remove(name);
        if let Some(selection) = &mut self.selection {
            selection.delete(name);
        }
        self.progress.known.remove(name).is_some()
    }

    fn is_in_scope(&self, name: &ObjectName) -> bool {
        let scope = self.progress.scope.as_ref();
        scope.is_some_and(|scope| scope.contains(&name.namespace))
    }

    /// Applies a change of the selected namespaces.
    async fn rescope(&mut self, started: Instant) -> Result<(), ReceiverClosed> {
        let scope = self.scopes.borrow_and_update().clone();
        if !is_scoped(self.kind) || scope == self.progress.scope {
            return Ok(());
        }
        let old = std::mem::replace(&mut self.progress.scope, scope);
        if let (Some(listed), Some(scope)) = (&self.progress.listed_scope, &self.progress.scope) {
            // Objects of deselected namespaces are missing in the list in progress.
            self.progress.listed_scope = Some(listed.intersection(scope));
        }
        let known = self.progress.known.keys();
        let left: Vec<_> = known
            .filter(|name| !self.is_in_scope(name))
            .cloned()
            .collect();
        for name in left {
            self.delete(&name).await?;
        }
        self.report_scope();
        let is_wider = match (&old, &self.progress.scope) {
            (Some(old), Some(new)) => !old.covers(new),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if is_wider {
            // Skipped objects have to be listed. Many namespaces share one list.
            let earliest = (started + RELIST_INTERVAL).max(Instant::now());
            self.progress.relist_at.get_or_insert(earliest);
        }
        self.count();
        Ok(())
    }

    fn report_scope(&self) {
        if let Some(scope) = &self.progress.scope {
            self.reports.holds(self.kind, scope);
        }
    }

    /// Handles an error: waits, and returns how to continue.
    async fn fail(&mut self, error: &watcher::Error) -> Result<WatchOutcome, ReceiverClosed> {
        // A failed list starts again.
        self.progress.unlisted = None;
        self.progress.listed_scope = None;
        let code = code(error);
        self.measures.error(self.kind.name(), code);
        let text = describe(error);
        self.readiness.fail(self.kind, &text);
        let is_new = self.progress.backoff.is_over();
        if is_new || self.progress.last_error.as_ref() != Some(&text) {
            warn!("watch of {} failed; retrying: {text}", self.kind);
            self.progress.last_error = Some(text);
        }
        self.progress.paused_until = Some(Instant::now() + self.progress.backoff.wait());
        match code {
            // Too far behind: the last list is outdated.
            Some(410) => return Ok(WatchOutcome::Restart),
            Some(404) => self.rediscover.notify_one(),
            Some(403)
                if self.kind.definition().need == Need::Optional
                    && self.progress.known.is_empty() =>
            {
                self.readiness.set(self.kind, State::Forbidden);
                self.send(ChangeKind::Synced).await?;
            }
            _ => {}
        }
        Ok(WatchOutcome::Continue)
    }

    /// The task that reads events has ended: it panicked.
    fn reader_ended(&mut self) -> WatchOutcome {
        warn!(
            "watch of {} ended unexpectedly; listing again",
            self.kind.name()
        );
        self.progress.paused_until = Some(Instant::now() + self.progress.backoff.wait());
        WatchOutcome::Restart
    }

    async fn send(&self, what: ChangeKind) -> Result<(), ReceiverClosed> {
        let change = Change {
            kind: self.kind,
            received: self.progress.received.unwrap_or_else(Instant::now),
            what,
        };
        self.changes.send(change).await.map_err(|_| ReceiverClosed)
    }

    fn count(&self) {
        let progress = &self.progress;
        let (known, invalid) = (progress.known.len(), progress.invalid.len());
        self.measures.objects(self.kind.name(), known, invalid);
    }
}

/// Interval of lists for newly selected namespaces.
const RELIST_INTERVAL: Duration = Duration::from_secs(1);
/// Events that are taken before anything else is looked at, which costs as much as some events; a change
/// of the selected namespaces waits for no more than these.
const TAKEN_AT_ONCE: usize = 64;
/// Invalid objects of a kind that are logged individually.
const LOGGED: usize = 100;

mod errors;
mod lists;
#[cfg(test)]
mod tests;
mod uid;
