//! A route with its rules lowered and its parents resolved.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{Attachments, Hostname, ObjectName, Pattern, Route, RouteKey, RouteRule};

use super::api::ParentReference;
use super::candidate::{Candidate, attachment};
use super::closed::Starts;
use super::cost::{Cost, ListenersCost, RouteCost, RuleSize};
use super::parent::Attachment;
use super::rule::LoweredRule;
use super::{closed, cost};
use crate::budgets::{Budget, Use};
use crate::objects::api::Text;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A resolved route with its problems.
#[derive(Debug, PartialEq)]
pub(crate) struct ResolvedRoute {
    /// Creation time, as in [`crate::objects::api::ObjectMeta::created`].
    pub(crate) created: i64,
    pub(crate) generation: i64,
    pub(crate) rules: Box<[RuleOutcome]>,
    /// Why the whole route is rejected, regardless of its rules.
    pub(crate) refusals: Vec<Problem>,
    pub(crate) parents: Box<[RouteParent]>,
    /// The regular expressions of its rules, each once.
    pub(crate) expressions: Arc<[Pattern]>,
    /// What it uses of its budgets, where that is much.
    pub(crate) uses: Vec<(Budget, Use)>,
    /// The listeners that accept it, each once.
    pub(crate) candidates: Box<[Candidate]>,
    /// Its rules at all of these that belong to the first Gateway, or the one that closes it. They are copied for
    /// other Gateways, or for fewer listeners, only where the route fits into the view of the Gateway.
    pub(crate) templates: Box<[Arc<Route>]>,
    /// What it adds to the view of each Gateway.
    pub(crate) costs: Box<[(ObjectName, RouteCost)]>,
    /// Bytes of a rule that closes it, at most.
    pub(crate) closed_bytes: usize,
}

/// A parent that belongs to this controller.
#[derive(Debug, PartialEq)]
pub(crate) struct RouteParent {
    /// The field that makes it one.
    pub(crate) field: Text,
    pub(crate) reference: Arc<ParentReference>,
    /// The listeners that it attaches to, or why there are none.
    pub(crate) attached: Result<Box<[Attachment]>, Box<Problem>>,
}

/// The result of lowering a rule, apart from the rule itself.
#[derive(Debug, PartialEq)]
pub(crate) struct RuleOutcome {
    pub(crate) name: Option<Arc<str>>,
    /// Its problems. With any, it answers with 500.
    pub(crate) problems: Vec<Problem>,
    /// Unresolved references; requests to their share are rejected.
    pub(crate) refs: Vec<Problem>,
}

impl ResolvedRoute {
    /// Whether nothing of it is left.
    pub(crate) fn is_refused(&self) -> bool {
        let no_rule = self.rules.iter().all(|rule| !rule.problems.is_empty());
        !self.refusals.is_empty() || (no_rule && !self.rules.is_empty())
    }

    /// What its expressions take in memory when compiled, in bytes.
    pub(crate) fn expression_bytes(&self) -> u64 {
        let bytes = self.expressions.iter().map(Pattern::compiled_bytes);
        bytes.map(|bytes| bytes as u64).sum()
    }

    /// The Gateways of these listeners.
    pub(crate) fn gateways(&self) -> BTreeSet<&ObjectName> {
        self.attachments().map(|it| &it.gateway).collect()
    }

