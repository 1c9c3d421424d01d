//! Watches the objects of Gateways' workloads: metadata only, and the addresses of Services.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_lite::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;
use xds::model::ObjectName;

use super::addresses::{ANNOTATION, AddressBook, AddressSource};
use super::child::{Child, ChildKind, ObservedChild, selector};
use super::labels;
use super::ports::{Port, Transport};
use super::render::addresses;
use crate::change_tracker::ChangeTracker;
use crate::outputs::Outputs;

/// The objects in the cluster.
#[derive(Debug, Default)]
pub(super) struct Children {
    known: Mutex<KnownChildren>,
    /// Whether each namespace enforces the pod security standard `restricted`.
    pub(super) namespaces: ChangeTracker<String, bool>,
    /// Changed objects, for the deployer.
    pub(super) changed: ChangeTracker<Child, ObservedChild>,
    /// The resource version of each workload, which changes with its status, for who looks at its pods.
    pub(super) workloads: ChangeTracker<Child, Option<String>>,
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
    fn put(&self, child: &Child, metadata: &ObjectMeta) {
        let seen = ObservedChild::of(metadata);
        let mut known = self.known();
        known.seen.insert(child.clone(), seen.clone());
        self.changed.set(child, Some(seen));
        if child.kind.is_workload() {
            let version = metadata.resource_version.clone();
            self.workloads.set(child, Some(version));
        }
    }

    /// Removes a deleted object.
    fn remove(&self, child: &Child, uid: &str) {
        let mut known = self.known();
        if let Some(gone) = known.applying.get_mut(child) {
            gone.insert(uid.to_owned());
        }
        known.seen.remove(child);
        self.changed.set(child, None);
        self.workloads.set(child, None);
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

/// Watches all kinds and namespaces, until the set is dropped. Reports what other parts need to know
/// of them.
pub(super) fn start(
    client: &Client,
    children: &Arc<Children>,
    outputs: &Arc<Outputs>,
    book: &Arc<AddressBook>,
) -> JoinSet<()> {
    let mut watches = Watches {
        tasks: JoinSet::new(),
        client,
        children,
    };
    let accounts = Arc::clone(outputs);
    let note = move |child: &Child, account: Option<&PartialObjectMeta<ServiceAccount>>| {
        let owner = account.and_then(|it| ObservedChild::of(it.meta()).owner);
        accounts.accounts.set(&child.name, owner);
    };
    watches.metadata_with(ChildKind::ServiceAccount, note);
    let (known, sources) = (Arc::clone(outputs), Arc::clone(book));
    let mut gateways: BTreeMap<Child, ObjectName> = BTreeMap::new();
    let note = move |child: &Child, config: Option<&PartialObjectMeta<ConfigMap>>| {
        let Some(config) = config else {
            if let Some(gateway) = gateways.remove(child) {
                sources.set_source(&gateway, None);
            }
            return;
        };
        let Some(gateway) = gateway_of(child, config.meta(), labels::child_name, &known) else {
            return;
        };
        sources.set_source(&gateway, Some(source_in(config.meta())));
        gateways.insert(child.clone(), gateway);
    };
    watches.metadata_with(ChildKind::ConfigMap, note);
    watches.metadata_of::<Deployment>(ChildKind::Deployment);
    watches.metadata_of::<DaemonSet>(ChildKind::DaemonSet);
    watches.metadata_of::<HorizontalPodAutoscaler>(ChildKind::HorizontalPodAutoscaler);
    watches.metadata_of::<PodDisruptionBudget>(ChildKind::PodDisruptionBudget);
    let mut tasks = watches.tasks;
    follow_services(&mut tasks, client, children, (outputs, book));
    let namespaces = Api::<PartialObjectMeta<Namespace>>::all(client.clone());
    let every = watcher::Config::default().timeout(WATCH_SECONDS);
    let namespaces = watcher::watcher(namespaces, every);
    tasks.spawn(follow_namespaces(namespaces, Arc::clone(children)));
    tasks
}

/// Watches Services, and reports the addresses and ports of each Gateway.
fn follow_services(
    tasks: &mut JoinSet<()>,
    client: &Client,
    children: &Arc<Children>,
    (outputs, book): (&Arc<Outputs>, &Arc<AddressBook>),
) {
    let services = watcher::watcher(Api::<Service>::all(client.clone()), settings());
    let mut gateways: BTreeMap<Child, ObjectName> = BTreeMap::new();
    let (outputs, book) = (Arc::clone(outputs), Arc::clone(book));
    let note = move |child: &Child, service: Option<&Service>| {
        let Some(service) = service else {
            if let Some(gateway) = gateways.remove(child) {
                book.set_service(&gateway, None);
                outputs.service_ports.set(&gateway, None);
            }
            return;
        };
        let name_of = labels::service_name;
        let Some(gateway) = gateway_of(child, service.meta(), name_of, &outputs) else {
            return;
        };
        book.set_service(&gateway, Some(addresses(service)));
        outputs.service_ports.set(&gateway, ports(service));
        gateways.insert(child.clone(), gateway);
    };
    tasks.spawn(follow(
        services,
        Arc::clone(children),
        ChildKind::Service,
        note,
    ));
}

/// Watches of metadata that are being started.
struct Watches<'a> {
    tasks: JoinSet<()>,
    client: &'a Client,
    children: &'a Arc<Children>,
}

impl Watches<'_> {
    fn metadata_of<K>(&mut self, kind: ChildKind)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + 'static,
    {
        self.metadata_with(kind, |_, _: Option<&PartialObjectMeta<K>>| {});
    }

