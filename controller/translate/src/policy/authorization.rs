//! Authorization rules. Of a policy with a problem none applies: a rule left out of `deny` would allow
//! requests.

use xds::model::{AuthorizationPolicy, AuthorizationRule};

use super::api::{AuthorizationRuleSpec, AuthorizationSpec};
use super::expression::Expression;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the authorization of a policy, and returns its problems.
pub(crate) fn lower(spec: &AuthorizationSpec) -> (AuthorizationPolicy, Vec<Problem>) {
    let mut problems = Vec::new();
    if spec.deny.is_empty() && spec.allow.is_empty() {
        let message = "has no rule: add one to deny or allow";
        problems.push(Problem::new(Reason::Invalid, "", message));
    }
    let mut rules = |list: &str, specs: &[AuthorizationRuleSpec]| {
        let specs = specs.iter().enumerate();
        let rules = specs.map(|(index, spec)| {
            if let Err(why) = Expression::parse(&spec.when) {
                let field = format!("{list}[{index}].when");
                problems.push(Problem::new(Reason::Invalid, field, why));
            }
            AuthorizationRule {
                name: spec.name.clone().unwrap_or_default(),
                when: spec.when.clone(),
            }
        });
        rules.collect()
    };
    let policy = AuthorizationPolicy {
        deny: rules("deny", &spec.deny),
        allow: rules("allow", &spec.allow),
    };
    (policy, problems)
}
