//! Networks of clients.

use std::net::IpAddr;

use super::field_path::FieldPath;
use crate::model::{NetworkList, NetworkPolicy};
use crate::proto;

pub(super) fn network_policy(
    at: &FieldPath<'_>,
    message: proto::NetworkPolicy,
) -> Option<NetworkPolicy> {
    if message.list_missing {
        return Some(NetworkPolicy::ListMissing);
    }
    let deny = at.optional("deny", message.deny, network_list);
    let allow = at.optional("allow", message.allow, network_list);
    Some(NetworkPolicy::Lists {
        deny: deny?.unwrap_or_default(),
        allow: allow?,
    })
}

fn network_list(at: &FieldPath<'_>, message: proto::NetworkList) -> Option<NetworkList> {
    let v4 = networks::<4>(&at.field("v4"), &message.v4);
    let v6 = networks::<16>(&at.field("v6"), &message.v6);
    Some(NetworkList::new(v4?.into_iter().chain(v6?)))
}

/// Networks whose addresses have `N` bytes.
fn networks<const N: usize>(at: &FieldPath<'_>, bytes: &[u8]) -> Option<Vec<(IpAddr, u8)>>
where
    IpAddr: From<[u8; N]>,
{
    let mut networks = Vec::new();
    let mut rest = bytes;
    while let Some((length, following)) = rest.split_first() {
        let whole = usize::from(*length).div_ceil(8);
        if whole > N {
            let most = N.saturating_mul(8);
            return at.problem(format!("{length} is too long a prefix: use 0 to {most}"));
        }
        let Some((address, others)) = following.split_at_checked(whole) else {
            return at.problem("ends within a network");
        };
        let mut octets = [0; N];
        octets
            .iter_mut()
            .zip(address)
            .for_each(|(to, from)| *to = *from);
        networks.push((octets.into(), *length));
        rest = others;
    }
    Some(networks)
}
