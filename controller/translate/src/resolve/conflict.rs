//! Listeners that claim the same traffic.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

use xds::model::{Hostname, ObjectName, Transport};

use super::gateway::Gateway;
use super::listener::Listener;
use super::protocol::{Family, Protocol};
use crate::problem::{self, Problem};
use crate::status::Reason;

/// Finds the listeners of one Gateway that a request could not be told apart by. The Gateway's own
/// come first, then those of its ListenerSets in their order. Of those that one object declares,
/// none wins: Gateway API wants every one refused.
pub(crate) fn within_gateway(listeners: &mut [Listener<'_>]) {
    let owners = listeners
        .chunk_by(|a, b| a.owner == b.owner)
        .map(<[_]>::len);
    let mut holders = Ports::default();
    let mut start = 0;
    for count in owners.collect::<Vec<_>>() {
        let own = start..start + count;
        start = own.end;
        for index in own.clone() {
            listeners[index].conflict = conflict(listeners, index, &holders);
        }
        let left = own.filter(|&index| listeners[index].conflict.is_none());
        let left: Vec<usize> = left.collect();
        let mut siblings = Ports::default();
        for &index in &left {
            siblings.add(index, &listeners[index]);
        }
        for index in left {
            listeners[index].conflict = conflict(listeners, index, &siblings);
            // Also one that is refused here: a mistake must not hand its host to a later object.
            holders.add(index, &listeners[index]);
        }
    }
}

/// Who claims each port.
#[derive(Default)]
struct Ports(HashMap<(Transport, NonZeroU16), Sharers>);

/// Listeners of one port, by number.
#[derive(Default)]
struct Sharers {
    all: Vec<(usize, Family)>,
    by_host: HashMap<(Family, Option<Hostname>), Vec<usize>>,
    families: Vec<Family>,
}

impl Ports {
    fn add(&mut self, index: usize, listener: &Listener<'_>) {
        let Some(family) = listener.protocol.map(Protocol::family) else {
            return;
        };
        let port = (family.transport(), listener.spec.port);
        let sharers = self.0.entry(port).or_default();
        sharers.all.push((index, family));
        let host = (family, told_apart_by(family, listener));
        sharers.by_host.entry(host).or_default().push(index);
        if !sharers.families.contains(&family) {
            sharers.families.push(family);
        }
    }

    /// Those of a port that speak something of another family.
    fn strangers(&self, port: NonZeroU16, family: Family) -> impl Iterator<Item = usize> {
        let sharers = self.0.get(&(family.transport(), port));
        let sharers = sharers.filter(|it| it.families.iter().any(|other| *other != family));
        let all = sharers.into_iter().flat_map(|sharers| &sharers.all);
        all.filter(move |(_, other)| *other != family)
            .map(|(index, _)| *index)
    }

    /// Those of a port that nothing tells apart.
    fn twins(
        &self,
        port: NonZeroU16,
        host: &(Family, Option<Hostname>),
    ) -> impl Iterator<Item = usize> {
        let sharers = self.0.get(&(host.0.transport(), port));
        let twins = sharers.and_then(|sharers| sharers.by_host.get(host));
        twins.into_iter().flatten().copied()
    }
}

fn told_apart_by(family: Family, listener: &Listener<'_>) -> Option<Hostname> {
    listener.hostname.clone().filter(|_| family.has_hostnames())
}

fn conflict(listeners: &[Listener<'_>], index: usize, rivals: &Ports) -> Option<Problem> {
    let own = &listeners[index];
    let (family, port) = (own.protocol?.family(), own.spec.port);
    let strangers = names(listeners, own, rivals.strangers(port, family));
    if !strangers.is_empty() {
        let message = format!(
            "port {port} is shared with a protocol that cannot be told apart from `{}` (listeners \
             {strangers}): give each protocol a port of its own",
            own.spec.protocol
        );
        let field = own.field("protocol");
        return Some(Problem::new(Reason::ProtocolConflict, field, message));
    }
    let host = (family, told_apart_by(family, own));
    let twins = rivals.twins(port, &host).filter(|other| *other != index);
    let twins = names(listeners, own, twins);
    if twins.is_empty() {
        return None;
    }
    if !family.has_hostnames() {
        let message =
            format!("port {port} is also that of listeners {twins}: give each a port of its own");
        return Some(Problem::new(
            Reason::ProtocolConflict,
            own.field("port"),
            message,
        ));
    }
    let message = format!(
        "port {port} and host name {} are also those of listeners {twins}: change one of them",
        own.hostname.as_ref().map_or("(any)", |name| name.as_str()),
    );
    Some(Problem::new(
        Reason::HostnameConflict,
        own.field("hostname"),
        message,
    ))
}

/// The names of listeners, for a message of one of them.
fn names(
    listeners: &[Listener<'_>],
    own: &Listener<'_>,
    others: impl Iterator<Item = usize>,
) -> String {
    let names = others.map(|other| {
        let other = &listeners[other];
        let name = &other.spec.name;
        if other.owner == own.owner {
            format!("`{name}`")
        } else {
            format!("`{name}` of {} {}", other.owner.kind(), other.owner.name())
        }
    });
    problem::join(names.collect::<Vec<_>>().into_iter()).replace("; ", ", ")
}

/// Finds sockets that two Gateways of one machine want, or two ports that the offset brings
/// together: the older Gateway keeps them.
pub(crate) fn between_gateways(gateways: &mut [Gateway<'_>]) {
    let mut by_age: Vec<usize> = (0..gateways.len()).collect();
    by_age.sort_by_key(|&index| {
        let gateway = &gateways[index];
        (gateway.object.metadata.created(), gateway.name)
    });
    let mut claims = Claims::default();
    for index in by_age {
        let gateway = &mut gateways[index];
        if !gateway.is_served() {
            continue;
        }
        let address = gateway.addresses.bind;
        for listener in &mut gateway.listeners {
            if listener.is_accepted() {
                let rival = claims.claim(address, gateway.name, listener);
                let problem = rival.map(|rival| rival.problem(gateway.name, listener));
                listener.unusable = problem;
            }
        }
    }
}

#[derive(Default)]
struct Claims<'a>(HashMap<(Transport, NonZeroU16), Vec<Claim<'a>>>);

#[derive(Clone, Copy)]
struct Claim<'a> {
    address: IpAddr,
    gateway: &'a ObjectName,
    /// As the Gateway names it.
    port: NonZeroU16,
}

impl<'a> Claims<'a> {
    /// Claims the listener's socket, or says who has it.
    fn claim(
        &mut self,
        address: IpAddr,
        gateway: &'a ObjectName,
        listener: &Listener<'_>,
    ) -> Option<Claim<'a>> {
        let transport = listener.protocol?.family().transport();
        let claims = self.0.entry((transport, listener.port)).or_default();
        let own = Claim {
            address,
            gateway,
            port: listener.spec.port,
        };
        let rival = claims.iter().find(|claim| claim.rivals(&own)).copied();
        if rival.is_none() {
            claims.push(own);
        }
        rival
    }
}

impl Claim<'_> {
    fn rivals(&self, other: &Self) -> bool {
        let same_bind = self.gateway == other.gateway && self.port == other.port;
        let overlap = self.address == other.address
            || self.address.is_unspecified()
            || other.address.is_unspecified();
        overlap && !same_bind
    }

    fn problem(&self, gateway: &ObjectName, listener: &Listener<'_>) -> Problem {
        let message = if self.gateway == gateway {
            format!(
                "port {} and the port offset come to port {} of the same Gateway: choose another \
                 port or offset",
                listener.spec.port, self.port
            )
        } else {
            format!(
                "port {} of this machine belongs to the older Gateway {} (its port {}): choose \
                 another port or address",
                listener.port, self.gateway, self.port
            )
        };
        Problem::new(Reason::AddressNotUsable, listener.field("port"), message)
    }
}
