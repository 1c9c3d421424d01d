//! Nodes, and the proxies on them: which addresses a Gateway has there. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use translate::api::{GatewayAddress, Labels};
use translate::{AssignedAddresses, NoAddress};
use xds::model::ObjectName;

use super::source::{NodeAddressType, NodeAddresses};

/// The nodes of the cluster, and on which of them a Gateway has a proxy that is ready.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: BTreeMap<String, Node>,
    /// By namespace and name: the label of the Gateway, and the node.
    proxies: BTreeMap<ObjectName, Proxy>,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) labels: Labels,
    /// Each with its type, as in the status of the node.
    pub(super) addresses: Vec<(String, IpAddr)>,
}

/// A proxy that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    /// The value of the label with the Gateway's name.
    pub(super) gateway: String,
    pub(super) node: String,
}

impl Nodes {
    /// Adds, changes or removes a node. Returns the Gateways that it concerns, by namespace and label.
    pub(super) fn set_node(&mut self, name: &str, node: Option<Node>) -> BTreeSet<ObjectName> {
        let before = match node {
            Some(node) if self.nodes.get(name) == Some(&node) => return BTreeSet::new(),
            Some(node) => self.nodes.insert(name.to_owned(), node),
            None => self.nodes.remove(name),
        };
        if before.is_none() && !self.nodes.contains_key(name) {
            return BTreeSet::new();
        }
        let there = self.proxies.iter().filter(|(_, it)| it.node == name);
        there
            .map(|(pod, it)| ObjectName::new(&pod.namespace, &it.gateway))
            .collect()
    }

    /// Adds, changes or removes a proxy that is ready. Returns the Gateways that it concerns.
    pub(super) fn set_proxy(
        &mut self,
        pod: &ObjectName,
        proxy: Option<Proxy>,
    ) -> BTreeSet<ObjectName> {
        let after = proxy.clone();
        let before = match proxy {
            Some(proxy) => self.proxies.insert(pod.clone(), proxy),
            None => self.proxies.remove(pod),
        };
        if before == after {
            return BTreeSet::new();
        }
        let gateways = before.into_iter().chain(after);
        gateways
            .map(|it| ObjectName::new(&pod.namespace, &it.gateway))
            .collect()
    }

    pub(super) fn node_names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    pub(super) fn pods(&self) -> Vec<ObjectName> {
        self.proxies.keys().cloned().collect()
    }

    /// Whether a Gateway, by namespace and label, has a proxy that is ready.
    pub(super) fn have_proxy(&self, gateway: &ObjectName) -> bool {
        self.proxies_of(gateway).next().is_some()
    }

    /// Whether a node has this address.
    pub(super) fn have_address(&self, value: &str) -> bool {
        let mut all = self.nodes.values().flat_map(|it| &it.addresses);
        value
            .parse()
            .is_ok_and(|ip: IpAddr| all.any(|(_, it)| *it == ip))
    }

    fn proxies_of(&self, gateway: &ObjectName) -> impl Iterator<Item = &Proxy> {
        let proxies = self
            .proxies
            .iter()
            .filter(|(pod, it)| pod.namespace == gateway.namespace && *it.gateway == *gateway.name);
        proxies.map(|(_, proxy)| proxy)
    }

    /// The addresses of a Gateway, by namespace and label.
    pub(super) fn addresses(
        &self,
        gateway: &ObjectName,
        wanted: &NodeAddresses,
    ) -> AssignedAddresses {
        let names: BTreeSet<&str> = self.proxies_of(gateway).map(|it| &*it.node).collect();
        let nodes = names.iter().filter_map(|name| self.nodes.get(*name));
        let nodes = nodes.filter(|node| {
            let selector = wanted.selector.as_ref();
            selector.is_none_or(|it| it.selects(&node.labels))
        });
        let nodes: Vec<&Node> = nodes.collect();
        let of = |kind: NodeAddressType| -> BTreeSet<IpAddr> {
            let all = nodes.iter().flat_map(|it| &it.addresses);
            all.filter(|(of, _)| of == kind.as_str())
                .map(|(_, address)| *address)
                .collect()
        };
        let mut found = of(wanted.kind.unwrap_or(NodeAddressType::External));
        if found.is_empty() && wanted.kind.is_none() {
            found = of(NodeAddressType::Internal);
        }
        let absence = match (names.is_empty(), nodes.is_empty()) {
            (true, _) => {
                "no node has a proxy of this Gateway that is ready: see its pods".to_owned()
            }
            (false, true) => {
                "`addresses.selector` of the GatewayParameters selects none of the nodes with a \
                              ready proxy: correct it, or label them"
                    .to_owned()
            }
            (false, false) => {
                let kind = wanted
                    .kind
                    .map_or("ExternalIP or InternalIP", |it| it.as_str());
                format!(
                    "no node with a ready proxy has an address of type {kind}: change `addresses.type` of the \
                     GatewayParameters"
                )
            }
        };
        AssignedAddresses {
            default: found.into_iter().take(MOST).map(ip_address).collect(),
            cluster: Vec::new(),
            absence: NoAddress::Nodes(absence),
        }
    }
}

fn ip_address(ip: IpAddr) -> GatewayAddress {
    GatewayAddress {
        kind: "IPAddress".to_owned(),
        value: ip.to_string(),
        routability: String::new(),
    }
}

