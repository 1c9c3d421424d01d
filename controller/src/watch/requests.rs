//! Requests of the watch of policies to those of ConfigMaps and Secrets, the only ones that report them: to read some
//! again, of which a policy needs entries that were dropped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::core::params::ListParams;
use kube::core::{DynamicObject, Request};
use kube::{Client, Resource as _};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::backoff::Backoff;
use super::entries::{ENTRIES, EntryKind, Holder, PARSES};
use super::kinds::resource;
use super::list::ListParser;
use super::raw::Raw;

/// The objects to read again. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<BTreeMap<Holder, Wanted>>,
    /// Wakes the watch of ConfigMaps.
    asked_maps: Notify,
    /// Wakes the watch of Secrets.
    asked_secrets: Notify,
    /// Wakes the watch of policies.
    tried: Notify,
}

/// A request for an object.
#[derive(Debug)]
struct Wanted {
    /// Increases with each reason to read it: what was read before may lack an entry, or be outdated.
    number: u64,
    /// Whether reading has failed, so that policies do not wait for it.
    is_tried: bool,
    /// The namespace of the first policy that needs it. Namespaces take turns, so that none keeps the policies of
    /// others waiting.
    asker: Arc<str>,
    since: Instant,
}

impl Wanted {
    fn by(asker: &Arc<str>) -> Self {
        Self {
            number: 0,
            is_tried: false,
            asker: Arc::clone(asker),
            since: Instant::now(),
        }
    }
}

impl Requests {
    /// Asks for an object that a policy of this namespace needs.
    pub(super) fn ask(&self, name: &Holder, asker: &Arc<str>) {
        let mut all = self.wanted();
        // While reads fail, no policy waits for the next attempt.
        let is_failing = all.values().any(|wanted| wanted.is_tried);
        let wanted = all.entry(name.clone());
        let wanted = wanted.or_insert_with(|| Wanted::by(asker));
        wanted.number += 1;
        wanted.is_tried = is_failing;
        drop(all);
        self.asked(name.0).notify_one();
    }

    /// What wakes the watch of a kind.
    fn asked(&self, kind: EntryKind) -> &Notify {
        match kind {
            EntryKind::ConfigMap => &self.0.asked_maps,
            EntryKind::Secret => &self.0.asked_secrets,
        }
    }

    /// Whether a policy waits for an object: it is asked for, was not tried yet, and not for too long. Without it,
    /// what the policy protects is closed.
    pub(super) fn awaits(&self, name: &Holder) -> bool {
        let all = self.wanted();
        all.get(name)
            .is_some_and(|wanted| !wanted.is_tried && wanted.since.elapsed() < LONGEST_WAIT)
    }

    /// Waits until one of them was tried. Only one may wait.
    pub(super) async fn tried(&self) {
        self.0.tried.notified().await;
    }

    /// The watch has reported the object: a read that is in progress may be older.
    fn outdate(&self, name: &Holder) {
        if let Some(wanted) = self.wanted().get_mut(name) {
            wanted.number += 1;
        }
    }

    fn is_current(&self, name: &Holder, number: u64) -> bool {
        let all = self.wanted();
        all.get(name).is_some_and(|wanted| wanted.number == number)
    }

