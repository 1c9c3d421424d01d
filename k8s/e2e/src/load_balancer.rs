//! The cloud provider's part of a LoadBalancer: assigns addresses to Services, and routes them to
//! the nodes. It runs in the network of the cluster's clients.
//!
//! On every node, kube-proxy answers for the address in a Service's status.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_lite::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tokio::sync::Notify;

use crate::cluster::address::{LOAD_BALANCER_PREFIX, LOAD_BALANCERS};
use crate::process;

/// First assigned address; lower ones are for Services that request one.
const FIRST: u8 = 10;

/// Delay after the API server has rejected a write.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until it is killed.
pub(crate) fn run() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = Client::try_default()
            .await
            .context("cannot read KUBECONFIG")?;
        balance(client).await
    })
}

/// Watches what addresses and routes depend on.
async fn balance(client: Client) -> Result<()> {
    let changed = Arc::new(Notify::new());
    let services = watch(Api::all(client.clone()), &changed);
    let slices = watch(Api::all(client.clone()), &changed);
    let nodes = watch(Api::all(client.clone()), &changed);
    services.wait_until_ready().await?;
    slices.wait_until_ready().await?;
    nodes.wait_until_ready().await?;
    let mut routes = Routes::in_force()?;
    let mut written = Written::default();
    loop {
        let services = services.state();
        written.forget_seen(&services);
        let mut failed = false;
        for (service, address) in assignments(&services, &written) {
            match assign(&client, &service, address).await {
                Ok(()) => written.note(&service, address),
                Err(error) => {
                    eprintln!("cannot give {} {address}: {error:#}", named(&service));
                    failed = true;
                }
            }
        }
        routes.set(wanted_routes(&services, &slices.state(), &nodes.state()))?;
        if failed {
            tokio::time::sleep(RETRY).await;
        } else {
            changed.notified().await;
        }
    }
}

/// A store of all objects of a kind, kept up to date by a watch that is restarted when it ends.
fn watch<K>(api: Api<K>, changed: &Arc<Notify>) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    K: serde::de::DeserializeOwned,
{
    let writer = Writer::default();
    let store = writer.as_reader();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    tokio::spawn(follow(
        reflector::reflector(writer, events),
        Arc::clone(changed),
    ));
    store
}

async fn follow<K: std::fmt::Debug>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
    changed: Arc<Notify>,
) {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(_) => changed.notify_one(),
            Err(error) => eprintln!("a watch ended and is restarted: {error}"),
        }
    }
}

async fn assign(client: &Client, service: &Service, address: Ipv4Addr) -> Result<()> {
    let namespace = service.namespace().context("a Service has a namespace")?;
    let api: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let ingress = json!([{"ip": address.to_string(), "ipMode": "VIP"}]);
    let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
    api.patch_status(
        &service.name_any(),
        &PatchParams::default(),
        &Patch::Merge(status),
    )
    .await?;
    eprintln!("gave {} {address}", named(service));
    Ok(())
}

fn named(service: &Service) -> String {
    format!(
        "{}/{}",
        service.namespace().unwrap_or_default(),
        service.name_any()
    )
}

fn is_balanced(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
        && service.meta().deletion_timestamp.is_none()
}

/// The addresses of the pool in a Service's status.
fn addresses_of(service: &Service) -> Vec<Ipv4Addr> {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress = status
        .and_then(|balancer| balancer.ingress.as_deref())
        .unwrap_or_default();
    let parsed = ingress
        .iter()
        .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok());
    parsed.filter(|address| is_in_pool(*address)).collect()
}

fn is_in_pool(address: Ipv4Addr) -> bool {
    let [a, b, c, last] = address.octets();
    [a, b, c] == LOAD_BALANCER_PREFIX && !matches!(last, 0 | 255)
}

/// Addresses that were written to Services, by UID, and that the watch has not shown yet. Without them,
/// a Service would get a second address, or share one with another.
#[derive(Default)]
struct Written(BTreeMap<String, Ipv4Addr>);

impl Written {
    fn note(&mut self, service: &Service, address: Ipv4Addr) {
        self.0.insert(service.uid().unwrap_or_default(), address);
    }

    fn has(&self, service: &Service) -> bool {
        service.uid().is_some_and(|uid| self.0.contains_key(&uid))
    }

    /// Forgets Services that show an address by now, or are gone.
    fn forget_seen(&mut self, services: &[Arc<Service>]) {
        let waiting = services
            .iter()
            .filter(|service| is_balanced(service) && addresses_of(service).is_empty());
        let waiting: BTreeSet<String> = waiting.filter_map(|service| service.uid()).collect();
        self.0.retain(|uid, _| waiting.contains(uid));
    }
}

