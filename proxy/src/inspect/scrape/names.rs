//! Labels of configured objects, by the ids of the counters.

use std::collections::HashMap;

use admin::metrics::Labels;

use crate::config::{BindProtocol, Listener, Snapshot, TrafficMode};
use crate::names::Interned;
use crate::observe::series::Owner;

/// Labels of configured objects, by id.
pub(super) struct Names<'a> {
    pub(super) binds: Vec<(Interned, Labels)>,
    pub(super) listeners: Vec<(Interned, Labels)>,
    pub(super) routes: Vec<(Interned, Labels)>,
    pub(super) owners: HashMap<Owner, usize>,
    pub(super) owner_labels: Vec<Labels>,
    pub(super) backends: HashMap<Interned, &'a str>,
    /// Rules of byte-proxied connections.
    pub(super) carried: Vec<L4RuleLabels>,
    /// Owners of such connections.
    pub(super) carriers: HashMap<Owner, Labels>,
}

/// A rule of byte-proxied connections.
pub(super) struct L4RuleLabels {
    pub(super) id: Interned,
    /// The same labels as HTTP rules have.
    pub(super) labels: Labels,
    /// With the protocol `TCP`, `TLS` or `UDP` in addition.
    pub(super) with_protocol: Labels,
}

impl<'a> Names<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut names = Self {
            binds: Vec::new(),
            listeners: Vec::new(),
            routes: Vec::new(),
            owners: HashMap::new(),
            owner_labels: Vec::new(),
            backends: HashMap::new(),
            carried: Vec::new(),
            carriers: HashMap::new(),
        };
        for (id, bind) in (0..).zip(&snapshot.binds) {
            let Some(bind) = bind else { continue };
            let gateway = Labels::none().with("gateway", &bind.gateway);
            let labels = gateway.with("bind", bind.key.as_str());
            names.binds.push((Interned::bind(id), labels));
            for listener in bind.listeners.iter() {
                let labels = gateway.with("listener", listener.key.as_str());
                names.own(Owner::Listener(listener.id), labels.with("route", ""));
                for (_, rule) in listener.rules.entries() {
                    let labels = labels.with("route", &rule.name);
                    names.own(Owner::Route(rule.id), labels.clone());
                    names.routes.push((rule.id, labels));
                }
                if listener.traffic == TrafficMode::Bytes {
                    names.carry(bind.opening, listener, &labels);
                }
                names.listeners.push((listener.id, labels));
            }
        }
        let clusters = snapshot.all_clusters();
        names.backends = clusters
            .map(|cluster| (cluster.id, &*cluster.name))
            .collect();
        names
    }

    /// Adds a listener of byte-proxied connections, and its rules.
    fn carry(&mut self, opening: BindProtocol, listener: &Listener, labels: &Labels) {
        let protocol = match opening {
            BindProtocol::Udp => "UDP",
            BindProtocol::Tls => "TLS",
            BindProtocol::Tcp | BindProtocol::Http => "TCP",
        };
        let no_route = labels.with("route", "").with("protocol", protocol);
        self.carriers.insert(Owner::Listener(listener.id), no_route);
        for (_, rule) in listener.l4.iter() {
            let labels = labels.with("route", &rule.name);
            let with_protocol = labels.with("protocol", protocol);
            let owner = Owner::Route(rule.id);
            // A rule with several hostnames occurs once for each.
            if self.carriers.insert(owner, with_protocol.clone()).is_none() {
                self.carried.push(L4RuleLabels {
                    id: rule.id,
                    labels,
                    with_protocol,
                });
            }
        }
    }

    fn own(&mut self, owner: Owner, labels: Labels) {
        self.owners.insert(owner, self.owner_labels.len());
        self.owner_labels.push(labels);
    }
}
