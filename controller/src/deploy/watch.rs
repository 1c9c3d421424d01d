//! Watches the objects of Gateways' workloads: metadata only, and the addresses of Services.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_lite::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;
use translate::AssignedAddresses;
use xds::model::ObjectName;

use super::child::{Child, ChildKind, ObservedChild, selector};
use super::render::addresses;
use crate::change_tracker::ChangeTracker;

/// The objects in the cluster.
#[derive(Debug, Default)]
pub(super) struct Children {
    known: Mutex<KnownChildren>,
    /// Changed objects, for the deployer.
    pub(super) changed: ChangeTracker<Child, ObservedChild>,
    /// Kinds that were listed completely.
    listed: watch::Sender<BTreeSet<ChildKind>>,
}

#[derive(Debug, Default)]
struct KnownChildren {
    seen: BTreeMap<Child, ObservedChild>,
    /// Objects being applied, with the UIDs of those deleted meanwhile: a response may arrive after
    /// the watch reported the deletion.
    applying: BTreeMap<Child, BTreeSet<String>>,
}

impl Children {
    pub(super) fn get(&self, child: &Child) -> Option<ObservedChild> {
        self.known().seen.get(child).cloned()
    }

    /// Objects controlled by the Gateway with this UID.
    pub(super) fn of(&self, gateway: &str) -> Vec<(Child, ObservedChild)> {
        let known = self.known();
        let ours = known
            .seen
            .iter()
            .filter(|(_, it)| it.owner.as_deref() == Some(gateway));
        ours.map(|(child, it)| (child.clone(), it.clone()))
            .collect()
    }

    /// Records that an object is about to be applied.
    pub(super) fn begin(&self, child: &Child) {
        let mut known = self.known();
        known.applying.insert(child.clone(), BTreeSet::new());
    }

    /// Stores the object in the response of an application, unless it was deleted meanwhile.
    pub(super) fn record_response(&self, child: &Child, seen: Option<ObservedChild>) {
        let mut known = self.known();
        let gone = known.applying.remove(child).unwrap_or_default();
        if let Some(seen) = seen.filter(|it| !gone.contains(&it.uid)) {
            known.seen.insert(child.clone(), seen.clone());
            self.changed.set(child, Some(seen));
        }
    }

    /// Stores an object reported by a watch.
    fn put(&self, child: &Child, seen: ObservedChild) {
        let mut known = self.known();
        known.seen.insert(child.clone(), seen.clone());
        self.changed.set(child, Some(seen));
    }

    /// Removes a deleted object.
    fn remove(&self, child: &Child, uid: &str) {
        let mut known = self.known();
        if let Some(gone) = known.applying.get_mut(child) {
            gone.insert(uid.to_owned());
        }
        known.seen.remove(child);
        self.changed.set(child, None);
    }

    /// Whether all kinds were listed.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.borrow().len() == ChildKind::ALL.len()
    }

    /// Waits until all kinds were listed.
    pub(super) async fn listed(&self) {
        let mut listed = self.listed.subscribe();
        // Cannot fail, since the sender is ours too.
        let _ = listed.wait_for(|it| it.len() == ChildKind::ALL.len()).await;
    }

    fn known(&self) -> MutexGuard<'_, KnownChildren> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches all kinds, until the set is dropped.
pub(super) fn start(
    client: &Client,
    children: &Arc<Children>,
    assigned: impl Fn(&ObjectName, AssignedAddresses) + Send + Sync + 'static,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    metadata_of::<ServiceAccount>(&mut tasks, client, children, ChildKind::ServiceAccount);
    metadata_of::<ConfigMap>(&mut tasks, client, children, ChildKind::ConfigMap);
    metadata_of::<Deployment>(&mut tasks, client, children, ChildKind::Deployment);
    metadata_of::<DaemonSet>(&mut tasks, client, children, ChildKind::DaemonSet);
    let services = watcher::watcher(Api::<Service>::all(client.clone()), settings());
    let mut gateways: BTreeMap<Child, ObjectName> = BTreeMap::new();
    let note = move |child: &Child, service: Option<&Service>| {
        let Some(service) = service else {
            if let Some(gateway) = gateways.remove(child) {
                assigned(&gateway, AssignedAddresses::default());
            }
            return;
        };
        let ports = service.spec.iter().flat_map(|it| it.ports.iter().flatten());
        let is_metrics = { ports }.any(|port| port.name.as_deref() == Some("metrics"));
        let owner = ObservedChild::of(service.meta()).owner_name;
        if let Some(owner) = owner.filter(|_| !is_metrics) {
            let gateway = ObjectName::new(&child.name.namespace, &owner);
            assigned(&gateway, addresses(service));
            gateways.insert(child.clone(), gateway);
        }
    };
    let children = Arc::clone(children);
    tasks.spawn(follow(services, children, ChildKind::Service, note));
    tasks
}

