//! The requested and assigned addresses of a Gateway.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use xds::model::ObjectName;

use super::api;
use super::api::{GatewayAddress, ROUTABILITY_SENTINEL, ROUTABLE_IN_CLUSTER};
use crate::objects::reader::Reader;
use crate::options::{AssignedAddresses, NoAddress};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The addresses of one Gateway, with problems.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Addresses {
    /// The address that its listeners bind.
    pub(crate) bind: IpAddr,
    /// The addresses in its status.
    pub(crate) reached_at: Vec<GatewayAddress>,
    /// Those in the status of a Gateway that is refused.
    pub(crate) kept: Vec<GatewayAddress>,
    /// Why the Gateway is rejected.
    pub(crate) refusals: Vec<Problem>,
    /// Why it cannot be programmed.
    pub(crate) unusable: Vec<Problem>,
    /// Requested addresses that were not assigned.
    pub(crate) unassigned: Vec<Problem>,
}

impl Addresses {
    pub(crate) fn of(reader: &Reader<'_>, name: &ObjectName, gateway: &api::Gateway) -> Self {
        let requested = &gateway.spec.addresses;
        match reader.machine_addresses() {
            Some(addresses) => select_on_machine(requested, addresses),
            None => in_cluster(requested, reader.assigned(name)),
        }
    }
}

/// One address of the machine, or all of them.
fn select_on_machine(requested: &[GatewayAddress], usable: &BTreeSet<IpAddr>) -> Addresses {
    let mut unusable = Vec::new();
    let mut out_of_scope = Vec::new();
    let mut bind = None;
    for (index, address) in requested.iter().enumerate() {
        if !address.routability.is_empty() {
            let field = format!("spec.addresses[{index}].routability");
            let message = format!(
                "routability `{}` does not apply to the addresses of a machine: leave it out",
                address.routability
            );
            out_of_scope.push(Problem::new(Reason::AddressNotAssigned, field, message));
            continue;
        }
        if address.kind != IP_ADDRESS || address.value.is_empty() {
            continue;
        }
        let field = format!("spec.addresses[{index}].value");
        let fail = |what| Problem::new(Reason::AddressNotUsable, &field, what);
        match address.value.parse::<IpAddr>() {
            Ok(ip) if !is_usable(ip, usable) => {
                unusable.push(fail(format!(
                    "this machine does not have the address {ip}: use one that it has"
                )));
            }
            Ok(ip) if bind.is_none_or(|other| other == ip) => bind = Some(ip),
            Ok(_) => unusable.push(fail(
                "a Gateway listens on one address of the machine or on all: keep one, or none"
                    .to_owned(),
            )),
            Err(_) => unusable.push(fail(format!("`{}` is not an IP address", address.value))),
        }
    }
    let unmet: Vec<Problem> = unusable.iter().chain(&out_of_scope).cloned().collect();
    let has_none = !requested.is_empty() && unmet.len() == requested.len();
    if unusable.is_empty() && has_none {
        unusable = out_of_scope;
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
        kept: Vec::new(),
        refusals: unsupported(requested, &[IP_ADDRESS]),
        unusable,
        unassigned: unassigned(unmet, has_none),
    }
}

/// The assigned addresses, or those of them that were requested: each request is satisfied by its
/// own address (GEP-5093).
fn in_cluster(requested: &[GatewayAddress], assigned: &AssignedAddresses) -> Addresses {
    let (reached_at, mut unmet) = match requested {
        [] => (assigned.default.clone(), Vec::new()),
        _ => assign(requested, assigned),
    };
    let mut unknown = Vec::new();
    if reached_at.is_empty() && unmet.is_empty() {
        let missing = |message: &str| Problem::new(Reason::AddressNotAssigned, "", message);
        match &assigned.absence {
            NoAddress::Pending => unmet.push(missing(
                "no address was assigned yet: the Gateway's Service waits for a load balancer",
            )),
            NoAddress::Nodes(why) => unmet.push(missing(why)),
            NoAddress::Unneeded => {}
            NoAddress::Unreadable(why) => {
                unknown.push(Problem::new(Reason::NodesNotReadable, "", why.as_str()));
            }
        }
    }
    let kept = match &*reached_at {
        // What is requested may be the mistake.
        [] => assigned.default.clone(),
        reached_at => reached_at.to_vec(),
    };
    // A Gateway that requests scopes works with those that it gets.
    let is_fatal =
        |problem: &&Problem| reached_at.is_empty() || problem.reason == Reason::AddressNotUsable;
    Addresses {
        bind: EVERY_ADDRESS,
        unusable: unmet.iter().filter(is_fatal).cloned().collect(),
        unassigned: [unassigned(unmet, reached_at.is_empty()), unknown].concat(),
        reached_at,
        kept,
        refusals: unsupported(requested, &[IP_ADDRESS, HOSTNAME]),
    }
}

