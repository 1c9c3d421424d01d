//! Writes Events about what does not work as written: unlike the condition, which is removed once the object is
//! corrected, they record when it happened.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::timeout;
use tracing::debug;
use translate::{ObjectKind, ObjectRef};
use xds::model::{Kind, ObjectName, ResourceKey};

use super::metrics::StatusMetrics;
use super::warnings::{Tone, Warning};
use crate::watch::resource;

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

/// Writes Events. Those that it cannot write in time are dropped, and counted: the condition has the same text.
#[derive(Debug, Clone)]
pub struct Events(mpsc::Sender<Note>);

/// What an Event is to say, and of which object.
#[derive(Debug)]
struct Note {
    object: ObjectRef,
    identity: Identity,
    warning: Warning,
}

/// What distinguishes an object from others of its name: `kubectl describe` shows the Events of one UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// The version of its API, such as `gateway.networking.k8s.io/v1`, and its UID.
    Known { api_version: String, uid: String },
    /// To be asked for: of objects without a status of ours, only what configuration needs is kept.
    AskedFor,
}

impl Events {
    /// A queue of Events, and the task that writes them until the last clone is dropped.
    pub fn new(
        client: Client,
        controller_name: &str,
        instance: &str,
        metrics: StatusMetrics,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (sender, mut receiver) = mpsc::channel::<Note>(MOST_QUEUED);
        let reporter = Reporter {
            controller: controller_name.to_owned(),
            instance: Some(instance.to_owned()),
        };
        let recorder = Recorder::new(client.clone(), reporter);
        let writing = async move {
            while let Some(note) = receiver.recv().await {
                let written = timeout(DEADLINE, write(&client, &recorder, &note)).await;
                if let Ok(Some(())) = written {
                    continue;
                }
                metrics.event_dropped();
                debug!(object = %note.object, "an Event was dropped");
            }
        };
        (Self(sender), writing)
    }

    /// Records that an object does not do what its author expects, or does again. Returns whether the queue had
    /// room for it.
    #[must_use]
    pub(super) fn record(&self, object: &ObjectRef, identity: Identity, warning: Warning) -> bool {
        let object = object.clone();
        let note = Note {
            object,
            identity,
            warning,
        };
        !matches!(self.0.try_send(note), Err(TrySendError::Full(_)))
    }
}

/// Writes an Event. `None` if its object does not exist, or the API server refuses it.
async fn write(client: &Client, recorder: &Recorder, note: &Note) -> Option<()> {
    let Note {
        object,
        identity,
        warning,
    } = note;
    let (api_version, uid) = match identity {
        Identity::Known { api_version, uid } => (api_version.clone(), uid.clone()),
        Identity::AskedFor => ask(client, object).await?,
    };
    let reference = ObjectReference {
        api_version: Some(api_version),
        kind: Some(object.kind.to_string()),
        name: Some(object.name.name.to_string()),
        namespace: Some(object.name.namespace.to_string()),
        uid: (!uid.is_empty()).then_some(uid),
        ..ObjectReference::default()
    };
    let mut text = warning.text.clone();
    text.truncate(text.floor_char_boundary(MAX_NOTE));
    let event = Event {
        type_: match warning.tone {
            Tone::Warning => EventType::Warning,
            Tone::Normal => EventType::Normal,
        },
        reason: warning.reason.clone(),
        note: Some(text),
        action: "Configure".to_owned(),
        secondary: None,
    };
    recorder.publish(&event, &reference).await.ok()
}

/// The version and UID of an object: from a list of its name, since the controller may list all kinds that it
/// reads, and get none of them.
async fn ask(client: &Client, object: &ObjectRef) -> Option<(String, String)> {
    let version = object.kind.definition().versions.first()?;
    let resource: ApiResource = resource(object.kind, version);
    let objects: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &object.name.namespace, &resource);
    let only = ListParams::default().fields(&format!("metadata.name={}", object.name.name));
    let found = objects.list_metadata(&only).await.ok()?;
    let mut found = found.items.into_iter();
    let found = found.find(|it| it.metadata.name.as_deref() == Some(&*object.name.name))?;
    Some((resource.api_version, found.metadata.uid?))
}

/// Events that wait to be written, at most: 30. Others wait where they are known, and are written later in the
/// state that they have then.
const MOST_QUEUED: usize = 30;
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
}