    /// The listeners that its parents let it attach to.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        let attached = self.parents.iter();
        let attached = attached.filter_map(|parent| parent.attached.as_ref().ok());
        attached.flatten()
    }

    /// Whether it is refused, with rules that close it.
    pub(crate) fn is_closed(&self) -> bool {
        !self.refusals.is_empty() && !self.templates.is_empty()
    }

    /// Whether routes of another kind conflict with it: it has their requests, even if it closes them.
    pub(crate) fn claims_hosts(&self) -> bool {
        !self.is_refused() || self.is_closed()
    }

    /// Takes its rules in. An invalid rule is carried even where the route is refused for it; a route that
    /// is refused as a whole is closed.
    pub(crate) fn take_rules(
        &mut self,
        kind: &str,
        name: &ObjectName,
        mut rules: Vec<LoweredRule>,
        (sizes, listeners): (&[RuleSize], &[(ObjectName, ListenersCost)]),
    ) {
        let outcomes = rules.iter_mut().map(|lowered| RuleOutcome {
            name: lowered.name.take(),
            problems: std::mem::take(&mut lowered.problems),
            refs: std::mem::take(&mut lowered.refs),
        });
        self.rules = outcomes.collect();
        let Some(first) = self.candidates.first() else {
            return;
        };
        let mut rules: Vec<RouteRule> = rules.into_iter().map(|lowered| lowered.rule).collect();
        let all_bytes = sizes.iter().map(|it| it.bytes).sum();
        self.closed_bytes = closed::max_bytes(all_bytes, listeners.len());
        let start_bytes = closed::start_bytes(rules.iter());
        if !self.refusals.is_empty() {
            let all: Vec<&RouteRule> = rules.iter().collect();
            let closing = closed::close(&all, self.closed_bytes, Starts::Kept);
            rules = closing.into_iter().collect();
        }
        let own = self.candidates.iter();
        let own = own.filter(|it| it.gateway == first.gateway);
        let attachments: Attachments = own.map(attachment).collect();
        let templates = rules.into_iter().enumerate().filter_map(|(index, rule)| {
            let number = u16::try_from(index).ok()?;
            Some(Arc::new(Route {
                key: RouteKey::new(kind, name, number, &first.gateway),
                attachments: attachments.clone(),
                created: self.created,
                rule,
            }))
        });
        self.templates = templates.collect();
        self.costs = self.costs_of((sizes, listeners), start_bytes);
    }

    /// What it adds to the view of each Gateway, given the size of each rule, and the bytes of the expressions
    /// that close it.
    fn costs_of(
        &self,
        (sizes, listeners): (&[RuleSize], &[(ObjectName, ListenersCost)]),
        start_bytes: u64,
    ) -> Box<[(ObjectName, RouteCost)]> {
        let Some(first) = self.templates.first() else {
            return Box::default();
        };
        let costs = listeners.iter().map(|(gateway, listeners)| {
            let of_rule = |template: &Route, size| {
                let key = template.key.rule().len();
                cost::of_rule((key, gateway), size, *listeners)
            };
            // It matches what the rules match, at most.
            let closing = RuleSize {
                bytes: self.closed_bytes,
                matches: sizes.iter().map(|it| it.matches).sum(),
            };
            let mut closed = of_rule(first, closing);
            closed.bytes += start_bytes;
            let rules = self.refusals.is_empty().then(|| {
                let rules = self.templates.iter().zip(sizes);
                rules.fold(Cost::default(), |sum, (template, size)| {
                    sum + of_rule(template, *size)
                })
            });
            (gateway.clone(), RouteCost { rules, closed })
        });
        costs.collect()
    }

    /// The rule that closes it.
    pub(crate) fn closing_rule(&self, starts: Starts) -> Option<Arc<Route>> {
        let rules: Vec<&RouteRule> = self.templates.iter().map(|it| &it.rule).collect();
        let rule = closed::close(&rules, self.closed_bytes, starts)?;
        let template = Route::clone(self.templates.first()?);
        Some(Arc::new(Route { rule, ..template }))
    }
}

/// A rule at listeners of a Gateway.
pub(crate) fn at(rule: &Arc<Route>, gateway: &ObjectName, attachments: &Attachments) -> Arc<Route> {
    let key = rule.key.at_gateway(gateway);
    if rule.key == key && rule.attachments == *attachments {
        return Arc::clone(rule);
    }
    Arc::new(Route {
        key,
        attachments: attachments.clone(),
        created: rule.created,
        rule: rule.rule.clone(),
    })
}

/// The listeners of these parents, each once.
pub(crate) fn candidates(parents: &[RouteParent]) -> Box<[Candidate]> {
    let attached = parents
        .iter()
        .filter_map(|parent| parent.attached.as_ref().ok());
    let mut seen = BTreeSet::new();
    let attached = attached.flatten();
    attached
        .filter(|it| seen.insert(&it.listener))
        .cloned()
        .collect()
}

/// The hosts of a route, with their problems.
pub(crate) fn hostnames(texts: &[String]) -> (Vec<Hostname>, Vec<Problem>) {
    let mut hostnames = Vec::with_capacity(texts.len());
    let mut problems = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match Hostname::parse(text) {
            Ok(hostname) => hostnames.push(hostname),
            Err(error) => {
                let field = format!("spec.hostnames[{index}]");
                problems.push(Problem::new(Reason::UnsupportedValue, field, error));
            }
        }
    }
    (hostnames, problems)
}
