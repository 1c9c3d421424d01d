//! What is known of the addresses of each Gateway, and what of it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use translate::{AssignedAddresses, NoAddress};
use xds::model::ObjectName;

use super::NodeReading;
use super::nodes::{Node, Nodes, Proxy};
use super::source::AddressSource;
use crate::deploy::labels;
use crate::outputs::Outputs;
use crate::queue::until;

/// The addresses of all Gateways.
#[derive(Debug)]
pub(in crate::deploy) struct AddressBook {
    outputs: Arc<Outputs>,
    known: Mutex<Known>,
    /// That there is something to do later.
    due: Notify,
    /// Whether it is known which nodes there are, or that this cannot be known.
    are_nodes_read: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Known {
    /// Whether Services and sources of all Gateways have been read: before, nothing is published.
    is_open: bool,
    gateways: BTreeMap<ObjectName, OfGateway>,
    nodes: Nodes,
    reading: Reading,
    /// When the addresses of a Gateway follow its nodes.
    due: BTreeMap<ObjectName, Instant>,
}

#[derive(Debug, Default)]
struct OfGateway {
    service: Option<AssignedAddresses>,
    source: AddressSource,
}

/// Whether nodes and proxies are known.
#[derive(Debug, Default)]
enum Reading {
    /// They are being read.
    #[default]
    Ongoing,
    Done,
    /// They cannot be; with advice.
    Impossible(String),
}

impl AddressBook {
    pub(in crate::deploy) fn new(outputs: Arc<Outputs>, nodes: NodeReading) -> Self {
        let are_nodes_read = watch::Sender::new(nodes == NodeReading::Disabled);
        let reading = match nodes {
            NodeReading::Enabled => Reading::Ongoing,
            NodeReading::Disabled => Reading::Impossible(NOT_ENABLED.to_owned()),
        };
        Self {
            outputs,
            known: Mutex::new(Known {
                reading,
                ..Known::default()
            }),
            due: Notify::new(),
            are_nodes_read,
        }
    }

    /// Waits until it is known which nodes there are. Before, Gateways would seem to have lost their addresses.
    pub(in crate::deploy) async fn nodes_read(&self) {
        let mut are_read = self.are_nodes_read.subscribe();
        // Cannot fail, since the sender is ours too.
        let _ = are_read.wait_for(|it| *it).await;
    }

    /// Sets the addresses that a Gateway's Service has, or that there is none.
    pub(in crate::deploy) fn set_service(
        &self,
        gateway: &ObjectName,
        service: Option<AssignedAddresses>,
    ) {
        let mut known = self.known();
        known.entry(gateway).service = service;
        self.publish(&mut known, gateway);
    }

    /// Sets where the addresses of a Gateway come from; `None` when it is gone.
    pub(in crate::deploy) fn set_source(
        &self,
        gateway: &ObjectName,
        source: Option<AddressSource>,
    ) {
        let mut known = self.known();
        known.entry(gateway).source = source.unwrap_or_default();
        self.publish(&mut known, gateway);
    }

    /// Begins to publish: all Gateways have been read.
    pub(in crate::deploy) fn open(&self) {
        let mut known = self.known();
        known.is_open = true;
        let gateways: Vec<ObjectName> = known.gateways.keys().cloned().collect();
        for gateway in gateways {
            self.publish(&mut known, &gateway);
        }
    }

    pub(super) fn set_node(&self, name: &str, node: Option<Node>) {
        let mut known = self.known();
        let concerned = known.nodes.set_node(name, node);
        self.follow_later(&mut known, &concerned);
    }

    pub(super) fn set_proxy(&self, pod: &ObjectName, proxy: Option<Proxy>) {
        let mut known = self.known();
        let concerned = known.nodes.set_proxy(pod, proxy);
        self.follow_later(&mut known, &concerned);
    }

    /// Those that are known, to find out which are gone after a list.
    pub(super) fn node_names(&self) -> Vec<String> {
        self.known().nodes.node_names()
    }

    /// See [`Self::node_names`].
    pub(super) fn pods(&self) -> Vec<ObjectName> {
        self.known().nodes.pods()
    }

