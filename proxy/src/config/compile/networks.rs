//! Networks of clients: many rules share a policy, and many policies a list. Each is compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use xds::model::{NetworkList, NetworkPolicy, Policy};

use super::rule::policy_name;
use crate::policy::client_networks::{ClientLists, ClientNetworks};
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
    pub(super) fn of(&mut self, policy: &Policy, networks: &NetworkPolicy) -> Arc<ClientNetworks> {
        let place = std::ptr::from_ref(networks).addr();
        if let Some(known) = self.policies.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        let lists = match networks {
            NetworkPolicy::ListMissing => ClientLists::ListMissing,
            NetworkPolicy::Lists { deny, allow } => ClientLists::Lists {
                deny: self.list(deny),
                allow: allow.as_ref().map(|allow| self.list(allow)),
            },
        };
        let policy = policy_name(&policy.key);
        let compiled = Arc::new(ClientNetworks { policy, lists });
        self.policies.insert(place, Arc::downgrade(&compiled));
        compiled
    }

    /// The compiled networks of these policies.
    pub(super) fn all_of<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a Policy>,
    ) -> Box<[Arc<ClientNetworks>]> {
        let policies = policies.into_iter();
        let all =
            policies.filter_map(|policy| Some(self.of(policy, policy.spec.networks.as_ref()?)));
        all.collect()
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

    use xds::model::{ObjectName, PolicyKey, PolicySpec, PolicyTarget};

    use super::*;

    #[test]
    fn equal_lists_are_compiled_once_and_dropped_with_their_last_rule() {
        let list = || NetworkList::new([(IpAddr::from([10, 0, 0, 0]), 8)]);
        let policy = |name: &str, deny| {
            let gateway = ObjectName::new("infra", "edge");
            Policy {
                key: PolicyKey::new("TrafficPolicy", &ObjectName::new("infra", name), "all"),
                target: PolicyTarget::Gateway(gateway),
                spec: PolicySpec {
                    networks: Some(NetworkPolicy::Lists { deny, allow: None }),
                    ..PolicySpec::default()
                },
            }
        };
        let (one, other) = (policy("one", list()), policy("other", list()));
        let mut shared = SharedNetworks::default();
        let compiled = shared.all_of([&one, &one, &other]);
        assert!(Arc::ptr_eq(&compiled[0], &compiled[1]));
        assert_eq!(&*compiled[2].policy, "TrafficPolicy/infra/other");
        let lists: Vec<_> = { compiled.iter() }
            .map(|it| match &it.lists {
                ClientLists::Lists { deny, .. } => Arc::as_ptr(deny),
                ClientLists::ListMissing => panic!("it has a list"),
            })
            .collect();
        assert_eq!(lists[0], lists[2]);
        drop(compiled);
        shared.begin();
        assert!(shared.lists.is_empty() && shared.policies.is_empty());
    }
}
