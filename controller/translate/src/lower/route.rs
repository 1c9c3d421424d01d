//! A route with its rules lowered and its parents resolved.

use std::sync::Arc;

use xds::model::{Hostname, ListenerKey, ObjectName, Route, RouteKey};

use super::rule::LoweredRule;
use crate::api::{ParentReference, Text};
use crate::budgets::Budget;
use crate::problem::Problem;
use crate::reason::Reason;
use crate::resolve::parent::Attachment;
use crate::translator::Use;

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
    /// What it uses of its budgets, where that is much.
    pub(crate) uses: Vec<(Budget, Use)>,
    /// The result at each listener, if it is accepted there.
    pub(crate) candidates: Box<[Candidate]>,
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

/// The rules of a route at one listener.
#[derive(Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) listener: ListenerKey,
    pub(crate) gateway: ObjectName,
    pub(crate) rules: Box<[Arc<Route>]>,
}

impl ResolvedRoute {
    /// Whether nothing of it is left.
    pub(crate) fn is_refused(&self) -> bool {
        let no_rule = self.rules.iter().all(|rule| !rule.problems.is_empty());
        !self.refusals.is_empty() || (no_rule && !self.rules.is_empty())
    }

    /// The listeners that its parents let it attach to.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        let attached = self.parents.iter();
        let attached = attached.filter_map(|parent| parent.attached.as_ref().ok());
        attached.flatten()
    }

    /// Takes its rules in: one resource for each rule and listener. An invalid rule is carried even
    /// where the route is refused for it.
    pub(crate) fn take_rules(
        &mut self,
        kind: &str,
        name: &ObjectName,
        mut rules: Vec<LoweredRule>,
    ) {
        let mut candidates: Vec<(Attachment, Vec<Arc<Route>>)> = Vec::new();
        if self.refusals.is_empty() {
            for attachment in self.attachments() {
                if candidates
                    .iter()
                    .all(|(it, _)| it.listener != attachment.listener)
                {
                    candidates.push((attachment.clone(), Vec::new()));
                }
            }
        }
        let outcomes = rules.iter_mut().map(|lowered| RuleOutcome {
            name: lowered.name.take(),
            problems: std::mem::take(&mut lowered.problems),
            refs: std::mem::take(&mut lowered.refs),
        });
        self.rules = outcomes.collect();
        for (index, lowered) in rules.into_iter().enumerate() {
            let Ok(number) = u16::try_from(index) else {
                continue;
            };
            let copies = std::iter::repeat_n(lowered.rule, candidates.len());
            for ((attachment, routes), rule) in candidates.iter_mut().zip(copies) {
                let listener = &attachment.listener;
                routes.push(Arc::new(Route {
                    key: RouteKey::new(kind, name, number, listener),
                    listener: listener.clone(),
                    hostnames: Arc::clone(&attachment.hostnames),
                    created: self.created,
                    rule,
                }));
            }
        }
        let candidates = candidates.into_iter();
        self.candidates = candidates
            .map(|(attachment, rules)| Candidate {
                listener: attachment.listener,
                gateway: attachment.gateway,
                rules: rules.into(),
            })
            .collect();
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
