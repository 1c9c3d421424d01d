//! The open streams, by Gateway.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use xds::delta::ProxySession;
use xds::model::ObjectName;

use super::observer::Proxy;
use crate::NodeId;

#[derive(Debug, Default)]
pub(super) struct Registry {
    by_gateway: HashMap<ObjectName, BTreeMap<u64, (Proxy, SharedSession)>>,
}

pub(super) type SharedSession = Arc<Mutex<ProxySession>>;

impl Registry {
    /// Number of streams of a proxy.
    pub(super) fn streams(&self, node: &NodeId) -> usize {
        let streams = self.by_gateway.get(&node.gateway);
        let streams = streams.into_iter().flat_map(BTreeMap::values);
        streams.filter(|(proxy, _)| proxy.node == *node).count()
    }

    pub(super) fn add(&mut self, proxy: Proxy, session: SharedSession) {
        let gateway = proxy.node.gateway.clone();
        let streams = self.by_gateway.entry(gateway).or_default();
        streams.insert(proxy.stream, (proxy, session));
    }

    pub(super) fn remove(&mut self, proxy: &Proxy) {
        let gateway = &proxy.node.gateway;
        let Some(streams) = self.by_gateway.get_mut(gateway) else {
            return;
        };
        streams.remove(&proxy.stream);
        if streams.is_empty() {
            self.by_gateway.remove(gateway);
        }
    }

    /// The latest stream of each proxy of a Gateway.
    pub(super) fn latest(&self, gateway: &ObjectName) -> Vec<(Proxy, SharedSession)> {
        let streams = self.by_gateway.get(gateway).into_iter();
        let streams = streams.flat_map(BTreeMap::values);
        let by_node: BTreeMap<&NodeId, _> = streams.map(|it| (&it.0.node, it)).collect();
        by_node.into_values().cloned().collect()
    }

    pub(super) fn all(&self) -> Vec<Proxy> {
        let streams = self.by_gateway.values().flat_map(BTreeMap::values);
        let mut all: Vec<Proxy> = streams.map(|(proxy, _)| proxy.clone()).collect();
        all.sort_unstable_by_key(|proxy| proxy.stream);
        all
    }
}
