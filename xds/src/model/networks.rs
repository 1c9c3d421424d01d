//! Networks of clients that a policy allows or denies.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Weak};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::Resource;

/// Which client addresses a target accepts: none of `deny`, and if there is an `allow`, only those.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkPolicy {
    /// A list that the policy refers to was never read: every client is refused.
    ListMissing,
    /// The networks.
    #[serde(untagged)]
    Lists {
        /// An address in one of them is refused.
        #[serde(skip_serializing_if = "NetworkList::is_empty")]
        deny: NetworkList,
        /// If there is a list, an address has to be in it, even if the list is empty.
        #[serde(skip_serializing_if = "Option::is_none")]
        allow: Option<NetworkList>,
    },
}

impl NetworkPolicy {
    /// Number of its networks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lists().map(NetworkList::len).sum()
    }

    /// Whether it has no networks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of its networks in wire form.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let of = |&(_, length): &(IpAddr, u8)| 1 + usize::from(length).div_ceil(8);
        self.lists().flat_map(NetworkList::iter).map(of).sum()
    }

    /// Memory that its networks take in a proxy as a list, which all targets of the policy share.
    #[must_use]
    pub fn listed_bytes(&self) -> usize {
        self.len() * LISTED_BYTES
    }

    /// Memory that they take in a proxy as ranges of addresses to search in, which all targets share.
    #[must_use]
    pub fn range_bytes(&self) -> usize {
        let of = |(address, _): &(IpAddr, u8)| match address {
            IpAddr::V4(_) => 2 * size_of::<u32>(),
            IpAddr::V6(_) => 2 * size_of::<u128>(),
        };
        self.lists().flat_map(NetworkList::iter).map(of).sum()
    }

    fn lists(&self) -> impl Iterator<Item = &NetworkList> {
        let (deny, allow) = match self {
            Self::Lists { deny, allow } => (Some(deny), allow.as_ref()),
            Self::ListMissing => (None, None),
        };
        deny.into_iter().chain(allow)
    }
}

/// Networks in the order of their addresses, those of IPv4 first, none inside another. A clone shares them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NetworkList(Arc<[(IpAddr, u8)]>);

impl NetworkList {
    /// A list of addresses with prefix lengths. Bits beyond a length are cleared, and networks inside
    /// others left out.
    #[must_use]
    pub fn new(networks: impl IntoIterator<Item = (IpAddr, u8)>) -> Self {
        let networks = networks.into_iter();
        let mut networks: Vec<_> = networks.map(|(it, length)| truncated(it, length)).collect();
        // The wider one of two with the same first address comes first.
        networks.sort_unstable();
        networks.dedup_by(|(inner, _), (outer, length)| truncated(*inner, *length).0 == *outer);
        Self(networks.into())
    }

    /// The networks.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(IpAddr, u8)> {
        self.0.iter()
    }

    /// Number of networks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both share their memory, and so are equal.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The lists of received policies: equal ones share their memory, since each target of a policy is sent its own.
#[derive(Debug, Default)]
pub struct SharedLists(HashMap<u64, Weak<[(IpAddr, u8)]>>);

impl SharedLists {
    /// Remembers the lists of a policy that is in use.
    pub fn record(&mut self, resource: &Resource) {
        let Resource::Policy(policy) = resource else {
            return;
        };
        let networks = policy.spec.networks.iter();
        for list in networks
            .flat_map(NetworkPolicy::lists)
            .filter(|it| !it.is_empty())
        {
            let hash = self.0.hasher().hash_one(list);
            self.0.insert(hash, Arc::downgrade(&list.0));
        }
    }

    /// Has the lists of a policy share the memory of equal ones, if some are still in use.
    pub fn share(&mut self, resource: &mut Resource) {
        let Resource::Policy(policy) = resource else {
            return;
        };
        let networks = policy.spec.networks.as_ref();
        if networks.is_none_or(NetworkPolicy::is_empty) {
            return;
        }
        if let Some(NetworkPolicy::Lists { deny, allow }) = &mut Arc::make_mut(policy).spec.networks
        {
            let lists = [deny].into_iter().chain(allow);
            for list in lists.filter(|it| !it.is_empty()) {
                self.share_list(list);
            }
        }
    }

    fn share_list(&mut self, list: &mut NetworkList) {
        let hash = self.0.hasher().hash_one(&*list);
        match self.0.get(&hash).and_then(Weak::upgrade) {
            Some(known) if known == list.0 => list.0 = known,
            // An equal hash of another list: the latest one is shared.
            _ => {
                self.0.insert(hash, Arc::downgrade(&list.0));
            }
        }
    }

    /// Frees the memory of lists that are no longer in use.
    pub fn trim(&mut self) {
        self.0.retain(|_, list| list.strong_count() > 0);
    }
}