/// Most addresses in the status of a Gateway: 16, the limit of Gateway API.
const MOST: usize = 16;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(labels: &[(&str, &str)], addresses: &[(&str, &str)]) -> Node {
        let labels = labels.iter();
        let addresses = addresses.iter();
        let addresses =
            addresses.map(|(kind, ip)| ((*kind).to_owned(), ip.parse().expect("an address")));
        Node {
            labels: labels
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            addresses: addresses.collect(),
        }
    }

    fn add(nodes: &mut Nodes, name: &str, node: Node) {
        nodes.set_node(name, Some(node));
    }

    fn proxy(node: &str) -> Proxy {
        Proxy {
            gateway: "edge".to_owned(),
            node: node.to_owned(),
        }
    }

    fn pod(name: &str) -> ObjectName {
        ObjectName::new("infra", name)
    }

    fn found(nodes: &Nodes, wanted: &serde_json::Value) -> Result<Vec<String>, String> {
        let wanted = serde_json::from_value(wanted.clone()).expect("they are valid");
        let assigned = nodes.addresses(&pod("edge"), &wanted);
        if assigned.default.is_empty() {
            let NoAddress::Nodes(why) = assigned.absence else {
                panic!("no reason")
            };
            return Err(why);
        }
        Ok(assigned.default.into_iter().map(|it| it.value).collect())
    }

    #[test]
    fn nodes_with_a_ready_proxy_count_in_the_order_of_their_numbers() {
        let mut nodes = Nodes::default();
        let internal = |ip| node(&[], &[("InternalIP", ip), ("Hostname", ip)]);
        for (name, ip) in [("a", "10.0.0.10"), ("b", "10.0.0.9"), ("c", "10.0.0.1")] {
            nodes.set_node(name, Some(internal(ip)));
        }
        let why = found(&nodes, &json!({})).expect_err("there is no proxy");
        assert!(why.starts_with("no node has a proxy"), "{why}");
        let gateways = BTreeSet::from([pod("edge")]);
        assert_eq!(nodes.set_proxy(&pod("1"), Some(proxy("a"))), gateways);
        assert_eq!(nodes.set_proxy(&pod("2"), Some(proxy("b"))), gateways);
        assert_eq!(nodes.set_proxy(&pod("3"), Some(proxy("b"))), gateways);
        assert_eq!(
            found(&nodes, &json!({})),
            Ok(vec!["10.0.0.9".into(), "10.0.0.10".into()])
        );
        // Of another Gateway, and of another namespace.
        assert_eq!(
            nodes.set_node("c", Some(internal("10.0.0.2"))),
            BTreeSet::new()
        );
        nodes.set_proxy(&ObjectName::new("other", "1"), Some(proxy("c")));
        assert_eq!(nodes.set_node("b", Some(internal("10.0.0.11"))), gateways);
        assert_eq!(
            nodes.set_node("b", Some(internal("10.0.0.11"))),
            BTreeSet::new()
        );
        assert_eq!(
            nodes.set_proxy(&pod("1"), Some(proxy("a"))),
            BTreeSet::new()
        );
        nodes.set_proxy(&pod("1"), None);
        assert_eq!(found(&nodes, &json!({})), Ok(vec!["10.0.0.11".into()]));
        assert_eq!(nodes.set_node("b", None), gateways);
        assert!(found(&nodes, &json!({})).is_err());
    }

    #[test]
    fn external_addresses_go_first_unless_a_type_is_given() {
        let mut nodes = Nodes::default();
        add(
            &mut nodes,
            "a",
            node(
                &[],
                &[("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1")],
            ),
        );
        add(
            &mut nodes,
            "b",
            node(
                &[],
                &[("InternalIP", "10.0.0.2"), ("InternalIP", "fd00::2")],
            ),
        );
        nodes.set_proxy(&pod("1"), Some(proxy("a")));
        nodes.set_proxy(&pod("2"), Some(proxy("b")));
        assert_eq!(found(&nodes, &json!({})), Ok(vec!["192.0.2.1".into()]));
        let internal = ["10.0.0.1", "10.0.0.2", "fd00::2"].map(str::to_owned);
        assert_eq!(
            found(&nodes, &json!({"type": "InternalIP"})),
            Ok(internal.into())
        );
        nodes.set_proxy(&pod("1"), None);
        assert_eq!(
            found(&nodes, &json!({})),
            Ok(vec!["10.0.0.2".into(), "fd00::2".into()])
        );
        let why = found(&nodes, &json!({"type": "ExternalIP"})).expect_err("it has none");
        assert!(why.contains("of type ExternalIP"), "{why}");
    }

    #[test]
    fn a_selector_chooses_among_the_nodes() {
        let mut nodes = Nodes::default();
        add(
            &mut nodes,
            "a",
            node(&[("edge", "yes")], &[("InternalIP", "10.0.0.1")]),
        );
        add(&mut nodes, "b", node(&[], &[("InternalIP", "10.0.0.2")]));
        nodes.set_proxy(&pod("1"), Some(proxy("a")));
        nodes.set_proxy(&pod("2"), Some(proxy("b")));
        let selector = |value: &str| json!({"selector": {"matchLabels": {"edge": value}}});
        assert_eq!(found(&nodes, &selector("yes")), Ok(vec!["10.0.0.1".into()]));
        let why = found(&nodes, &selector("no")).expect_err("no node");
        assert!(why.contains("`addresses.selector`"), "{why}");
    }

    #[test]
    fn a_status_has_room_for_16() {
        let mut nodes = Nodes::default();
        for number in 0..20 {
            let (name, ip) = (number.to_string(), format!("10.0.0.{}", 100 - number));
            add(&mut nodes, &name, node(&[], &[("InternalIP", &ip)]));
            nodes.set_proxy(&pod(&name), Some(proxy(&name)));
        }
        let found = found(&nodes, &json!({})).expect("addresses");
        assert_eq!(
            (found.len(), &*found[0], &*found[15]),
            (16, "10.0.0.81", "10.0.0.96")
        );
    }
}
