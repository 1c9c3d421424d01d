//! Requests of the watch of policies to that of ConfigMaps, the only one that reports them: to read some again,
//! of which a policy needs entries that were dropped.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::core::params::ListParams;
use kube::core::{DynamicObject, Request};
use kube::{Client, Resource as _};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;
use translate::ObjectKind;
use xds::model::ObjectName;

use super::backoff::Backoff;
use super::entries::{ENTRIES, PARSES_CONFIG_MAPS};
use super::kinds::resource;
use super::list::ListParser;
use super::raw::Raw;

/// The ConfigMaps to read again. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<BTreeMap<ObjectName, Wanted>>,
    /// Wakes the watch of ConfigMaps.
    asked: Notify,
    /// Wakes the watch of policies.
    tried: Notify,
}

/// A request for a ConfigMap.
#[derive(Debug, Default)]
struct Wanted {
    /// Increases with each reason to read it: what was read before may lack an entry, or be outdated.
    number: u64,
    /// Whether reading has failed, so that policies do not wait for it.
    is_tried: bool,
}

impl Requests {
    /// Asks for a ConfigMap.
    pub(super) fn ask(&self, name: &ObjectName) {
        let mut all = self.wanted();
        // While reads fail, no policy waits for the next attempt.
        let is_failing = all.values().any(|wanted| wanted.is_tried);
        let wanted = all.entry(name.clone()).or_default();
        wanted.number += 1;
        wanted.is_tried = is_failing;
        drop(all);
        self.0.asked.notify_one();
    }

    /// Whether a ConfigMap is asked for that was not tried yet.
    pub(super) fn awaits(&self, name: &ObjectName) -> bool {
        let all = self.wanted();
        all.get(name).is_some_and(|wanted| !wanted.is_tried)
    }

    /// Waits until one of them was tried. Only one may wait.
    pub(super) async fn tried(&self) {
        self.0.tried.notified().await;
    }

    /// The watch has reported the ConfigMap: a read that is in progress may be older.
    fn outdate(&self, name: &ObjectName) {
        if let Some(wanted) = self.wanted().get_mut(name) {
            wanted.number += 1;
        }
    }

    fn is_current(&self, name: &ObjectName, number: u64) -> bool {
        let all = self.wanted();
        all.get(name).is_some_and(|wanted| wanted.number == number)
    }

    /// What was read for this number is reported.
    fn finish(&self, name: &ObjectName, number: u64) {
        if self.is_current(name, number) {
            self.wanted().remove(name);
            self.0.tried.notify_one();
        }
    }

    /// Reading failed. No policy waits for any of them then: its targets may be open without it.
    fn fail(&self) {
        for wanted in self.wanted().values_mut() {
            wanted.is_tried = true;
        }
        self.0.tried.notify_one();
    }