    fn metadata_with<K>(
        &mut self,
        kind: ChildKind,
        note: impl FnMut(&Child, Option<&PartialObjectMeta<K>>) + Send + 'static,
    ) where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let objects = Api::<PartialObjectMeta<K>>::all(self.client.clone());
        let objects = watcher::watcher(objects, settings());
        let children = Arc::clone(self.children);
        self.tasks.spawn(follow(objects, children, kind, note));
    }
}

/// The Gateway of an object whose name is made from that of its Gateway so: not its metrics Service, and not one
/// that only claims to belong to it.
fn gateway_of(
    child: &Child,
    metadata: &ObjectMeta,
    name_of: fn(&str) -> String,
    outputs: &Outputs,
) -> Option<ObjectName> {
    let seen = ObservedChild::of(metadata);
    let owner = seen.owner_name?;
    if *child.name.name != *name_of(&owner) {
        return None;
    }
    let gateway = ObjectName::new(&child.name.namespace, &owner);
    let known = outputs.gateways.get(&gateway);
    let is_its_own = known.is_none_or(|it| seen.owner.as_deref() == Some(&*it.uid));
    is_its_own.then_some(gateway)
}

/// Where the addresses of a Gateway come from, as the leader has written it.
fn source_in(metadata: &ObjectMeta) -> AddressSource {
    let annotations = metadata.annotations.as_ref();
    let written = annotations.and_then(|it| it.get(ANNOTATION));
    let source = written.map(|it| serde_json::from_str(it));
    source
        .transpose()
        .unwrap_or_else(|error| {
            let name = metadata.name.as_deref().unwrap_or_default();
            warn!(%error, config_map = name, "an annotation with the source of addresses is invalid");
            None
        })
        .unwrap_or_default()
}

/// The ports of a Service and those in the pods that they lead to: an overlay may map one to the other, to
/// a sidecar for example. `None` if it names one of the pods.
fn ports(service: &Service) -> Option<BTreeSet<Port>> {
    let mut found = BTreeSet::new();
    for port in service.spec.iter().flat_map(|it| it.ports.iter().flatten()) {
        let target = match &port.target_port {
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(_)) => return None,
            None => port.port,
        };
        let transport = match port.protocol.as_deref() {
            Some("UDP") => Transport::Udp,
            _ => Transport::Tcp,
        };
        for number in [port.port, target] {
            let number = u16::try_from(number).ok()?;
            found.insert(Port { transport, number });
        }
    }
    Some(found)
}

