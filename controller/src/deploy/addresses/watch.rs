//! Watches nodes, and the pods of proxies.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures_lite::StreamExt as _;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::warn;
use xds::model::ObjectName;

use super::AddressBook;
use super::nodes::{Node, Proxy};
use crate::deploy::child::selector;
use crate::deploy::labels;

/// Follows nodes and proxies. Never ends.
pub(in crate::deploy) async fn follow_nodes(client: Client, book: Arc<AddressBook>) {
    let (read, mut results) = watch::channel([None, None]);
    let nodes = Api::<NodeObject>::all(client.clone());
    let every = watcher::Config::default().timeout(WATCH_SECONDS);
    let of_nodes = follow(nodes, every, &read, 0, |change| match change {
        Change::Put(node) => book.set_node(name(node), Some(node_of(node))),
        Change::Gone(node) => book.set_node(name(node), None),
        Change::Listed(listed) => {
            let gone = book.node_names().into_iter();
            let gone = gone.filter(|it| !listed.contains(&ObjectName::new("", it)));
            gone.for_each(|it| book.set_node(&it, None));
        }
    });
    let pods = Api::<Pod>::all(client);
    let ours = watcher::Config::default()
        .labels(&selector())
        .timeout(WATCH_SECONDS);
    let of_pods = follow(pods, ours, &read, 1, |change| match change {
        Change::Put(pod) => book.set_proxy(&full_name(pod), proxy_of(pod)),
        Change::Gone(pod) => book.set_proxy(&full_name(pod), None),
        Change::Listed(listed) => {
            let gone = book.pods().into_iter();
            let gone = gone.filter(|it| !listed.contains(it));
            gone.for_each(|it| book.set_proxy(&it, None));
        }
    });
    let report = async {
        loop {
            let [nodes, pods] = results.borrow_and_update().clone();
            match (nodes, pods) {
                (Some(Err(why)), _) | (_, Some(Err(why))) => book.set_read(Err(why)),
                (Some(Ok(())), Some(Ok(()))) => book.set_read(Ok(())),
                _ => {}
            }
            if results.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::join!(of_nodes, of_pods, report);
}

/// What happened to objects of a kind.
enum Change<'a, K> {
    Put(&'a K),
    Gone(&'a K),
    /// All objects that exist were put.
    Listed(&'a BTreeSet<ObjectName>),
}

/// Whether each kind was read, or why it cannot be.
type Results = [Option<Result<(), String>>; 2];

async fn follow<K>(
    objects: Api<K>,
    settings: watcher::Config,
    read: &watch::Sender<Results>,
    place: usize,
    mut take: impl FnMut(Change<'_, K>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher::watcher(objects, settings).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut listing = BTreeSet::new();
    let set_read = |result: Result<(), String>| {
        read.send_if_modified(|results| {
            let is_changed = results[place].as_ref() != Some(&result);
            results[place] = Some(result);
            is_changed
        });
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(object)) => {
                listing.insert(full_name(&object));
                take(Change::Put(&object));
            }
            Ok(Event::InitDone) => {
                take(Change::Listed(&listing));
                set_read(Ok(()));
            }
            Ok(Event::Apply(object)) => take(Change::Put(&object)),
            Ok(Event::Delete(object)) => take(Change::Gone(&object)),
            Err(error) => {
                let kind = K::plural(&());
                warn!(%kind, %error, "cannot watch for the addresses of nodes");
                if let watcher::Error::InitialListFailed(kube::Error::Api(status)) = &error
                    && status.code == 403
                {
                    set_read(Err(format!(
                        "the API server does not let the controller list {kind}, for the addresses of nodes ({}): \
                         grant it list and watch of nodes and pods, as the chart does with `nodeAddresses.enabled`",
                        status.message
                    )));
                }
            }
        }
    }
}

fn node_of(node: &NodeObject) -> Node {
    let labels = node.metadata.labels.iter().flatten();
    let addresses = node.status.iter().flat_map(|it| &it.addresses);
    let addresses = addresses
        .flatten()
        .filter_map(|it| Some((it.type_.clone(), it.address.parse().ok()?)));
    Node {
        labels: labels
            .map(|(name, value)| ((&**name).into(), (&**value).into()))
            .collect(),
        addresses: addresses.collect(),
    }
}

/// The proxy in a pod, if it is ready and not about to end.
fn proxy_of(pod: &Pod) -> Option<Proxy> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let is_ready = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
    let is_ending = pod.metadata.deletion_timestamp.is_some();
    let gateway = pod.metadata.labels.as_ref()?.get(labels::GATEWAY_NAME)?;
    let node = pod.spec.as_ref()?.node_name.as_ref()?;
    (is_ready && !is_ending).then(|| Proxy {
        gateway: gateway.clone(),
        node: node.clone(),
    })
}

fn name(object: &impl Resource) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn full_name(object: &impl Resource) -> ObjectName {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    ObjectName::new(namespace, name(object))
}

/// Duration of a watch request, so that a dead connection is noticed: 60 s.
const WATCH_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_proxy_counts_while_it_is_ready() {
        let pod = |ready: &str, ends: bool| {
            let mut pod = json!({
                "metadata": {"labels": {"gateway.networking.k8s.io/gateway-name": "edge"}},
                "spec": {"nodeName": "a", "containers": []},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            if ends {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            proxy_of(&serde_json::from_value(pod).expect("a Pod"))
        };
        assert_eq!(pod("True", false).map(|it| it.node), Some("a".to_owned()));
        assert_eq!(pod("False", false), None);
        assert_eq!(pod("True", true), None);
    }
}