/// Assigns an address to each Service: the requested one, or else the lowest free one. A Service
/// that requests one outside of the pool, or one that is taken, gets none.
fn assignments(services: &[Arc<Service>], written: &Written) -> Vec<(Arc<Service>, Ipv4Addr)> {
    let balanced = || services.iter().filter(|service| is_balanced(service));
    let shown = balanced().flat_map(|service| addresses_of(service));
    let mut used: BTreeSet<Ipv4Addr> = shown.chain(written.0.values().copied()).collect();
    let mut assigned = Vec::new();
    let has_none =
        |service: &&Arc<Service>| addresses_of(service).is_empty() && !written.has(service);
    for service in balanced().filter(has_none) {
        let requested = service
            .spec
            .as_ref()
            .and_then(|spec| spec.load_balancer_ip.as_deref());
        let is_free = |address: &Ipv4Addr| is_in_pool(*address) && !used.contains(address);
        let address = match requested.filter(|text| !text.is_empty()) {
            Some(text) => text.parse().ok().filter(is_free),
            None => (FIRST..255).map(pool_address).find(is_free),
        };
        if let Some(address) = address {
            used.insert(address);
            assigned.push((Arc::clone(service), address));
        }
    }
    assigned
}

fn pool_address(last: u8) -> Ipv4Addr {
    let [a, b, c] = LOAD_BALANCER_PREFIX;
    Ipv4Addr::new(a, b, c, last)
}

/// Each assigned address, and the nodes that packets for it go to; without nodes it is unreachable.
type DesiredAddresses = BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>;

fn wanted_routes(
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
    nodes: &[Arc<Node>],
) -> DesiredAddresses {
    let nodes: BTreeMap<String, Ipv4Addr> = nodes
        .iter()
        .filter_map(|node| Some((node.name_any(), internal_address(node)?)))
        .collect();
    let mut wanted = DesiredAddresses::new();
    for service in services.iter().filter(|service| is_balanced(service)) {
        let policy = service
            .spec
            .as_ref()
            .and_then(|spec| spec.external_traffic_policy.as_deref());
        let hops: BTreeSet<Ipv4Addr> = if policy == Some("Local") {
            let with_endpoint = nodes_with_endpoint(service, slices);
            with_endpoint
                .iter()
                .filter_map(|name| nodes.get(name))
                .copied()
                .collect()
        } else {
            nodes.values().copied().collect()
        };
        for address in addresses_of(service) {
            wanted.insert(address, hops.clone());
        }
    }
    wanted
}

fn internal_address(node: &Node) -> Option<Ipv4Addr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses
        .iter()
        .find(|address| address.type_ == "InternalIP")?;
    internal.address.parse().ok()
}

fn nodes_with_endpoint(service: &Service, slices: &[Arc<EndpointSlice>]) -> BTreeSet<String> {
    let of_service = |slice: &&Arc<EndpointSlice>| {
        slice.namespace() == service.namespace()
            && slice.labels().get("kubernetes.io/service-name") == Some(&service.name_any())
    };
    let endpoints = slices
        .iter()
        .filter(of_service)
        .flat_map(|slice| &slice.endpoints);
    endpoints
        .flatten()
        .filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions
                .and_then(|conditions| conditions.ready)
                .unwrap_or(true)
        })
        .filter_map(|endpoint| endpoint.node_name.clone())
        .collect()
}

/// The kernel's routes to addresses of the pool, of which this is the only writer.
struct Routes {
    in_force: BTreeMap<Ipv4Addr, Option<BTreeSet<Ipv4Addr>>>,
}

impl Routes {
    /// The routes that an earlier run of this component left.
    fn in_force() -> Result<Self> {
        let mut command = ip(&["-j", "route", "show", "root", LOAD_BALANCERS]);
        let listed: Vec<serde_json::Value> =
            serde_json::from_str(&process::run(&mut command)?).unwrap_or_default();
        let addresses = listed
            .iter()
            .filter_map(|route| route.get("dst")?.as_str()?.parse().ok());
        Ok(Self {
            in_force: addresses.map(|address| (address, None)).collect(),
        })
    }

    fn set(&mut self, wanted: DesiredAddresses) -> Result<()> {
        for (address, hops) in &wanted {
            if self.in_force.get(address).and_then(Option::as_ref) != Some(hops) {
                replace_route(*address, hops)?;
            }
        }
        for address in self
            .in_force
            .keys()
            .filter(|address| !wanted.contains_key(address))
        {
            process::run(&mut ip(&["route", "del", &address.to_string()]))?;
        }
        self.in_force = wanted
            .into_iter()
            .map(|(address, hops)| (address, Some(hops)))
            .collect();
        Ok(())
    }
}

