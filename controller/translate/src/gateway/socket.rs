//! Conflicts over sockets of one machine, between Gateways or between ports mapped by the offset:
//! the older Gateway wins.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::num::NonZeroU16;

use xds::model::ObjectName;

use super::listener::Listener;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The order of claims: creation time and name of the Gateway, index of its first listener that
/// claims the socket, and the port in the Gateway.
pub(crate) type SocketRank = (i64, ObjectName, usize, NonZeroU16);

/// One port of a Gateway.
pub(crate) type GatewayPort = (ObjectName, NonZeroU16);

/// The ports without a socket, each with its owner.
pub(crate) fn find_conflicts(
    claims: &BTreeMap<SocketRank, IpAddr>,
) -> HashMap<GatewayPort, GatewayPort> {
    let mut holders: Vec<(&SocketRank, IpAddr)> = Vec::new();
    let mut conflicts = HashMap::new();
    for (rank, address) in claims {
        let holder = holders.iter().find(|(_, held)| overlap(*held, *address));
        match holder {
            Some(((_, gateway, _, port), _)) => {
                conflicts.insert((rank.1.clone(), rank.3), (gateway.clone(), *port));
            }
            None => holders.push((rank, *address)),
        }
    }
    conflicts
}

fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one == other || one.is_unspecified() || other.is_unspecified()
}

/// Why a listener of `gateway` has no socket.
pub(crate) fn problem(holder: &GatewayPort, gateway: &ObjectName, listener: &Listener) -> Problem {
    let (owner, port) = holder;
    let requested_port = listener.offer.port;
    let message = if owner == gateway {
        format!(
            "port {requested_port} and the port offset collide with port {port} of the same Gateway: choose \
             another port or offset"
        )
    } else {
        format!(
            "port {} of this machine belongs to the older Gateway {owner} (its port {port}): \
             choose another port or address",
            listener.socket_port
        )
    };
    Problem::new(Reason::AddressNotUsable, listener.field("port"), message)
}
