//! The ports of the proxies of each Gateway, from its binds.

use std::collections::{BTreeMap, BTreeSet};

use translate::ViewChange;
use xds::model::{Kind, ObjectName, ResourceKey};

/// A port of a Gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Transport protocol of the listeners on it.
    pub transport: Transport,
    /// Port number, on the Service and in the pods.
    pub number: u16,
}

/// The transport protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP, which HTTP and TLS listeners use too.
    Tcp,
    /// UDP, which only UDP listeners use.
    Udp,
}

impl Port {
    /// The port in a bind's key, `tcp/80/<namespace>/<gateway>`.
    #[must_use]
    pub fn of(resource: &ResourceKey) -> Option<Self> {
        let mut parts = resource.key.split('/');
        let transport = match (resource.kind, parts.next()?) {
            (Kind::Bind, "tcp") => Transport::Tcp,
            (Kind::Bind, "udp") => Transport::Udp,
            _ => return None,
        };
        let number = parts.next()?.parse().ok()?;
        Some(Self { transport, number })
    }
}

/// The ports of all Gateways.
#[derive(Debug, Default)]
pub struct Ports(BTreeMap<ObjectName, BTreeSet<Port>>);

impl Ports {
    /// Applies the changes of a translation. Returns the ports of the Gateways for which they
    /// changed.
    pub fn take(
        &mut self,
        views: &BTreeMap<ObjectName, ViewChange>,
    ) -> Vec<(ObjectName, Option<BTreeSet<Port>>)> {
        let mut changed = Vec::new();
        for (gateway, view) in views {
            let joined: Vec<Port> = view.joined.iter().filter_map(Port::of).collect();
            let left: Vec<Port> = view.left.iter().filter_map(Port::of).collect();
            if joined.is_empty() && left.is_empty() {
                continue;
            }
            let ports = self.0.entry(gateway.clone()).or_default();
            ports.retain(|port| !left.contains(port));
            ports.extend(joined);
            if ports.is_empty() {
                self.0.remove(gateway);
            }
            changed.push((gateway.clone(), self.0.get(gateway).cloned()));
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(key: &str) -> ResourceKey {
        ResourceKey {
            kind: Kind::Bind,
            key: key.into(),
        }
    }

    #[test]
    fn ports_follow_the_binds_of_a_gateway() {
        let edge = ObjectName::new("infra", "edge");
        let mut ports = Ports::default();
        let route = ResourceKey {
            kind: Kind::Route,
            key: "HTTPRoute/a/b/0/infra/edge".into(),
        };
        let change = |joined, left| BTreeMap::from([(edge.clone(), ViewChange { joined, left })]);
        assert_eq!(ports.take(&change(vec![route], Vec::new())), []);
        let (tcp, udp) = (bind("tcp/80/infra/edge"), bind("udp/53/infra/edge"));
        let (transport, number) = (Transport::Udp, 53);
        let dns = Port { transport, number };
        let (transport, number) = (Transport::Tcp, 80);
        let web = Port { transport, number };
        let both = Some(BTreeSet::from([web, dns]));
        assert_eq!(
            ports.take(&change(vec![tcp.clone(), udp.clone()], Vec::new())),
            [(edge.clone(), both)]
        );
        let one = Some(BTreeSet::from([dns]));
        assert_eq!(
            ports.take(&change(Vec::new(), vec![tcp])),
            [(edge.clone(), one)]
        );
        assert_eq!(
            ports.take(&change(Vec::new(), vec![udp])),
            [(edge.clone(), None)]
        );
    }
}
