//! Conflicts of listeners over the same traffic.

use std::collections::HashMap;
use std::num::NonZeroU16;

use xds::model::{Hostname, Transport};

use super::listener::Listener;
use super::protocol::{Family, Protocol};
use crate::status::problem;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Finds the listeners of one Gateway that cannot be distinguished. The Gateway's own come first,
/// then those of its ListenerSets in order. Of those in one object, none wins: Gateway API requires
/// that all are rejected.
pub(crate) fn conflicts_in_gateway(listeners: &[&Listener]) -> Vec<Option<Problem>> {
    let mut conflicts = vec![None; listeners.len()];
    let owners = listeners
        .chunk_by(|a, b| a.owner == b.owner)
        .map(<[_]>::len);
    let mut holders = Ports::default();
    let mut start = 0;
    for count in owners.collect::<Vec<_>>() {
        let own = start..start + count;
        start = own.end;
        for index in own.clone() {
            conflicts[index] = conflict(listeners, index, &holders);
        }
        let left = own.filter(|&index| conflicts[index].is_none());
        let left: Vec<usize> = left.collect();
        let mut siblings = Ports::default();
        for &index in &left {
            siblings.add(index, listeners[index]);
        }
        for index in left {
            conflicts[index] = conflict(listeners, index, &siblings);
            // Including rejected ones: a mistake must not pass their host to a later object.
            holders.add(index, listeners[index]);
        }
    }
    conflicts
}

/// The listeners of each port.
#[derive(Default)]
struct Ports(HashMap<(Transport, NonZeroU16), PortListeners>);

/// Listeners of one port, by index.
#[derive(Default)]
struct PortListeners {
    all: Vec<(usize, Family)>,
    by_host: HashMap<(Family, Option<Hostname>), Vec<usize>>,
    families: Vec<Family>,
}

impl Ports {
    fn add(&mut self, index: usize, listener: &Listener) {
        let Some(family) = listener.protocol.map(Protocol::family) else {
            return;
        };
        let port = (family.transport(), listener.offer.port);
        let sharers = self.0.entry(port).or_default();
        sharers.all.push((index, family));
        let host = (family, distinguishing_hostname(family, listener));
        sharers.by_host.entry(host).or_default().push(index);
        if !sharers.families.contains(&family) {
            sharers.families.push(family);
        }
    }

    /// Listeners of a port with a protocol of another family.
    fn of_other_families(&self, port: NonZeroU16, family: Family) -> impl Iterator<Item = usize> {
        let sharers = self.0.get(&(family.transport(), port));
        let sharers = sharers.filter(|it| it.families.iter().any(|other| *other != family));
        let all = sharers.into_iter().flat_map(|sharers| &sharers.all);
        all.filter(move |(_, other)| *other != family)
            .map(|(index, _)| *index)
    }

    /// Listeners of a port that cannot be distinguished.
    fn duplicates(
        &self,
        port: NonZeroU16,
        host: &(Family, Option<Hostname>),
    ) -> impl Iterator<Item = usize> {
        let sharers = self.0.get(&(host.0.transport(), port));
        let duplicates = sharers.and_then(|sharers| sharers.by_host.get(host));
        duplicates.into_iter().flatten().copied()
    }
}

fn distinguishing_hostname(family: Family, listener: &Listener) -> Option<Hostname> {
    listener
        .offer
        .hostname
        .clone()
        .filter(|_| family.has_hostnames())
}

fn conflict(listeners: &[&Listener], index: usize, ports: &Ports) -> Option<Problem> {
    let own = listeners[index];
    let (family, port) = (own.protocol?.family(), own.offer.port);
    let of_other_families = names(listeners, own, ports.of_other_families(port, family));
    if !of_other_families.is_empty() {
        let message = format!(
            "port {port} is shared with a protocol that cannot be distinguished from `{}` (listeners \
             {of_other_families}): give each protocol a port of its own",
            own.offer.protocol
        );
        let field = own.field("protocol");
        return Some(Problem::new(Reason::ProtocolConflict, field, message));
    }
    let host = (family, distinguishing_hostname(family, own));
    let duplicates = ports
        .duplicates(port, &host)
        .filter(|other| *other != index);
    let duplicates = names(listeners, own, duplicates);
    if duplicates.is_empty() {
        return None;
    }
    if !family.has_hostnames() {
        let message =
            format!("port {port} is also used by listeners {duplicates}: give each its own port");
        return Some(Problem::new(
            Reason::ProtocolConflict,
            own.field("port"),
            message,
        ));
    }
    let message = format!(
        "port {port} and host name {} are also used by listeners {duplicates}: change one of them",
        own.offer
            .hostname
            .as_ref()
            .map_or("(any)", |name| name.as_str()),
    );
    Some(Problem::new(
        Reason::HostnameConflict,
        own.field("hostname"),
        message,
    ))
}

/// The names of listeners, for a message about one of them.
fn names(listeners: &[&Listener], own: &Listener, others: impl Iterator<Item = usize>) -> String {
    let names = others.map(|other| {
        let other = listeners[other];
        let name = &other.offer.name;
        if other.owner == own.owner {
            format!("`{name}`")
        } else {
            format!("`{name}` of {} {}", other.owner.kind(), other.owner.name())
        }
    });
    problem::join(names.collect::<Vec<_>>().into_iter()).replace("; ", ", ")
}
