//! Listeners that claim the same traffic.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

use xds::model::{ObjectName, Transport};

use super::gateway::Gateway;
use super::listener::Listener;
use super::protocol::{Family, Protocol};
use crate::problem::Problem;
use crate::status::Reason;

/// Finds the listeners of one Gateway that a request could not be told apart by. None of them wins:
/// Gateway API wants every one refused.
pub(crate) fn within_gateway(listeners: &mut [Listener<'_>]) {
    let mut ports: HashMap<(Transport, NonZeroU16), Vec<usize>> = HashMap::new();
    for (index, listener) in listeners.iter().enumerate() {
        if let Some(family) = listener.protocol.and_then(contending) {
            let port = (family.transport(), listener.spec.port);
            ports.entry(port).or_default().push(index);
        }
    }
    for sharers in ports.into_values().filter(|sharers| sharers.len() > 1) {
        let problems: Vec<_> = sharers
            .iter()
            .map(|&index| (index, conflict_with(listeners, index, &sharers)))
            .collect();
        for (index, problem) in problems {
            listeners[index].conflict = problem;
        }
    }
}

/// TCP and UDP listeners that are not carried take no port away from others, says Gateway API.
fn contending(protocol: &'static Protocol) -> Option<Family> {
    let counts = protocol.carried.is_some() || protocol.family.has_hostnames();
    counts.then_some(protocol.family)
}

fn conflict_with(listeners: &[Listener<'_>], index: usize, sharers: &[usize]) -> Option<Problem> {
    let own = &listeners[index];
    let family = |listener: &Listener<'_>| listener.protocol.map(|protocol| protocol.family);
    let others = sharers.iter().filter(|&&other| other != index);
    let others: Vec<&Listener<'_>> = others.map(|&other| &listeners[other]).collect();
    let strangers = others.iter().filter(|other| family(other) != family(own));
    let strangers: Vec<&str> = strangers.map(|other| &*other.spec.name).collect();
    let port = own.spec.port;
    if !strangers.is_empty() {
        let message = format!(
            "port {port} is shared with a protocol that cannot be told apart from `{}` (listeners \
             `{}`): give each protocol a port of its own",
            own.spec.protocol,
            strangers.join("`, `")
        );
        let field = format!("spec.listeners[{index}].protocol");
        return Some(Problem::new(Reason::ProtocolConflict, field, message));
    }
    let by_hostname = family(own).is_some_and(Family::has_hostnames);
    let twins = others
        .iter()
        .filter(|other| !by_hostname || other.hostname == own.hostname);
    let twins: Vec<&str> = twins.map(|other| &*other.spec.name).collect();
    if twins.is_empty() {
        return None;
    }
    if !by_hostname {
        let message = format!(
            "port {port} is also that of listeners `{}`: give each a port of its own",
            twins.join("`, `")
        );
        let field = format!("spec.listeners[{index}].port");
        return Some(Problem::new(Reason::ProtocolConflict, field, message));
    }
    let message = format!(
        "port {port} and host name {} are also those of listeners `{}`: change one of them",
        own.hostname.as_ref().map_or("(any)", |name| name.as_str()),
        twins.join("`, `")
    );
    let field = format!("spec.listeners[{index}].hostname");
    Some(Problem::new(Reason::HostnameConflict, field, message))
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
        for (number, listener) in gateway.listeners.iter_mut().enumerate() {
            if listener.is_accepted() {
                let rival = claims.claim(address, gateway.name, listener);
                let problem = rival.map(|rival| rival.problem(gateway.name, number, listener));
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
        let transport = listener.protocol?.family.transport();
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

    fn problem(&self, gateway: &ObjectName, number: usize, listener: &Listener<'_>) -> Problem {
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
        let field = format!("spec.listeners[{number}].port");
        Problem::new(Reason::AddressNotUsable, field, message)
    }
}
