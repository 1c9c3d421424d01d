//! Events for resources rejected by proxies, and for what does not work as written: unlike the condition, which
//! is removed once the object is corrected, they record when it happened.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, timeout};
use tracing::debug;
use translate::{ObjectKind, ObjectRef};
use xds::model::{Kind, ObjectName, ResourceKey};

use super::warnings::Tone;

/// The object of a resource, from its key.
#[must_use]
pub fn object_of(resource: &ResourceKey) -> Option<ObjectRef> {
    let parts: Vec<&str> = resource.key.split('/').collect();
    let (kind, namespace, name) = match (resource.kind, &*parts) {
        (Kind::Bind, [_, _, namespace, name]) => (ObjectKind::Gateway, *namespace, *name),
        (_, [kind, namespace, name, ..]) => (ObjectKind::named(kind)?, *namespace, *name),
        _ => return None,
    };
    Some(ObjectRef::new(kind, &ObjectName::new(namespace, name)))
}

/// Rejections already reported, so that each is reported once, and a proxy that keeps rejecting new
/// ones does not flood the cluster.
#[derive(Debug, Default)]
pub struct ReportedRejections {
    texts: BTreeMap<ResourceKey, String>,
    recent: VecDeque<Instant>,
}

impl ReportedRejections {
    /// The rejections of a Gateway's proxies to report now.
    pub fn new_ones<'a>(
        &mut self,
        before: impl IntoIterator<Item = &'a ResourceKey>,
        refused: &'a BTreeMap<ResourceKey, String>,
        now: Instant,
    ) -> Vec<(&'a ResourceKey, &'a str)> {
        for gone in before.into_iter().filter(|it| !refused.contains_key(it)) {
            self.texts.remove(gone);
        }
        while self.recent.front().is_some_and(|at| *at + PERIOD <= now) {
            self.recent.pop_front();
        }
        let mut unreported = Vec::new();
        for (key, text) in refused {
            if self.texts.get(key) == Some(text) || self.recent.len() >= PER_PERIOD {
                continue;
            }
            self.texts.insert(key.clone(), text.clone());
            self.recent.push_back(now);
            unreported.push((key, text.as_str()));
        }
        unreported
    }
}

/// Writes events. Those that it cannot write in time are dropped: the condition has the same text.
#[derive(Debug, Clone)]
pub struct Events(mpsc::Sender<(ObjectReference, Note)>);

/// The content of an event.
#[derive(Debug)]
struct Note {
    tone: Tone,
    reason: String,
    text: String,
}

impl Events {
    /// A queue of events, and the task that writes them until the last clone is dropped.
    pub fn new(
        client: Client,
        controller_name: &str,
        instance: &str,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (sender, mut receiver) = mpsc::channel::<(ObjectReference, Note)>(PER_PERIOD);
        let reporter = Reporter {
            controller: controller_name.to_owned(),
            instance: Some(instance.to_owned()),
        };
        let recorder = Recorder::new(client, reporter);
        let writing = async move {
            while let Some((object, note)) = receiver.recv().await {
                let event = Event {
                    type_: match note.tone {
                        Tone::Warning => EventType::Warning,
                        Tone::Normal => EventType::Normal,
                    },
                    reason: note.reason,
                    note: Some(note.text),
                    action: "Configure".to_owned(),
                    secondary: None,
                };
                let published = timeout(DEADLINE, recorder.publish(&event, &object)).await;
                if !matches!(published, Ok(Ok(()))) {
                    debug!(?object, "an event was dropped");
                }
            }
        };
        (Self(sender), writing)
    }

    /// Records an event about an object that a proxy rejects; it is dropped if the queue is full.
    pub fn refused(&self, object: &ObjectRef, api_version: Option<&str>, uid: &str, why: &str) {
        let note = Note {
            tone: Tone::Warning,
            reason: "RefusedByProxy".to_owned(),
            text: format!("a proxy rejected it; the previous version, if any, stays: {why}"),
        };
        if !self.send(object, (api_version, uid), note) {
            debug!(%object, "an event was dropped: the queue is full");
        }
    }