    /// What was read for this number is reported.
    fn finish(&self, name: &Holder, number: u64) {
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

    /// What is to be read of a kind, without ConfigMaps that no policy refers to any more. Secrets are read once
    /// more then, so that their entries are not kept.
    fn due(&self, kind: EntryKind, reading: &HashSet<Holder>) -> Vec<(Holder, u64)> {
        let mut all = self.wanted();
        let is_secret = kind == EntryKind::Secret;
        // What the watch of the other kind reads is for it to keep.
        all.retain(|name, _| {
            is_secret || name.0 != kind || reading.contains(name) || ENTRIES.has_object(name)
        });
        let of_kind = || all.iter().filter(|(name, _)| name.0 == kind);
        let mut turns: HashMap<&Arc<str>, usize> = HashMap::new();
        for (_, wanted) in of_kind().filter(|(name, _)| reading.contains(*name)) {
            *turns.entry(&wanted.asker).or_default() += 1;
        }
        let waiting = of_kind().filter(|(name, _)| !reading.contains(*name));
        let mut due: Vec<_> = waiting
            .map(|(name, wanted)| {
                let turn = turns.entry(&wanted.asker).or_default();
                *turn += 1;
                (*turn, name, wanted.number)
            })
            .collect();
        due.sort_by_key(|(turn, ..)| *turn);
        let due = due
            .into_iter()
            .map(|(_, name, number)| (name.clone(), number));
        due.take(AT_ONCE.saturating_sub(reading.len())).collect()
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeMap<Holder, Wanted>> {
        let wanted = self.0.wanted.lock();
        wanted.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reads that are in progress, in the watch of ConfigMaps or Secrets.
#[derive(Debug, Default)]
pub(super) struct Reads {
    pub(super) requests: Requests,
    running: JoinSet<Attempt>,
    reading: HashSet<Holder>,
    backoff: Backoff,
    paused_until: Option<Instant>,
}

/// An attempt to read an object.
#[derive(Debug)]
struct Attempt {
    name: Holder,
    number: u64,
    read: Result<Option<Raw>, String>,
}

/// An object that was read, to be reported.
#[derive(Debug)]
pub(super) struct Reread {
    name: Holder,
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

    /// Reads what is asked for of a kind, until an object is to be reported. Failed reads are repeated after a while.
    /// It can be cancelled at any time.
    pub(super) async fn next(&mut self, client: &Client, kind: EntryKind) -> Reread {
        loop {
            if self
                .paused_until
                .is_none_or(|until| until <= Instant::now())
            {
                self.paused_until = None;
                self.start(client, kind);
            }
            let until = self.paused_until.unwrap_or_else(Instant::now);
            tokio::select! {
                Some(attempt) = self.running.join_next() => {
                    // A panic ends the watch, as one of its own does.
                    if let Some(reread) = self.take(attempt.expect("a read does not panic")) {
                        return reread;
                    }
                }
                () = self.requests.asked(kind).notified() => {}
                () = sleep_until(until), if self.paused_until.is_some() => {}
            }
        }
    }

    /// An object was reported as it was read.
    pub(super) fn reported(&self, reread: &(Holder, u64)) {
        self.requests.finish(&reread.0, reread.1);
    }

    /// The watch has reported an event of an object.
    pub(super) fn outdate(&self, name: &Holder) {
        self.requests.outdate(name);
    }

    fn start(&mut self, client: &Client, kind: EntryKind) {
        for (name, number) in self.requests.due(kind, &self.reading) {
            self.reading.insert(name.clone());
            let client = client.clone();
            self.running.spawn(async move {
                let read = PARSES.scope(kind, read(&client, &name));
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
                    let (kind, name) = (name.0.object_kind(), name.1);
                    warn!(
                        "{kind} {name} cannot be read, which a policy refers to; retrying: {error}"
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
    pub(super) fn split(self) -> ((Holder, u64), Raw) {
        ((self.name, self.number), self.raw)
    }
}

/// Reads an object as it is now. `None` if it does not exist.
async fn read(client: &Client, (kind, name): &Holder) -> Result<Option<Raw>, String> {
    let resource = resource(kind.object_kind(), "v1");
    let path = DynamicObject::url_path(&resource, Some(&name.namespace));
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

/// Objects of a kind that are read at the same time.
const AT_ONCE: usize = 8;
/// How long a read may take: 5 s.
const LONGEST_READ: Duration = Duration::from_secs(5);
/// How long a policy may wait for an object: 5 s. Until it is taken, its targets may be open.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use xds::model::ObjectName;

    use super::super::entries::Needed;
    use super::*;

    fn secret(namespace: &str, number: usize) -> Holder {
        let name = format!("requests-{number}");
        (EntryKind::Secret, ObjectName::new(namespace, &name))
    }

    fn ask(requests: &Requests, asker: &str, secrets: &[Holder]) {
        let all = secrets.iter().map(|it| (it.clone(), Needed::AllEntries));
        let policy = ObjectName::new(asker, "requests");
        ENTRIES.set(&policy, all.collect::<BTreeSet<_>>());
        for secret in secrets {
            requests.ask(secret, &policy.namespace);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_needs_much_keeps_no_other_waiting() {
        let requests = Requests::default();
        let many: Vec<Holder> = (0..1000).map(|number| secret("aaa", number)).collect();
        ask(&requests, "aaa", &many);
        ask(&requests, "shop", &[secret("shop", 0)]);
        let due = requests.due(EntryKind::Secret, &HashSet::new());
        let due: HashSet<Holder> = due.into_iter().map(|(name, _)| name).collect();
        assert!(due.len() == AT_ONCE && due.contains(&secret("shop", 0)));
        // It is the next one also where the other one has all places but one.
        let reading: HashSet<Holder> = many[..AT_ONCE - 1].iter().cloned().collect();
        let due = requests.due(EntryKind::Secret, &reading);
        assert!(
            matches!(&*due, [(name, _)] if *name == secret("shop", 0)),
            "{due:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_waits_for_a_while_only() {
        let (requests, wanted) = (Requests::default(), secret("late", 0));
        ask(&requests, "late", std::slice::from_ref(&wanted));
        assert!(requests.awaits(&wanted));
        tokio::time::advance(LONGEST_WAIT).await;
        assert!(!requests.awaits(&wanted), "its targets must not stay open");
        // It is still read, and the policy gets it then.
        let due = requests.due(EntryKind::Secret, &HashSet::new());
        assert_eq!(due.len(), 1);
    }
}