/// The addresses that satisfy requests, in their order, and why others are not satisfied.
fn assign(
    requested: &[GatewayAddress],
    assigned: &AssignedAddresses,
) -> (Vec<GatewayAddress>, Vec<Problem>) {
    let AssignedAddresses {
        default, cluster, ..
    } = assigned;
    let others = cluster.iter().filter(|address| !default.contains(address));
    let others = others.map(|address| (address, false));
    let mut free: Vec<_> = default.iter().map(|address| (address, true)).collect();
    free.extend(others);
    // The most specific choose first: others may accept what is left.
    let mut order: Vec<usize> = (0..requested.len()).collect();
    order.sort_by_key(|index| {
        let request = &requested[*index];
        let is_any = request.routability != ROUTABLE_IN_CLUSTER;
        (request.value.is_empty(), is_any)
    });
    let mut met: Vec<Option<GatewayAddress>> = vec![None; requested.len()];
    for index in order {
        let request = &requested[index];
        let mut candidates = free.iter();
        let place =
            candidates.position(|(address, is_default)| satisfies(request, address, *is_default));
        met[index] = place.map(|place| {
            let (address, _) = free.remove(place);
            let is_sentinel = request.routability == ROUTABILITY_SENTINEL;
            let reported = if is_sentinel { request } else { address };
            GatewayAddress {
                routability: reported.routability.clone(),
                ..address.clone()
            }
        });
    }
    let unmet = met.iter().zip(requested).enumerate();
    let unmet = unmet.filter(|(_, (met, _))| met.is_none());
    let unmet = unmet.map(|(index, (_, request))| {
        let why = unsatisfied(index, request);
        let message = match &assigned.absence {
            NoAddress::Nodes(text) | NoAddress::Unreadable(text) if default.is_empty() => {
                text.clone()
            }
            NoAddress::Unneeded => "the Gateway has no Service, and so no addresses that it could \
                                    request: remove this one, or change `service.type` in its \
                                    GatewayParameters"
                .to_owned(),
            _ => return why,
        };
        Problem { message, ..why }
    });
    let unmet = unmet.collect();
    (met.into_iter().flatten().collect(), unmet)
}

/// Whether an address satisfies a request.
fn satisfies(request: &GatewayAddress, address: &GatewayAddress, is_default: bool) -> bool {
    let is_named = !request.value.is_empty();
    let in_scope = match &*request.routability {
        // Without a specific request, the default addresses apply.
        "" => is_named || is_default,
        ROUTABILITY_SENTINEL => true,
        other => other == ROUTABLE_IN_CLUSTER && address.routability == ROUTABLE_IN_CLUSTER,
    };
    let is_value = !is_named || request.value == address.value;
    in_scope && is_value && request.kind == address.kind
}

fn unsatisfied(index: usize, request: &GatewayAddress) -> Problem {
    let GatewayAddress {
        kind,
        value,
        routability,
    } = request;
    let field = format!("spec.addresses[{index}]");
    let (reason, message) = match (&**routability, &**value) {
        ("", "") => (
            Reason::AddressNotAssigned,
            format!(
                "no {kind} was assigned yet: the Gateway's Service waits for a load balancer, or \
                 has no more addresses"
            ),
        ),
        ("", value) => (
            Reason::AddressNotUsable,
            format!(
                "{kind} {value} was not assigned to this Gateway: request one that the load \
                 balancer has"
            ),
        ),
        (ROUTABLE_IN_CLUSTER, "") => (
            Reason::AddressNotAssigned,
            "the Gateway's Service has no further ClusterIP: remove this address, or give the \
             Service a second IP family by GatewayParameters"
                .to_owned(),
        ),
        (ROUTABLE_IN_CLUSTER, value) => (
            Reason::AddressNotAssigned,
            format!(
                "{value} is not a ClusterIP of the Gateway's Service: request a free one of the \
                 cluster's ServiceCIDR when you create the Gateway, since a Service keeps its own"
            ),
        ),
        (other, _) => (
            Reason::AddressNotAssigned,
            format!("routability `{other}` is not supported: use Cluster, or leave it out"),
        ),
    };
    Problem::new(reason, field, message)
}

/// The problems for the condition of addresses.
fn unassigned(unmet: Vec<Problem>, has_none: bool) -> Vec<Problem> {
    let reason = if has_none {
        Reason::NotAssigned
    } else {
        Reason::PartiallyAssigned
    };
    let unmet = unmet.into_iter();
    unmet.map(|problem| Problem { reason, ..problem }).collect()
}

fn unsupported(requested: &[GatewayAddress], types: &[&str]) -> Vec<Problem> {
    requested
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
        routability: String::new(),
    }
}

const IP_ADDRESS: &str = "IPAddress";
const HOSTNAME: &str = "Hostname";
/// Includes IPv4, on a dual-stack socket.
const EVERY_ADDRESS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
