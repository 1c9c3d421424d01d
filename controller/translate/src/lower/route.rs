//! A route with its rules lowered and its parents resolved.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{Hostname, ObjectName, Pattern, Route, RouteKey};

use super::route_cost::{self, Cost};
use super::rule::LoweredRule;
use crate::api::{ParentReference, Text};
use crate::budgets::{Budget, Use};
use crate::problem::Problem;
use crate::reason::Reason;
use crate::resolve::parent::Attachment;

/// A resolved route with its problems.
#[derive(Debug, PartialEq)]
pub(crate) struct ResolvedRoute {
    /// Creation time, as in [`crate::api::ObjectMeta::created`].
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
    /// The listeners that accept it.
    pub(crate) candidates: Box<[Candidate]>,
    /// Its rules at the first of these. They are copied for each other listener only where the route fits
    /// into the view of the Gateway.
    pub(crate) templates: Box<[Arc<Route>]>,
    /// What it adds to the view of each Gateway, if it fits.
    pub(crate) costs: Box<[(ObjectName, Cost)]>,
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

/// A listener that accepts a route.
pub(crate) type Candidate = Attachment;

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

    /// Takes its rules in. An invalid rule is carried even where the route is refused for it.
    pub(crate) fn take_rules(
        &mut self,
        kind: &str,
        name: &ObjectName,
        mut rules: Vec<LoweredRule>,
        bytes: &[usize],
    ) {
        let mut candidates: Vec<Candidate> = Vec::new();
        if self.refusals.is_empty() {
            let mut seen = BTreeSet::new();
            for attachment in self.attachments() {
                if seen.insert(&attachment.listener) {
                    candidates.push(attachment.clone());
                }
            }
        }
        let outcomes = rules.iter_mut().map(|lowered| RuleOutcome {
            name: lowered.name.take(),
            problems: std::mem::take(&mut lowered.problems),
            refs: std::mem::take(&mut lowered.refs),
        });
        self.rules = outcomes.collect();
        self.candidates = candidates.into();
        let Some(first) = self.candidates.first() else {
            return;
        };
        let templates = rules
            .into_iter()
            .enumerate()
            .filter_map(|(index, lowered)| {
                let number = u16::try_from(index).ok()?;
                Some(Arc::new(Route {
                    key: RouteKey::new(kind, name, number, &first.listener),
                    listener: first.listener.clone(),
                    hostnames: Arc::clone(&first.hostnames),
                    created: self.created,
                    rule: lowered.rule,
                }))
            });
        self.templates = templates.collect();
        self.costs = self.costs_of(bytes);
    }

    /// What it adds to the view of each Gateway, given the bytes of each rule.
    fn costs_of(&self, bytes: &[usize]) -> Box<[(ObjectName, Cost)]> {
        let mut costs: Vec<(ObjectName, Cost)> = Vec::new();
        for candidate in &self.candidates {
            let mut cost = Cost::default();
            for (template, bytes) in self.templates.iter().zip(bytes) {
                cost += route_cost::of_rule(template, *bytes, candidate);
            }
            let known = costs.iter_mut().find(|(it, _)| *it == candidate.gateway);
            match known {
                Some((_, known)) => *known += cost,
                None => costs.push((candidate.gateway.clone(), cost)),
            }
        }
        costs.into()
    }

    /// Its rules at a listener.
    pub(crate) fn rules_at(&self, candidate: &Candidate) -> impl Iterator<Item = Arc<Route>> {
        self.templates.iter().map(|template| {
            if template.listener == candidate.listener {
                return Arc::clone(template);
            }
            Arc::new(Route {
                key: template.key.on(&candidate.listener),
                listener: candidate.listener.clone(),
                hostnames: Arc::clone(&candidate.hostnames),
                created: self.created,
                rule: template.rule.clone(),
            })
        })
    }
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
