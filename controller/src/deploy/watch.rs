//! What stands in the cluster of what Gateways run on, as watches tell it: metadata alone, and of
//! Services also the addresses.

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

use super::child::{Child, ChildKind, Seen, selector};
use super::render::addresses;
use crate::board::Board;

/// What stands in the cluster.
#[derive(Debug, Default)]
pub(super) struct Children {
    seen: Mutex<BTreeMap<Child, Seen>>,
    /// Objects that have changed, for the deployer.
    pub(super) changed: Board<Child, Seen>,
    /// Kinds that were listed as a whole.
    listed: watch::Sender<BTreeSet<ChildKind>>,
}

impl Children {
    pub(super) fn get(&self, child: &Child) -> Option<Seen> {
        self.seen().get(child).cloned()
    }

    /// Objects that a Gateway of this UID controls.
    pub(super) fn of(&self, gateway: &str) -> Vec<(Child, Seen)> {
        let seen = self.seen();
        let ours = seen
            .iter()
            .filter(|(_, it)| it.owner.as_deref() == Some(gateway));
        ours.map(|(child, it)| (child.clone(), it.clone()))
            .collect()
    }

    /// Takes over an object, as a watch or an answer tells it.
    pub(super) fn put(&self, child: &Child, seen: Option<Seen>) {
        match &seen {
            Some(seen) => drop(self.seen().insert(child.clone(), seen.clone())),
            None => drop(self.seen().remove(child)),
        }
        self.changed.set(child, seen);
    }

    /// Whether everything of every kind was listed.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.borrow().len() == ChildKind::ALL.len()
    }

    /// Waits until everything of every kind was listed.
    pub(super) async fn listed(&self) {
        let mut listed = self.listed.subscribe();
        // Without an error, since the sender is ours too.
        let _ = listed.wait_for(|it| it.len() == ChildKind::ALL.len()).await;
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<Child, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows every kind, until the set is dropped.
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
        let owner = Seen::of(service.meta()).owner_name;
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

/// Follows one kind. What a new list does not have any more is gone.
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
                children.put(&child, Some(Seen::of(object.meta())));
                listing.insert(child);
            }
            Ok(Event::InitDone) => {
                let known: Vec<Child> = children.seen().keys().cloned().collect();
                for gone in known
                    .iter()
                    .filter(|it| it.kind == kind && !listing.contains(it))
                {
                    note(gone, None);
                    children.put(gone, None);
                }
                children
                    .listed
                    .send_if_modified(|listed| listed.insert(kind));
            }
            Ok(Event::Apply(object)) => {
                let child = child(kind, object.meta());
                note(&child, Some(&object));
                children.put(&child, Some(Seen::of(object.meta())));
            }
            Ok(Event::Delete(object)) => {
                let child = child(kind, object.meta());
                note(&child, None);
                children.put(&child, None);
            }
            Err(error) => warn!(?kind, %error, "cannot watch what Gateways run on"),
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

/// After which a watch begins anew, so that one that has died is noticed: 60 s.
const WATCH_SECONDS: u32 = 60;