/// Watches the pod security standards of namespaces. One that is missing in a new list was deleted.
async fn follow_namespaces(
    events: impl Stream<Item = watcher::Result<Event<PartialObjectMeta<Namespace>>>> + Send,
    children: Arc<Children>,
) {
    let events = events.default_backoff();
    let mut events = std::pin::pin!(events);
    let mut listing = BTreeSet::new();
    let name = |it: &PartialObjectMeta<Namespace>| it.metadata.name.clone().unwrap_or_default();
    while let Some(event) = events.next().await {
        let namespaces = &children.namespaces;
        match event {
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(namespace)) => {
                namespaces.set(&name(&namespace), Some(enforces_restricted(&namespace)));
                listing.insert(name(&namespace));
            }
            Ok(Event::InitDone) => {
                let gone = namespaces.keys().into_iter();
                let gone = gone.filter(|it| !listing.contains(it));
                namespaces.set_all(gone.map(|it| (it, None)));
            }
            Ok(Event::Apply(namespace)) => {
                namespaces.set(&name(&namespace), Some(enforces_restricted(&namespace)));
            }
            Ok(Event::Delete(namespace)) => namespaces.set(&name(&namespace), None),
            Err(error) => warn!(%error, "cannot watch the namespaces of Gateways"),
        }
    }
}

fn enforces_restricted(namespace: &PartialObjectMeta<Namespace>) -> bool {
    let labels = namespace.metadata.labels.as_ref();
    let level = labels.and_then(|it| it.get(ENFORCE));
    level.is_some_and(|it| it == "restricted")
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
                children.put(&child, object.meta());
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
                children.put(&child, object.meta());
            }
            Ok(Event::Delete(object)) => {
                let child = child(kind, object.meta());
                note(&child, None);
                children.remove(&child, object.meta().uid.as_deref().unwrap_or_default());
            }
            Err(error) => {
                if kind.is_optional() && is_forbidden(&error) {
                    children
                        .listed
                        .send_if_modified(|listed| listed.insert(kind));
                }
                warn!(?kind, %error, "cannot watch the resources of Gateways");
            }
        }
    }
}

/// Whether the API server does not let the controller read a kind, or does not have it.
fn is_forbidden(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) =
        error
    else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404))
}

fn child(kind: ChildKind, metadata: &ObjectMeta) -> Child {
    #[cfg(test)]
    if metadata.name.as_deref() == Some("defect-of-watch") {
        // As by a defect, without a message and a backtrace on the standard error.
        std::panic::resume_unwind(Box::new("a defect"));
    }
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Child {
        kind,
        name: ObjectName::new(&text(&metadata.namespace), &text(&metadata.name)),
    }
}

/// The label with the security standard that a namespace enforces.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// Duration of a watch request, so that a dead connection is noticed: 60 s.
const WATCH_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_port_that_an_overlay_maps_is_one_of_the_services() {
        let numbers = |ports: Value| {
            let service = serde_json::from_value(json!({"spec": {"ports": ports}}));
            let found = ports_of(&service.expect("a Service"))?;
            Some(found.into_iter().collect::<Vec<_>>())
        };
        let tcp = |number| (Transport::Tcp, number);
        assert_eq!(numbers(json!([{"port": 80}])), Some(vec![tcp(80)]));
        // To a sidecar before the proxy, or to a proxy that listens elsewhere.
        let mapped = json!([{"port": 80, "targetPort": 15080, "protocol": "TCP"},
                            {"port": 53, "targetPort": 5353, "protocol": "UDP"}]);
        let udp = |number| (Transport::Udp, number);
        let all = vec![tcp(80), tcp(15080), udp(53), udp(5353)];
        assert_eq!(numbers(mapped), Some(all));
        assert_eq!(numbers(json!([{"port": 80, "targetPort": "web"}])), None);
    }

    fn ports_of(service: &Service) -> Option<BTreeSet<(Transport, u16)>> {
        let found = ports(service)?;
        Some(found.iter().map(|it| (it.transport, it.number)).collect())
    }

    fn service() -> Child {
        Child {
            kind: ChildKind::Service,
            name: ObjectName::new("infra", "edge"),
        }
    }

    fn metadata(uid: &str) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn seen(uid: &str) -> ObservedChild {
        ObservedChild::of(&metadata(uid))
    }

    /// As when a Gateway is deleted while its Service is applied, and created again.
    #[test]
    fn a_late_response_does_not_restore_a_deleted_object() {
        let (children, child) = (Children::default(), service());
        children.begin(&child);
        children.put(&child, &metadata("first"));
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
