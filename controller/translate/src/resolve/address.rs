//! The addresses that a Gateway asks for, and those that it gets.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use xds::model::ObjectName;

use crate::api::{self, GatewayAddress};
use crate::problem::Problem;
use crate::reader::Reader;
use crate::reason::Reason;

/// What became of the addresses of one Gateway.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Addresses {
    /// What its listeners bind to.
    pub(crate) bind: IpAddr,
    /// Where it is reached.
    pub(crate) reached_at: Vec<GatewayAddress>,
    /// Why the Gateway is refused.
    pub(crate) refusals: Vec<Problem>,
    /// Why it cannot be programmed.
    pub(crate) unusable: Vec<Problem>,
}

impl Addresses {
    pub(crate) fn of(reader: &Reader<'_>, name: &ObjectName, gateway: &api::Gateway) -> Self {
        let asked = &gateway.spec.addresses;
        match reader.machine_addresses() {
            Some(addresses) => on_machine(asked, addresses),
            None => in_cluster(asked, reader.assigned(name)),
        }
    }
}

/// One address of the machine, or all of them.
fn on_machine(asked: &[GatewayAddress], usable: &BTreeSet<IpAddr>) -> Addresses {
    let mut unusable = Vec::new();
    let mut bind = None;
    for (index, address) in asked.iter().enumerate() {
        if address.kind != IP_ADDRESS || address.value.is_empty() {
            continue;
        }
        let field = format!("spec.addresses[{index}].value");
        let fail = |what| Problem::new(Reason::AddressNotUsable, &field, what);
        match address.value.parse::<IpAddr>() {
            Ok(ip) if !is_usable(ip, usable) => {
                unusable.push(fail(format!(
                    "this machine has no address {ip}: ask for one it has"
                )));
            }
            Ok(ip) if bind.is_none_or(|other| other == ip) => bind = Some(ip),
            Ok(_) => unusable.push(fail(
                "a Gateway listens on one address of a machine or on all: leave one, or none"
                    .to_owned(),
            )),
            Err(_) => unusable.push(fail(format!("`{}` is not an IP address", address.value))),
        }
    }
    let every = || usable.iter().map(|ip| ip_address(*ip)).collect();
    let reached_at = if unusable.is_empty() {
        bind.map_or_else(every, |ip| vec![ip_address(ip)])
    } else {
        Vec::new()
    };
    Addresses {
        bind: bind.unwrap_or(EVERY_ADDRESS),
        reached_at,
        refusals: unsupported(asked, &[IP_ADDRESS]),
        unusable,
    }
}

/// Whatever the cluster assigned; what was asked for must be among it.
fn in_cluster(asked: &[GatewayAddress], assigned: &[GatewayAddress]) -> Addresses {
    let valued = |address: &&GatewayAddress| !address.value.is_empty();
    let mut unusable: Vec<Problem> = asked
        .iter()
        .enumerate()
        .filter(|(_, address)| valued(address) && !assigned.contains(address))
        .map(|(index, address)| {
            let field = format!("spec.addresses[{index}]");
            let message = format!(
                "{} {} was not assigned to this Gateway: ask for one that the load balancer has",
                address.kind, address.value
            );
            Problem::new(Reason::AddressNotUsable, field, message)
        })
        .collect();
    if unusable.is_empty() && assigned.is_empty() {
        let message =
            "no address was assigned yet: the Gateway's Service waits for a load balancer";
        unusable.push(Problem::new(Reason::AddressNotAssigned, "", message));
    }
    let only_asked = asked.iter().any(|address| valued(&address));
    let reached_at = assigned
        .iter()
        .filter(|address| !only_asked || asked.contains(address))
        .cloned()
        .collect();
    Addresses {
        bind: EVERY_ADDRESS,
        reached_at,
        refusals: unsupported(asked, &[IP_ADDRESS, HOSTNAME]),
        unusable,
    }
}

fn unsupported(asked: &[GatewayAddress], types: &[&str]) -> Vec<Problem> {
    asked
        .iter()
        .enumerate()
        .filter(|(_, address)| !types.contains(&&*address.kind))
        .map(|(index, address)| {
            let field = format!("spec.addresses[{index}].type");
            let message = format!(
                "addresses of type `{}` are not supported here: use {}",
                address.kind,
                types.join(" or ")
            );
            Problem::new(Reason::UnsupportedAddress, field, message)
        })
        .collect()
}

fn is_usable(ip: IpAddr, usable: &BTreeSet<IpAddr>) -> bool {
    ip.is_loopback() || ip.is_unspecified() || usable.contains(&ip)
}

fn ip_address(ip: IpAddr) -> GatewayAddress {
    GatewayAddress {
        kind: IP_ADDRESS.to_owned(),
        value: ip.to_string(),
    }
}

const IP_ADDRESS: &str = "IPAddress";
const HOSTNAME: &str = "Hostname";
/// Takes IPv4 as well, on a dual-stack socket.
const EVERY_ADDRESS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