    /// Records an event about an object: that it does not do what its author expects, or does again. Returns
    /// whether the queue had room for it.
    #[must_use]
    pub(super) fn record(
        &self,
        object: &ObjectRef,
        (api_version, uid): (Option<&str>, &str),
        tone: Tone,
        (reason, text): (String, String),
    ) -> bool {
        self.send(object, (api_version, uid), Note { tone, reason, text })
    }

    /// Returns whether the queue had room.
    fn send(
        &self,
        object: &ObjectRef,
        (api_version, uid): (Option<&str>, &str),
        mut note: Note,
    ) -> bool {
        let reference = ObjectReference {
            api_version: api_version.map(str::to_owned),
            kind: Some(object.kind.to_string()),
            name: Some(object.name.name.to_string()),
            namespace: Some(object.name.namespace.to_string()),
            uid: (!uid.is_empty()).then(|| uid.to_owned()),
            ..ObjectReference::default()
        };
        note.text.truncate(note.text.floor_char_boundary(MAX_NOTE));
        !matches!(
            self.0.try_send((reference, note)),
            Err(TrySendError::Full(_))
        )
    }
}

/// Most events per [`PERIOD`]: 30.
const PER_PERIOD: usize = 30;
/// See [`PER_PERIOD`]: 60 s.
const PERIOD: Duration = Duration::from_mins(1);
/// Timeout for one event: 10 s.
const DEADLINE: Duration = Duration::from_secs(10);
/// Most bytes of a note: 1 KiB, the API server's limit.
const MAX_NOTE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: Kind, key: &str) -> ResourceKey {
        ResourceKey {
            kind,
            key: key.into(),
        }
    }

    #[test]
    fn resource_keys_are_mapped_to_the_users_objects() {
        for (kind, text, expected) in [
            (Kind::Bind, "tcp/80/infra/edge", "Gateway infra/edge"),
            (
                Kind::Listener,
                "Gateway/infra/edge/web",
                "Gateway infra/edge",
            ),
            (
                Kind::Listener,
                "ListenerSet/app/more/web",
                "ListenerSet app/more",
            ),
            (
                Kind::Route,
                "HTTPRoute/app/shop/3/infra/edge",
                "HTTPRoute app/shop",
            ),
            (
                Kind::Policy,
                "TrafficPolicy/app/jwt/x",
                "TrafficPolicy app/jwt",
            ),
            (Kind::Service, "Service/app/shop", "Service app/shop"),
        ] {
            let object = object_of(&key(kind, text)).expect("an object");
            assert_eq!(object.to_string(), expected);
        }
        assert_eq!(object_of(&key(Kind::Service, "garbage")), None);
    }

    #[test]
    fn each_rejection_is_reported_once_and_a_flood_is_limited() {
        let (mut reported, now) = (ReportedRejections::default(), Instant::now());
        let one = BTreeMap::from([(key(Kind::Service, "Service/a/b"), "bad port".to_owned())]);
        assert_eq!(reported.new_ones([], &one, now).len(), 1);
        assert_eq!(reported.new_ones(one.keys(), &one, now), []);
        // Repaired, and broken again.
        assert_eq!(reported.new_ones(one.keys(), &BTreeMap::new(), now), []);
        assert_eq!(reported.new_ones([], &one, now).len(), 1);
        let flood = (0..100).map(|it| {
            (
                key(Kind::Service, &format!("Service/a/s{it}")),
                String::new(),
            )
        });
        let flood: BTreeMap<_, _> = flood.collect();
        assert_eq!(reported.new_ones([], &flood, now).len(), PER_PERIOD - 2);
        assert_eq!(
            reported.new_ones([], &flood, now + PERIOD).len(),
            PER_PERIOD
        );
    }
}