fn replace_route(address: Ipv4Addr, hops: &BTreeSet<Ipv4Addr>) -> Result<()> {
    let address = address.to_string();
    let mut command = if hops.is_empty() {
        ip(&["route", "replace", "unreachable", &address])
    } else {
        ip(&["route", "replace", &address])
    };
    for hop in hops {
        command.args(["nexthop", "via", &hop.to_string()]);
    }
    process::run(&mut command).map(drop)
}

fn ip(words: &[&str]) -> Command {
    let mut command = process::command(&["ip"]);
    command.args(words);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, requested: Option<&str>, has: Option<&str>) -> Arc<Service> {
        let ingress = has.map(|ip| json!([{"ip": ip}]));
        let service = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}")},
            "spec": {"type": "LoadBalancer", "loadBalancerIP": requested},
            "status": {"loadBalancer": {"ingress": ingress}},
        });
        Arc::new(serde_json::from_value(service).expect("a Service"))
    }

    fn node(name: &str, address: &str) -> Arc<Node> {
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        let node = json!({"metadata": {"name": name}, "status": {"addresses": addresses}});
        Arc::new(serde_json::from_value(node).expect("a Node"))
    }

    fn slice(service: &str, node: &str, ready: bool) -> Arc<EndpointSlice> {
        let slice = json!({
            "metadata": {"name": "x", "namespace": "default",
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.244.0.2"], "nodeName": node, "conditions": {"ready": ready}}],
        });
        Arc::new(serde_json::from_value(slice).expect("an EndpointSlice"))
    }

    fn assigned_names(services: &[Arc<Service>]) -> Vec<(String, String)> {
        let assigned = assignments(services, &Written::default());
        assigned
            .iter()
            .map(|(service, address)| (service.name_any(), address.to_string()))
            .collect()
    }

    #[test]
    fn the_lowest_free_address_is_assigned() {
        let services = [
            service("old", None, Some("172.31.250.10")),
            service("a", None, None),
            service("b", None, None),
        ];
        let expected = [("a", "172.31.250.11"), ("b", "172.31.250.12")];
        let expected = expected.map(|(name, address)| (name.to_owned(), address.to_owned()));
        assert_eq!(assigned_names(&services), expected);
    }

    #[test]
    fn an_assigned_address_is_reserved_until_the_watch_shows_it() {
        let unseen = service("unseen", None, None);
        let services = [Arc::clone(&unseen), service("new", None, None)];
        let mut written = Written::default();
        written.note(&unseen, pool_address(FIRST));
        written.forget_seen(&services);
        let assigned = assignments(&services, &written);
        let assigned: Vec<_> = assigned
            .iter()
            .map(|(it, at)| (it.name_any(), *at))
            .collect();
        assert_eq!(assigned, [("new".to_owned(), pool_address(FIRST + 1))]);

        let shown = [service("unseen", None, Some("172.31.250.10"))];
        written.forget_seen(&shown);
        assert!(written.0.is_empty(), "the status has it");
        written.note(&unseen, pool_address(FIRST));
        written.forget_seen(&[]);
        assert!(written.0.is_empty(), "the Service is gone");
    }

    #[test]
    fn a_service_gets_its_requested_address_or_none() {
        let services = [
            service("a", Some("172.31.250.7"), None),
            service("b", Some("192.0.2.1"), None),
            service("c", Some("172.31.250.7"), None),
        ];
        assert_eq!(
            assigned_names(&services),
            [("a".to_owned(), "172.31.250.7".to_owned())]
        );
    }

    #[test]
    fn services_of_other_types_get_no_address() {
        let mut plain = (*service("a", None, None)).clone();
        plain.spec.as_mut().expect("a spec").type_ = Some("ClusterIP".to_owned());
        assert_eq!(assigned_names(&[Arc::new(plain)]), []);
    }

    #[test]
    fn the_local_traffic_policy_selects_nodes_with_a_ready_endpoint() {
        let mut local = (*service("a", None, Some("172.31.250.10"))).clone();
        let nodes = [node("node-0", "172.31.0.1"), node("node-1", "172.31.1.1")];
        let slices = [
            slice("a", "node-1", true),
            slice("a", "node-0", false),
            slice("b", "node-0", true),
        ];
        let hops = |service: &Service| {
            let services = [Arc::new(service.clone())];
            let wanted = wanted_routes(&services, &slices, &nodes);
            let hops = wanted.values().flatten().map(Ipv4Addr::to_string);
            hops.collect::<Vec<_>>()
        };
        assert_eq!(hops(&local), ["172.31.0.1", "172.31.1.1"]);
        local.spec.as_mut().expect("a spec").external_traffic_policy = Some("Local".to_owned());
        assert_eq!(hops(&local), ["172.31.1.1"]);
    }
}
