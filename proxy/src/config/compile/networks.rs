//! Networks of clients: many rules share a policy, and many policies a list. Each is compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use xds::model::{NetworkList, NetworkPolicy};

use crate::policy::client_networks::ClientNetworks;
use crate::policy::networks::Networks;

/// The compiled networks of a model.
#[derive(Debug, Default)]
pub(super) struct SharedNetworks {
    /// The policies of the current model, by address in memory.
    policies: HashMap<usize, Weak<ClientNetworks>>,
    /// Lists by content: over xDS, each target of a policy has its own.
    lists: HashMap<NetworkList, Weak<Networks>>,
}

impl SharedNetworks {
    pub(super) fn begin(&mut self) {
        self.policies.clear();
        self.lists.retain(|_, compiled| compiled.strong_count() > 0);
    }

    /// The compiled form of a policy of the current model.
    pub(super) fn of(&mut self, policy: &NetworkPolicy) -> Arc<ClientNetworks> {
        let place = std::ptr::from_ref(policy).addr();
        if let Some(known) = self.policies.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        let compiled = Arc::new(match policy {
            NetworkPolicy::ListMissing => ClientNetworks::ListMissing,
            NetworkPolicy::Lists { deny, allow } => ClientNetworks::Lists {
                deny: self.list(deny),
                allow: allow.as_ref().map(|allow| self.list(allow)),
            },
        });
        self.policies.insert(place, Arc::downgrade(&compiled));
        compiled
    }

    fn list(&mut self, list: &NetworkList) -> Arc<Networks> {
        if let Some(known) = self.lists.get(list).and_then(Weak::upgrade) {
            return known;
        }
        let compiled = Arc::new(Networks::compile(list.iter()));
        self.lists.insert(list.clone(), Arc::downgrade(&compiled));
        compiled
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn equal_lists_are_compiled_once_and_dropped_with_their_last_rule() {
        let list = || NetworkList::new([(IpAddr::from([10, 0, 0, 0]), 8)]);
        let policy = |deny| NetworkPolicy::Lists { deny, allow: None };
        let (one, other) = (policy(list()), policy(list()));
        let mut shared = SharedNetworks::default();
        let compiled = [shared.of(&one), shared.of(&one), shared.of(&other)];
        assert!(Arc::ptr_eq(&compiled[0], &compiled[1]));
        let lists = compiled.each_ref().map(|it| match &**it {
            ClientNetworks::Lists { deny, .. } => Arc::as_ptr(deny),
            ClientNetworks::ListMissing => panic!("it has a list"),
        });
        assert_eq!(lists[0], lists[2]);
        drop(compiled);
        shared.begin();
        assert!(shared.lists.is_empty() && shared.policies.is_empty());
    }
}
