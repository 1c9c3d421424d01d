//! What a route costs: its rules are sent once for each listener.

use std::ops::{Add, AddAssign, SubAssign};

use xds::encode::rule_bytes;
use xds::model::Route;

use super::route::Candidate;
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
    /// Bytes of their names and versions, which a proxy reports when it reconnects.
    pub(crate) report: u64,
}

impl Cost {
    /// The cost of one resource with a key and content of these sizes.
    pub(crate) fn of_resource(key: usize, content: usize) -> Self {
        Self {
            resources: 1,
            bytes: content as u64,
            report: (key + REPORTED_BYTES) as u64,
        }
    }

    /// The first budget that it exceeds.
    pub(crate) fn exceeded(self, limits: &Limits) -> Option<Budget> {
        let mut budgets = self.by_budget().into_iter();
        budgets.find_map(|(budget, used)| (used > limits.of(budget)).then_some(budget))
    }

    /// The budgets of a view, with what is used of each.
    pub(crate) fn by_budget(self) -> [(Budget, u64); 3] {
        [
            (Budget::ViewResources, self.resources),
            (Budget::ViewBytes, self.bytes),
            (Budget::ViewReport, self.report),
        ]
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.resources += other.resources;
        self.bytes += other.bytes;
        self.report += other.report;
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
    }
}

/// The cost of a rule at a listener, whose content without keys and hosts takes `bytes`.
pub(crate) fn of_rule(template: &Route, bytes: usize, candidate: &Candidate) -> Cost {
    let listener = candidate.listener.as_str().len();
    let key = template.key.rule().len() + 1 + listener;
    let hosts = candidate.hostnames.iter();
    let hosts: usize = hosts.map(|host| host.as_str().len() + TEXT_BYTES).sum();
    Cost::of_resource(key, bytes + key + listener + hosts + OTHER_BYTES)
}

/// Bytes of the content of each rule.
pub(crate) fn of_rules(rules: &[LoweredRule]) -> Vec<usize> {
    rules
        .iter()
        .map(|lowered| rule_bytes(&lowered.rule))
        .collect()
}

/// Bytes that a proxy reports of a resource besides its key: the version, and the lengths and tags of an
/// entry of a map in protobuf.
const REPORTED_BYTES: usize = 11 + 11;
/// Bytes of the tag and the length of a text.
const TEXT_BYTES: usize = 3;
/// Bytes of a route's message besides its rule and texts: its order, which has the name of its object, is
/// counted with the key.
const OTHER_BYTES: usize = 32;
