//! What a route costs: its rules are sent once for each Gateway, with their listeners.

use std::collections::BTreeSet;
use std::ops::{Add, AddAssign, SubAssign};

use xds::encode::rule_bytes;
use xds::model::{Attachments, Hostname, ObjectName, RouteRule};

use super::candidate::{Candidate, attachments_by_gateway};
use super::rule::LoweredRule;
use crate::budgets::{Budget, Limits};

/// What a route takes of a Gateway's view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RouteCost {
    /// Its rules; `None` if it is refused at every Gateway.
    pub(crate) rules: Option<Cost>,
    /// The rules that close it, if it is refused.
    pub(crate) closed: Cost,
}

/// What resources take of a Gateway's view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Number of resources.
    pub(crate) resources: u64,
    /// Bytes of the resources, as they are sent.
    pub(crate) bytes: u64,
    /// Bytes of their names and versions, which a proxy reports when it reconnects and some have changed.
    pub(crate) report: u64,
    /// Entries of the indexes by which a proxy finds them: each match, at each host of each listener.
    pub(crate) attachments: u64,
}

/// What the listeners of a rule take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenersCost {
    bytes: usize,
    /// Hosts of all listeners; one that has none of its own counts once.
    hosts: u64,
}

impl ListenersCost {
    /// Of the listeners at each Gateway.
    pub(crate) fn by_gateway(candidates: &[Candidate]) -> Vec<(ObjectName, Self)> {
        let all = attachments_by_gateway(candidates).into_iter();
        all.map(|(gateway, attachments)| (gateway.clone(), Self::of(&attachments)))
            .collect()
    }

    /// Of these listeners. The rules of a route have the same.
    fn of(attachments: &Attachments) -> Self {
        let mut groups: BTreeSet<(&str, &[Hostname])> = BTreeSet::new();
        let mut bytes = 0;
        for attachment in attachments.iter() {
            let (object, name) = attachment.listener.object_and_name();
            bytes += name.len() + TEXT_BYTES;
            // Listeners of one object that have equal hosts share both.
            if attachments.len() == 1 || groups.insert((object, &attachment.hostnames)) {
                let hosts = attachment.hostnames.iter();
                let hosts: usize = hosts.map(|host| host.as_str().len() + TEXT_BYTES).sum();
                bytes += object.len() + hosts + 2 * TEXT_BYTES;
            }
        }
        let hosts = attachments.iter();
        let hosts = hosts.map(|attachment| attachment.hostnames.len().max(1) as u64);
        Self {
            bytes,
            hosts: hosts.sum(),
        }
    }

    /// Bytes of the listeners in the message of a rule.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }
}

impl Cost {
    /// The first budget that it exceeds.
    pub(crate) fn exceeded(self, limits: &Limits) -> Option<Budget> {
        let mut budgets = self.by_budget().into_iter();
        budgets.find_map(|(budget, used)| (used > limits.of(budget)).then_some(budget))
    }

    /// The budgets of a view, with what is used of each.
    pub(crate) fn by_budget(self) -> [(Budget, u64); 4] {
        [
            (Budget::ViewResources, self.resources),
            (Budget::ViewBytes, self.bytes),
            (Budget::ViewReport, self.report),
            (Budget::ViewAttachments, self.attachments),
        ]
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.resources += other.resources;
        self.bytes += other.bytes;
        self.report += other.report;
        self.attachments += other.attachments;
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl SubAssign for Cost {
    fn sub_assign(&mut self, other: Self) {
        self.resources -= other.resources;
        self.bytes -= other.bytes;
        self.report -= other.report;
        self.attachments -= other.attachments;
    }
}

/// What a rule has to send and to find it by, wherever it is attached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleSize {
    /// Bytes of its message without key and listeners.
    pub(crate) bytes: usize,
    /// One of connections counts as one.
    pub(crate) matches: u64,
}

/// The cost of a rule at a Gateway: `rule` are the bytes of its key without that of the Gateway.
pub(crate) fn of_rule(
    (rule, gateway): (usize, &ObjectName),
    size: RuleSize,
    listeners: ListenersCost,
) -> Cost {
    let key = rule + gateway.namespace.len() + gateway.name.len() + "//".len();
    Cost {
        resources: 1,
        bytes: (size.bytes + key + listeners.bytes + OTHER_BYTES) as u64,
        report: (key + REPORTED_BYTES) as u64,
        attachments: size.matches * listeners.hosts,
    }
}

/// The sizes of rules.
pub(crate) fn of_rules(rules: &[LoweredRule]) -> Vec<RuleSize> {
    let sizes = rules.iter().map(|lowered| RuleSize {
        bytes: rule_bytes(&lowered.rule),
        matches: match &lowered.rule {
            RouteRule::Http(rule) => rule.matches.len() as u64,
            RouteRule::Tls(_) | RouteRule::Tcp(_) | RouteRule::Udp(_) => 1,
        },
    });
    sizes.collect()
}

/// Bytes that a proxy reports of a resource besides its key: the version, and the lengths and tags of an
/// entry of a map in protobuf.
const REPORTED_BYTES: usize = 11 + 11;
/// Bytes of the tag and the length of a text or a group.
const TEXT_BYTES: usize = 3;
/// Bytes of a route's message besides its rule and texts: its order, which has the name of its object, is
/// counted with the key.
const OTHER_BYTES: usize = 32;