fn metadata_of<K>(
    tasks: &mut JoinSet<()>,
    client: &Client,
    children: &Arc<Children>,
    kind: ChildKind,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug + Send + 'static,
{
    let objects = Api::<PartialObjectMeta<K>>::all(client.clone());
    let objects = watcher::watcher(objects, settings());
    tasks.spawn(follow(objects, Arc::clone(children), kind, |_, _| {}));
}

fn settings() -> watcher::Config {
    watcher::Config::default()
        .labels(&selector())
        .timeout(WATCH_SECONDS)
}

/// Watches one kind. Objects missing in a new list were deleted.
async fn follow<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    children: Arc<Children>,
    kind: ChildKind,
    mut note: impl FnMut(&Child, Option<&K>) + Send,
) where
    K: Resource<DynamicType = ()> + Send,
{
    let events = events.default_backoff();
    let mut events = std::pin::pin!(events);
    let mut listing = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(object)) => {
                let child = child(kind, object.meta());
                note(&child, Some(&object));
                children.put(&child, ObservedChild::of(object.meta()));
                listing.insert(child);
            }
            Ok(Event::InitDone) => {
                let known = children.known().seen.clone();
                let gone = known.iter();
                let gone = gone.filter(|(it, _)| it.kind == kind && !listing.contains(it));
                for (child, seen) in gone {
                    note(child, None);
                    children.remove(child, &seen.uid);
                }
                children
                    .listed
                    .send_if_modified(|listed| listed.insert(kind));
            }
            Ok(Event::Apply(object)) => {
                let child = child(kind, object.meta());
                note(&child, Some(&object));
                children.put(&child, ObservedChild::of(object.meta()));
            }
            Ok(Event::Delete(object)) => {
                let child = child(kind, object.meta());
                note(&child, None);
                children.remove(&child, object.meta().uid.as_deref().unwrap_or_default());
            }
            Err(error) => warn!(?kind, %error, "cannot watch the resources of Gateways"),
        }
    }
}

fn child(kind: ChildKind, metadata: &ObjectMeta) -> Child {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Child {
        kind,
        name: ObjectName::new(&text(&metadata.namespace), &text(&metadata.name)),
    }
}

/// Duration of a watch request, so that a dead connection is noticed: 60 s.
const WATCH_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Child {
        Child {
            kind: ChildKind::Service,
            name: ObjectName::new("infra", "edge"),
        }
    }

    fn seen(uid: &str) -> ObservedChild {
        ObservedChild::of(&ObjectMeta {
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        })
    }

    /// As when a Gateway is deleted while its Service is applied, and created again.
    #[test]
    fn a_late_response_does_not_restore_a_deleted_object() {
        let (children, child) = (Children::default(), service());
        children.begin(&child);
        children.put(&child, seen("first"));
        children.remove(&child, "first");
        children.record_response(&child, Some(seen("first")));
        assert_eq!(children.get(&child), None);
    }

    #[test]
    fn a_response_is_kept_when_an_earlier_object_of_the_name_was_deleted() {
        let (children, child) = (Children::default(), service());
        children.begin(&child);
        children.remove(&child, "first");
        children.record_response(&child, Some(seen("second")));
        assert_eq!(children.get(&child), Some(seen("second")));
        children.begin(&child);
        children.record_response(&child, None);
        assert_eq!(children.get(&child), Some(seen("second")), "it failed");
    }
}