    /// What is to be read, without those that no policy refers to any more.
    fn due(&self, reading: &HashSet<ObjectName>) -> Vec<(ObjectName, u64)> {
        let mut all = self.wanted();
        all.retain(|name, _| reading.contains(name) || ENTRIES.has_object(name));
        let due = all.iter().filter(|(name, _)| !reading.contains(*name));
        let due = due.map(|(name, wanted)| (name.clone(), wanted.number));
        due.take(AT_ONCE.saturating_sub(reading.len())).collect()
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeMap<ObjectName, Wanted>> {
        let wanted = self.0.wanted.lock();
        wanted.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reads that are in progress, in the watch of ConfigMaps.
#[derive(Debug, Default)]
pub(super) struct Reads {
    pub(super) requests: Requests,
    running: JoinSet<Attempt>,
    reading: HashSet<ObjectName>,
    backoff: Backoff,
    paused_until: Option<Instant>,
}

/// An attempt to read a ConfigMap.
#[derive(Debug)]
struct Attempt {
    name: ObjectName,
    number: u64,
    read: Result<Option<Raw>, String>,
}

/// A ConfigMap that was read, to be reported.
#[derive(Debug)]
pub(super) struct Reread {
    name: ObjectName,
    number: u64,
    pub(super) raw: Raw,
}

impl Reads {
    pub(super) fn new(requests: &Requests) -> Self {
        Self {
            requests: requests.clone(),
            ..Self::default()
        }
    }

    /// Reads what is asked for, until a ConfigMap is to be reported. Failed reads are repeated after a while.
    /// It can be cancelled at any time.
    pub(super) async fn next(&mut self, client: &Client) -> Reread {
        loop {
            if self
                .paused_until
                .is_none_or(|until| until <= Instant::now())
            {
                self.paused_until = None;
                self.start(client);
            }
            let until = self.paused_until.unwrap_or_else(Instant::now);
            tokio::select! {
                Some(attempt) = self.running.join_next() => {
                    // A panic ends the watch, as one of its own does.
                    if let Some(reread) = self.take(attempt.expect("a read does not panic")) {
                        return reread;
                    }
                }
                () = self.requests.0.asked.notified() => {}
                () = sleep_until(until), if self.paused_until.is_some() => {}
            }
        }
    }

    /// A ConfigMap was reported as it was read.
    pub(super) fn reported(&self, reread: &(ObjectName, u64)) {
        self.requests.finish(&reread.0, reread.1);
    }

    /// The watch has reported an event of a ConfigMap.
    pub(super) fn outdate(&self, name: &ObjectName) {
        self.requests.outdate(name);
    }

    fn start(&mut self, client: &Client) {
        for (name, number) in self.requests.due(&self.reading) {
            self.reading.insert(name.clone());
            let client = client.clone();
            self.running.spawn(async move {
                let read = PARSES_CONFIG_MAPS.scope(true, read(&client, &name));
                let read = timeout(LONGEST_READ, read).await;
                let read =
                    read.unwrap_or_else(|_| Err("the API server does not respond".to_owned()));
                Attempt { name, number, read }
            });
        }
    }

    fn take(&mut self, attempt: Attempt) -> Option<Reread> {
        let Attempt { name, number, read } = attempt;
        self.reading.remove(&name);
        let raw = match read {
            Ok(raw) => raw,
            Err(error) => {
                if self.backoff.is_over() {
                    warn!(
                        "ConfigMap {name} cannot be read, which a policy refers to; retrying: {error}"
                    );
                }
                if self.paused_until.is_none() {
                    self.paused_until = Some(Instant::now() + self.backoff.wait());
                }
                self.requests.fail();
                return None;
            }
        };
        if !self.requests.is_current(&name, number) {
            // It is read again.
            return None;
        }
        let Some(raw) = raw else {
            // The watch reports when it is deleted or created.
            self.requests.finish(&name, number);
            return None;
        };
        Some(Reread { name, number, raw })
    }
}

impl Reread {
    /// What [`Reads::reported`] needs, and the object.
    pub(super) fn split(self) -> ((ObjectName, u64), Raw) {
        ((self.name, self.number), self.raw)
    }
}

/// Reads a ConfigMap as it is now. `None` if it does not exist.
async fn read(client: &Client, name: &ObjectName) -> Result<Option<Raw>, String> {
    let maps = resource(ObjectKind::ConfigMap, "v1");
    let path = DynamicObject::url_path(&maps, Some(&name.namespace));
    // A list of one object needs no other permission than the watch.
    let params = ListParams::default().fields(&format!("metadata.name={}", name.name));
    let request = Request::new(path).list(&params);
    let request = request.map_err(|error| error.to_string())?;
    let text = client.request_text(request).await;
    let text = text.map_err(|error| error.to_string())?;
    let mut list = ListParser::default();
    list.receive(text.as_bytes());
    let first = list.next().map_err(|error| error.to_string())?;
    if first.is_none() {
        list.finish().map_err(|error| error.to_string())?;
    }
    Ok(first)
}

/// ConfigMaps that are read at the same time.
const AT_ONCE: usize = 8;
/// How long a policy may wait for a list: 5 s. Until it is taken, its targets may be open.
const LONGEST_READ: Duration = Duration::from_secs(5);
