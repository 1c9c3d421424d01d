//! Authorization rules on claims of credentials that nothing reads.

use xds::fast_hash::FastHashSet;

use super::view::View;
use super::{Diagnosis, finding};
use crate::level::Level;
use crate::objects::object_ref::ObjectRef;
use crate::policy::api::{AuthorizationRuleSpec, PolicyTargetReference, TrafficPolicy};
use crate::policy::expression::Expression;
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    let policies = view.store.traffic_policies.values();
    let tokens = Tokens::new(view, policies.clone().map(|it| &**it));
    for policy in policies {
        let Some(authorization) = &policy.spec.authorization else {
            continue;
        };
        if policy.spec.has_credentials() {
            continue;
        }
        let mut targets = policy.spec.target_refs.iter();
        let Some(target) = targets.find(|it| tokens.are_unread(view, policy, it)) else {
            continue;
        };
        let lists = [
            ("deny", &authorization.deny),
            ("allow", &authorization.allow),
        ];
        for (list, rules) in lists {
            for (index, _) in rules.iter().enumerate().filter(|(_, it)| reads_claims(it)) {
                let field = format!("spec.authorization.{list}[{index}].when");
                let text = format!(
                    "the rule reads claims, and no TrafficPolicy with `jwt` or `apiKeys` is for {} {}, what it belongs \
                     to or what belongs to it: no request has claims. Add `jwt` with the issuer of the tokens, or \
                     `apiKeys`",
                    target.kind, target.name
                );
                let field = (field, Reason::NoCredentials);
                let object = ObjectRef::of::<TrafficPolicy>(&policy.metadata.name);
                found.push(finding(&object, Level::Error, field, text));
            }
        }
    }
}

fn reads_claims(rule: &AuthorizationRuleSpec) -> bool {
    Expression::parse(&rule.when).is_ok_and(|it| it.reads_claims())
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
