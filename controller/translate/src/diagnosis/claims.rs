//! Authorization rules on claims of tokens that nothing reads.

use super::view::View;
use super::{Diagnosis, finding};
use crate::level::Level;
use crate::objects::object_ref::ObjectRef;
use crate::policy::api::{AuthorizationRuleSpec, PolicyTargetReference, TrafficPolicy};
use crate::policy::expression::Expression;
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    let policies = view.store.traffic_policies.values();
    let with_tokens: Vec<&TrafficPolicy> = policies
        .clone()
        .filter(|it| it.spec.jwt.is_some())
        .map(|it| &**it)
        .collect();
    for policy in policies {
        let Some(authorization) = &policy.spec.authorization else {
            continue;
        };
        if policy.spec.jwt.is_some() {
            continue;
        }
        let Some(target) = bare_target(view, policy, &with_tokens) else {
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
                    "the rule reads claims, and no TrafficPolicy with `jwt` is for {} {}, what it belongs to or \
                     what belongs to it: no request has claims. Add `jwt` with the issuer of the tokens",
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

/// A target of a policy that none of the others reads tokens for.
fn bare_target<'p>(
    view: &View<'_>,
    policy: &'p TrafficPolicy,
    with_tokens: &[&TrafficPolicy],
) -> Option<&'p PolicyTargetReference> {
    let mut targets = policy.spec.target_refs.iter();
    targets.find(|target| {
        // References to unknown kinds are reported as such.
        let Some(own) = target.object(&policy.metadata.name.namespace) else {
            return false;
        };
        let own_levels = view.levels(&own);
        !with_tokens.iter().any(|other| {
            let namespace = &other.metadata.name.namespace;
            let targets = other.spec.target_refs.iter();
            let mut targets = targets.filter_map(|it| it.object(namespace));
            targets.any(|it| own_levels.contains(&it) || view.levels(&it).contains(&own))
        })
    })
}
