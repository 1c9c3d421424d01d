//! Networks of clients.

use std::net::IpAddr;

use crate::model::{NetworkList, NetworkPolicy};
use crate::proto;

impl From<&NetworkPolicy> for proto::NetworkPolicy {
    fn from(policy: &NetworkPolicy) -> Self {
        match policy {
            NetworkPolicy::Lists { deny, allow } => Self {
                deny: (!deny.is_empty()).then(|| deny.into()),
                allow: allow.as_ref().map(Into::into),
                list_missing: false,
            },
            NetworkPolicy::ListMissing => Self {
                list_missing: true,
                ..Self::default()
            },
        }
    }
}

impl From<&NetworkList> for proto::NetworkList {
    fn from(list: &NetworkList) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (address, length) in list.iter() {
            let whole = usize::from(*length).div_ceil(8);
            let (to, address) = match address {
                IpAddr::V4(address) => (&mut v4, &address.octets()[..]),
                IpAddr::V6(address) => (&mut v6, &address.octets()[..]),
            };
            to.push(*length);
            to.extend(address.iter().take(whole));
        }
        Self { v4, v6 }
    }
}
