//! Rules on claims of credentials that nothing reads.

use xds::fast_hash::FastHashSet;

use super::view::View;
use super::{Diagnosis, finding};
use crate::level::Level;
use crate::objects::object_ref::ObjectRef;
use crate::policy::api::{PolicyTargetReference, TrafficPolicy, TrafficPolicySpec};
use crate::policy::expression::Expression;
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    let policies = view.store.traffic_policies.values();
    let tokens = Tokens::new(view, policies.clone().map(|it| &**it));
    for policy in policies {
        let uses = uses(&policy.spec);
        if uses.is_empty() || policy.spec.has_credentials() {
            continue;
        }
        let mut targets = policy.spec.target_refs.iter();
        let Some(target) = targets.find(|it| tokens.are_unread(view, policy, it)) else {
            continue;
        };
        for (field, effect) in uses {
            let text = format!(
                "the rule reads claims, and no TrafficPolicy with `jwt`, `basicAuth` or `apiKeys` is for {} {}, what \
                 it belongs to or what belongs to it: no request has claims{effect}. Add `jwt` with the issuer of the \
                 tokens, `basicAuth` or `apiKeys`",
                target.kind, target.name
            );
            let field = (field, Reason::NoCredentials);
            let object = ObjectRef::of::<TrafficPolicy>(&policy.metadata.name);
            found.push(finding(&object, Level::Error, field, text));
        }
    }
}

/// The fields of a policy that read claims, and what is without them.
fn uses(spec: &TrafficPolicySpec) -> Vec<(String, &'static str)> {
    let mut uses = Vec::new();
    if let Some(authorization) = &spec.authorization {
        let lists = [
            ("deny", &authorization.deny),
            ("allow", &authorization.allow),
        ];
        for (list, rules) in lists {
            let rules = rules
                .iter()
                .enumerate()
                .filter(|(_, it)| reads_claims(&it.when));
            uses.extend(rules.map(|(at, _)| (format!("spec.authorization.{list}[{at}].when"), "")));
        }
    }
    for (index, rule) in spec.rate_limit.iter().flat_map(|it| &it.rules).enumerate() {
        let field = format!("spec.rateLimit.rules[{index}]");
        if rule.when.as_deref().is_some_and(reads_claims) {
            uses.push((format!("{field}.when"), ""));
        }
        if let Some(at) = rule.key.iter().position(|it| it.claim.is_some()) {
            let is_whole = rule.key.iter().all(|it| it.claim.is_some());
            let effect = if is_whole {
                ", so all share one limit"
            } else {
                ", so that part of the key is the same for all"
            };
            uses.push((format!("{field}.key[{at}].claim"), effect));
        }
    }
    uses
}

fn reads_claims(when: &str) -> bool {
    Expression::parse(when).is_ok_and(|it| it.reads_claims())
}

/// Where policies read tokens.
struct Tokens {
    targets: FastHashSet<ObjectRef>,
    /// The targets, and what they belong to.
    levels: FastHashSet<ObjectRef>,
}

impl Tokens {
    fn new<'p>(view: &View<'_>, policies: impl Iterator<Item = &'p TrafficPolicy>) -> Self {
        let with_tokens = policies.filter(|it| it.spec.has_credentials());
        let targets = with_tokens.flat_map(|policy| {
            let namespace = &policy.metadata.name.namespace;
            let targets = policy.spec.target_refs.iter();
            targets.filter_map(|it| it.object(namespace))
        });
        let targets: FastHashSet<ObjectRef> = targets.collect();
        let levels = targets.iter().flat_map(|it| view.levels(it)).collect();
        Self { targets, levels }
    }

    /// Whether none are read for a target, for what it belongs to, or for what belongs to it.
    fn are_unread(
        &self,
        view: &View<'_>,
        policy: &TrafficPolicy,
        target: &PolicyTargetReference,
    ) -> bool {
        // References to unknown kinds are reported as such.
        let Some(target) = target.object(&policy.metadata.name.namespace) else {
            return false;
        };
        let is_target = |it: &ObjectRef| self.targets.contains(it);
        !self.levels.contains(&target) && !view.levels(&target).iter().any(is_target)
    }
}
