//! The addresses of a cluster. They are the same in each: no cluster can reach another, nor the machine.

use std::net::Ipv4Addr;

pub(crate) const SERVICES: &str = "10.96.0.0/16";

/// Addresses of pods; each node has a part of them.
pub(crate) const PODS: &str = "10.244.0.0/16";

/// The Service of the cluster's DNS.
pub(crate) const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// Where Services of type LoadBalancer have their addresses.
pub(crate) const LOAD_BALANCERS: &str = "172.31.250.0/24";

/// The same, as bytes without the last.
pub(crate) const LOAD_BALANCER_PREFIX: [u8; 3] = [172, 31, 250];

/// The address of a node.
pub(crate) fn node(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 31, number, 1)
}

/// The client's end of a node's link, which is the node's default route.
pub(crate) fn client(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 31, number, 2)
}

/// A node and its end of the link.
pub(crate) fn link(number: u8) -> String {
    format!("172.31.{number}.0/24")
}

/// The pods of a node.
pub(crate) fn pods(number: u8) -> String {
    format!("10.244.{number}.0/24")
}
