//! Authorization rules on claims of tokens that nothing reads.

use xds::model::ObjectName;

use super::view::View;
use super::{Diagnosis, finding};
use crate::api::{
    AuthorizationRuleSpec, Gateway, ListenerSet, PolicyTargetReference, Resource as _,
    TrafficPolicy,
};
use crate::level::Level;
use crate::objects::owner::Owner;
use crate::objects::store::ObjectRef;
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
        let own = around(view, &policy.metadata.name.namespace, target);
        !with_tokens.iter().any(|other| {
            let namespace = &other.metadata.name.namespace;
            let mut targets = other.spec.target_refs.iter();
            targets.any(|it| {
                let one = object(namespace, it);
                own.contains(&one)
                    || around(view, namespace, it)
                        .contains(&object(&policy.metadata.name.namespace, target))
            })
        })
    })
}

/// An object: kind and name.
type Named = (String, ObjectName);

fn object(namespace: &str, target: &PolicyTargetReference) -> Named {
    let name = ObjectName::new(namespace, &target.name);
    (target.kind.clone(), name)
}

/// A target, and what it belongs to: of a route its parents, and the Gateways of those.
fn around(view: &View<'_>, namespace: &str, target: &PolicyTargetReference) -> Vec<Named> {
    let own = object(namespace, target);
    let mut all = vec![own.clone()];
    let is_meant =
        |it: &&super::view::RouteView<'_>| it.object.kind == own.0 && it.object.name == own.1;
    if let Some(route) = view.routes().iter().find(is_meant) {
        for (_, owner) in route.owners() {
            all.extend(view.gateway_of(&owner).map(gateway));
            if let Owner::ListenerSet(name) = owner {
                all.push((ListenerSet::KIND.to_owned(), name));
            }
        }
    }
    if own.0 == ListenerSet::KIND {
        let owner = Owner::ListenerSet(own.1);
        all.extend(view.gateway_of(&owner).map(gateway));
    }
    all
}

fn gateway(name: ObjectName) -> Named {
    (Gateway::KIND.to_owned(), name)
}
