//! How many listeners and ports a Gateway has: ListenerSets of other namespaces must not use up the ports of
//! a cluster, or the memory of the Gateway's proxies.

use std::collections::BTreeSet;

use xds::model::ObjectName;

use super::listener::{Listener, ListenerConflicts};
use super::properties::GatewayProperties;
use crate::budgets::{Budget, Use};
use crate::objects::owner::Owner;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The limits of a Gateway.
pub(crate) struct ListenerLimit<'a> {
    gateway: &'a ObjectName,
    ports: u64,
    set_listeners: u64,
}

/// What the listeners of a Gateway take of its limits.
pub(crate) struct Room {
    /// The limits that are exceeded, for the owner of the Gateway.
    pub(crate) problems: Vec<Problem>,
    pub(crate) uses: Vec<(Budget, Use)>,
}

/// What is counted, over a part of the listeners.
#[derive(Default)]
struct Taken {
    ports: BTreeSet<u16>,
    set_listeners: u64,
}

impl Taken {
    fn add(&mut self, listener: &Listener) {
        self.ports.insert(listener.offer.port.get());
        self.set_listeners += u64::from(is_of_set(listener));
    }
}

impl<'a> ListenerLimit<'a> {
    pub(crate) fn of(gateway: &'a ObjectName, properties: &GatewayProperties) -> Self {
        Self {
            gateway,
            ports: properties.max_ports,
            set_listeners: properties.max_set_listeners,
        }
    }

    /// Refuses the listeners that exceed a limit. The Gateway's own come first, then those of the oldest
    /// ListenerSets; but those that serve already stay, even if they are too many.
    pub(crate) fn check(
        &self,
        listeners: &[&Listener],
        conflicts: &mut [ListenerConflicts],
        serving: impl FnOnce() -> Vec<bool>,
    ) -> Room {
        let mut all = Taken::default();
        let mut claimed = Vec::new();
        for (index, (listener, conflicts)) in listeners.iter().zip(&*conflicts).enumerate() {
            if listener.is_claimed(conflicts) {
                all.add(listener);
                claimed.push(index);
            }
        }
        let ports = all.ports.len() as u64;
        let mut uses = [
            (Budget::GatewayPorts, ports, self.ports),
            (Budget::SetListeners, all.set_listeners, self.set_listeners),
        ]
        .map(|(budget, used, limit)| {
            (
                budget,
                Use {
                    used,
                    limit,
                    refused: 0,
                },
            )
        });
        if ports <= self.ports && all.set_listeners <= self.set_listeners {
            return Room {
                problems: Vec::new(),
                uses: uses.into(),
            };
        }
        let serving = serving();
        let is_serving = |index: &usize| serving.get(*index) == Some(&true);
        let (old, new): (Vec<usize>, Vec<usize>) = claimed.into_iter().partition(is_serving);
        let mut taken = Taken::default();
        for index in old {
            taken.add(listeners[index]);
        }
        for index in new {
            let listener = listeners[index];
            match self.exceeded(&taken, listener) {
                None => taken.add(listener),
                Some((budget, problem)) => {
                    conflicts[index].over_limit = Some(problem);
                    for (_, used) in uses.iter_mut().filter(|(it, _)| *it == budget) {
                        used.refused += 1;
                    }
                }
            }
        }
        let exceeded = uses.iter().filter(|(_, it)| it.used > it.limit);
        Room {
            problems: exceeded
                .map(|(budget, it)| of_gateway(*budget, it.limit))
                .collect(),
            uses: uses.into(),
        }
    }

    /// The limit that leaves no room for one more listener.
    fn exceeded(&self, taken: &Taken, listener: &Listener) -> Option<(Budget, Problem)> {
        let is_of_set = is_of_set(listener);
        let gateway = self.gateway;
        if is_of_set && taken.set_listeners >= self.set_listeners {
            let message = format!(
                "Gateway {gateway} has as many listeners of ListenerSets as its limit of {}: remove some, or ask \
                 its owner to raise limits.listeners in its GatewayParameters",
                self.set_listeners
            );
            let problem = Problem::new(Reason::TooManyListeners, listener.field("name"), message);
            return Some((Budget::SetListeners, problem));
        }
        let port = listener.offer.port.get();
        if taken.ports.contains(&port) || (taken.ports.len() as u64) < self.ports {
            return None;
        }
        let (reason, raise) = if is_of_set {
            (Reason::TooManyListeners, "ask its owner to raise")
        } else {
            (Reason::PortUnavailable, "raise")
        };
        let message = format!(
            "Gateway {gateway} has as many ports as its limit of {}: use one of them, or {raise} limits.ports in \
             its GatewayParameters",
            self.ports
        );
        let problem = Problem::new(reason, listener.field("port"), message);
        Some((Budget::GatewayPorts, problem))
    }
}

/// That a limit is exceeded, for the owner of the Gateway.
fn of_gateway(budget: Budget, limit: u64) -> Problem {
    let (what, field) = match budget {
        Budget::GatewayPorts => ("ports", "ports"),
        _ => ("listeners of ListenerSets", "listeners"),
    };
    let message = format!(
        "the Gateway has more {what} than its limit of {limit}: those that serve stay, new ones are refused. \
             Remove some, or raise limits.{field} in its GatewayParameters"
    );
    Problem::new(Reason::TooManyListeners, "", message)
}

fn is_of_set(listener: &Listener) -> bool {
    matches!(listener.owner, Owner::ListenerSet(_))
}