/// The number of networks, and the first of them: lists have tens of thousands.
impl Serialize for NetworkList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let first = self.iter().take(SHOWN);
        let first = first.map(|(address, length)| format!("{address}/{length}"));
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("count", &self.len())?;
        map.serialize_entry("first", &first.collect::<Vec<_>>())?;
        map.end()
    }
}

/// A network without the bits beyond its length, which is at most that of an address.
fn truncated(address: IpAddr, length: u8) -> (IpAddr, u8) {
    match address {
        IpAddr::V4(address) => {
            let length = length.min(32);
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            (
                IpAddr::from((address.to_bits() & mask).to_be_bytes()),
                length,
            )
        }
        IpAddr::V6(address) => {
            let length = length.min(128);
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            (Ipv6Addr::from_bits(address.to_bits() & mask).into(), length)
        }
    }
}

/// What a network takes in a list: 18 bytes.
const LISTED_BYTES: usize = size_of::<(IpAddr, u8)>();
/// Most networks of a list in a dump: 1024, as many as a policy can have without a ConfigMap.
const SHOWN: usize = 1024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget};
    use super::*;

    fn list(texts: &[&str]) -> NetworkList {
        NetworkList::new(texts.iter().map(|text| {
            let (address, length) = text.split_once('/').expect("a network");
            let address: IpAddr = address.parse().expect("an address");
            (address, length.parse().expect("a length"))
        }))
    }

    #[test]
    fn a_list_has_each_network_once_and_none_inside_another() {
        let texts = |list: &NetworkList| {
            let texts = list
                .iter()
                .map(|(address, length)| format!("{address}/{length}"));
            texts.collect::<Vec<_>>()
        };
        for (given, expected) in [
            (
                &["10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/8"][..],
                &["10.0.0.0/8"][..],
            ),
            (
                &["10.0.0.0/9", "10.128.0.0/9"],
                &["10.0.0.0/9", "10.128.0.0/9"],
            ),
            (&["10.1.2.3/8"], &["10.0.0.0/8"]),
            (
                &["::/0", "2001:db8::/32", "0.0.0.0/0"],
                &["0.0.0.0/0", "::/0"],
            ),
            (
                &["2001:db8::1/128", "10.0.0.1/32"],
                &["10.0.0.1/32", "2001:db8::1/128"],
            ),
            (&[], &[]),
        ] {
            assert_eq!(texts(&list(given)), expected, "{given:?}");
        }
    }

    #[test]
    fn equal_lists_share_their_memory_while_one_is_in_use() {
        let policy = |target: &str, network: &str| {
            let name = ObjectName::new("a", "p");
            Resource::from(Policy {
                key: PolicyKey::new("TrafficPolicy", &name, target),
                target: PolicyTarget::Gateway(name),
                spec: PolicySpec {
                    networks: Some(NetworkPolicy::Lists {
                        deny: NetworkList::default(),
                        allow: Some(list(&[network, "192.0.2.0/24"])),
                    }),
                    ..PolicySpec::default()
                },
            })
        };
        let allowed = |resource: &Resource| match resource {
            Resource::Policy(policy) => match &policy.spec.networks {
                Some(NetworkPolicy::Lists { allow, .. }) => allow.clone().expect("a list"),
                _ => panic!("it has networks"),
            },
            _ => panic!("a policy"),
        };
        let mut all = [
            policy("one", "10.0.0.0/8"),
            policy("two", "10.0.0.0/8"),
            policy("three", "10.1.0.0/16"),
        ];
        let expected = all.clone();
        let mut shared = SharedLists::default();
        for resource in &mut all {
            shared.share(resource);
        }
        assert_eq!(all, expected, "the networks are the same");
        let [one, two, three] = all.each_ref().map(allowed);
        assert!(one.is_shared_with(&two) && !one.is_shared_with(&three));
        let mut later = policy("four", "10.1.0.0/16");
        let mut restored = SharedLists::default();
        restored.record(&all[2]);
        restored.share(&mut later);
        assert!(allowed(&later).is_shared_with(&three));
        drop((all, expected, one, two));
        shared.trim();
        assert_eq!(shared.0.len(), 1, "the other two are gone");
    }

    #[test]
    fn a_dump_has_the_beginning_of_a_list() {
        let shown = |policy| serde_json::to_value(policy).expect("JSON");
        let policy = NetworkPolicy::Lists {
            deny: NetworkList::default(),
            allow: Some(list(&["10.0.0.0/8"])),
        };
        let expected = json!({"allow": {"count": 1, "first": ["10.0.0.0/8"]}});
        assert_eq!(shown(&policy), expected);
        assert_eq!(shown(&NetworkPolicy::ListMissing), json!("listMissing"));
        let many = (0..2000_u32).map(|it| (IpAddr::from(it.to_be_bytes()), 32));
        let many = serde_json::to_value(NetworkList::new(many)).expect("JSON");
        assert_eq!(many["count"], 2000);
        assert_eq!(many["first"].as_array().map(Vec::len), Some(1024));
    }
}