    /// Nodes and proxies have been read, or cannot be.
    pub(super) fn set_read(&self, result: Result<(), String>) {
        let mut known = self.known();
        known.reading = match result {
            Ok(()) => Reading::Done,
            Err(why) => Reading::Impossible(why),
        };
        let of_nodes = known.gateways.iter();
        let of_nodes = of_nodes.filter(|(_, it)| matches!(it.source, AddressSource::Nodes(_)));
        let of_nodes: Vec<ObjectName> = of_nodes.map(|(name, _)| name.clone()).collect();
        for gateway in of_nodes {
            self.publish(&mut known, &gateway);
        }
        self.are_nodes_read.send_replace(true);
    }

    /// Publishes what is due. Never ends.
    pub(in crate::deploy) async fn publish_later(&self) {
        loop {
            let next = self.known().due.values().min().copied();
            tokio::select! {
                () = self.due.notified() => {}
                () = until(next) => {
                    let mut known = self.known();
                    let now = Instant::now();
                    let due = known.due.iter().filter(|(_, at)| **at <= now);
                    let due: Vec<ObjectName> = due.map(|(gateway, _)| gateway.clone()).collect();
                    for gateway in due {
                        self.publish(&mut known, &gateway);
                    }
                }
            }
        }
    }

    /// Nodes or proxies of Gateways, by namespace and label, have changed. A Gateway without an address gets one
    /// at once; changes of those that it has are followed together, since names may lead to them.
    fn follow_later(&self, known: &mut Known, concerned: &BTreeSet<ObjectName>) {
        let of_nodes = known.gateways.iter();
        let of_nodes = of_nodes.filter(|(_, it)| matches!(it.source, AddressSource::Nodes(_)));
        let gateways = of_nodes.map(|(name, _)| name.clone());
        let gateways = gateways.filter(|it| concerned.contains(&labelled(it)));
        for gateway in gateways.collect::<Vec<_>>() {
            let present = self.outputs.addresses.get(&gateway);
            if present.is_none_or(|it| it.default.is_empty()) {
                self.publish(known, &gateway);
            } else {
                let at = Instant::now() + DEBOUNCE;
                known.due.entry(gateway).or_insert(at);
                self.due.notify_one();
            }
        }
    }

    fn publish(&self, known: &mut Known, gateway: &ObjectName) {
        known.due.remove(gateway);
        let Some(of_gateway) = known.gateways.get(gateway).filter(|_| known.is_open) else {
            return;
        };
        let cluster = { of_gateway.service.as_ref() }.map(|it| it.cluster.clone());
        let cluster = cluster.unwrap_or_default();
        let without = |absence| AssignedAddresses {
            default: Vec::new(),
            cluster: cluster.clone(),
            absence,
        };
        let addresses = match (&of_gateway.source, &known.reading) {
            (AddressSource::Service, _) => of_gateway.service.clone(),
            (AddressSource::Nowhere, _) => Some(without(NoAddress::Unneeded)),
            (AddressSource::Nodes(_), Reading::Ongoing) => return,
            (AddressSource::Nodes(_), Reading::Impossible(why)) => {
                Some(without(NoAddress::Unreadable(why.clone())))
            }
            (AddressSource::Nodes(wanted), Reading::Done) => {
                let label = labelled(gateway);
                let mut found = known.nodes.addresses(&label, wanted);
                if !known.nodes.have_proxy(&label) {
                    // While its proxies start again, names should not lose their addresses.
                    let present = self.outputs.addresses.get(gateway).unwrap_or_default();
                    let kept = present.default.into_iter();
                    let kept = kept.filter(|it| known.nodes.have_address(&it.value));
                    found.default = kept.collect();
                }
                Some(AssignedAddresses { cluster, ..found })
            }
        };
        let addresses = addresses.filter(|it| !it.is_empty());
        self.outputs.addresses.set(gateway, addresses);
        known.gateways.retain(|name, it| {
            name != gateway || it.service.is_some() || it.source != AddressSource::Service
        });
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn entry(&mut self, gateway: &ObjectName) -> &mut OfGateway {
        self.gateways.entry(gateway.clone()).or_default()
    }
}

/// A Gateway by the value of its pods' label.
fn labelled(gateway: &ObjectName) -> ObjectName {
    ObjectName::new(&gateway.namespace, &labels::child_name(&gateway.name))
}

/// What to do where the controller does not read nodes.
const NOT_ENABLED: &str = "the controller does not read the addresses of nodes, which takes permissions: set \
                           `nodeAddresses.enabled` in its chart, or run it with `--node-addresses`; until then, \
                           requests are served and no address is known";
/// How long changes of a Gateway's nodes are gathered: 10 s. A rollout takes a proxy from a node for less.
const DEBOUNCE: Duration = Duration::from_secs(10);
