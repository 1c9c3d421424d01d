//! What of the configuration is named in labels, by the ids under which shards count.

use std::collections::HashMap;

use admin::metrics::Labels;

use crate::config::Snapshot;
use crate::observe::series::Owner;
use crate::shard::interned::Interned;

/// What of the configuration is named in labels, by id.
pub(super) struct Names<'a> {
    pub(super) binds: Vec<(Interned, Labels)>,
    pub(super) listeners: Vec<(Interned, Labels)>,
    pub(super) routes: Vec<(Interned, Labels)>,
    pub(super) owners: HashMap<Owner, usize>,
    pub(super) owner_labels: Vec<Labels>,
    pub(super) backends: HashMap<Interned, &'a str>,
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
        };
        for (id, bind) in (0..).zip(&snapshot.binds) {
            let Some(bind) = bind else { continue };
            let gateway = Labels::none().with("gateway", &bind.gateway);
            let labels = gateway.with("bind", bind.key.as_str());
            names.binds.push((Interned::bind(id), labels));
            for listener in &bind.listeners {
                let labels = gateway.with("listener", listener.key.as_str());
                names.own(Owner::Listener(listener.id), labels.with("route", ""));
                for rule in &listener.rules {
                    let labels = labels.with("route", &rule.name);
                    names.own(Owner::Route(rule.id), labels.clone());
                    names.routes.push((rule.id, labels));
                }
                names.listeners.push((listener.id, labels));
            }
        }
        let clusters = snapshot.clusters.iter();
        names.backends = clusters
            .map(|cluster| (cluster.id, &*cluster.name))
            .collect();
        names
    }

    fn own(&mut self, owner: Owner, labels: Labels) {
        self.owners.insert(owner, self.owner_labels.len());
        self.owner_labels.push(labels);
    }
}
