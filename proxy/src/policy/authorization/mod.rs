//! Authorization: CEL rules on a request and its token.
//!
//! [`Authorization`] is a policy, compiled off the shards. Evaluation is bounded: `translate`
//! accepts only expressions whose time is linear in the claims and lines that they read. The `cel`
//! crate allocates; requests without a policy cost nothing.

mod attributes;

use std::collections::BTreeMap;
use std::net::IpAddr;

use cel::{Context, Value};
use tracing::warn;
use translate::policy::expression::{Expression, environment, network_variable};
use xds::model::{AuthorizationPolicy, AuthorizationRule};

use self::attributes::Variables;
use super::networks::Networks;
use crate::failure::{Failure, FailureKind};
use crate::names::causes;

pub use attributes::{Attributes, ClaimPath, ClaimValues, Subject};

/// A compiled authorization policy.
#[derive(Debug)]
pub struct Authorization {
    /// `kind/namespace/name` of the policy.
    name: Box<str>,
    deny: Vec<Rule>,
    allow: Vec<Rule>,
    reads_headers: bool,
    networks: ConditionNetworks,
}

/// The networks of `cidr()` in conditions, by the variable that has the result.
#[derive(Debug, Default)]
pub struct ConditionNetworks(BTreeMap<String, Networks>);

impl ConditionNetworks {
    pub(in crate::policy) fn of<'e>(conditions: impl Iterator<Item = &'e Expression>) -> Self {
        let networks = conditions.flat_map(Expression::networks);
        let by_variable =
            networks.map(|network| (network_variable(*network), Networks::compile([network])));
        Self(by_variable.collect())
    }

    /// Whether an address is in the network of a variable; `None` if no network has this one.
    fn contains(&self, variable: &str, address: IpAddr) -> Option<bool> {
        Some(self.0.get(variable)?.contains(address))
    }
}

#[derive(Debug)]
struct Rule {
    /// Name of the rule in traces.
    name: Box<str>,
    expression: Expression,
}

causes! {
    /// Why a request is rejected.
    Forbidden;
    /// A rule of `deny` is true.
    Denied "denied_by_rule";
    /// A rule of `deny` cannot be evaluated.
    NotEvaluated "rule_not_evaluated";
    /// No rule of `allow` is true.
    NotAllowed "allowed_by_no_rule";
}

impl From<Forbidden> for Failure {
    fn from(forbidden: Forbidden) -> Self {
        Self::because(FailureKind::Forbidden, forbidden.reason())
    }
}

/// The result for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Whether it is allowed.
    pub result: Result<(), Forbidden>,
    /// Name of the decisive rule.
    pub rule: Option<&'a str>,
    /// Rules that could not be evaluated, with the reason, for traces.
    pub errors: Vec<(&'a str, String)>,
}

impl Authorization {
    /// Compiles a policy of this name (`kind/namespace/name`). One with an invalid expression rejects every
    /// request.
    #[must_use]
    pub fn compile(name: &str, policy: &AuthorizationPolicy) -> Self {
        let compiled = Self::try_compile(name, policy).or_else(|(rule, why)| {
            warn!(
                policy = name,
                rule, "every request is rejected until a rule is corrected: it {why}"
            );
            Self::try_compile(name, &AuthorizationPolicy::deny_all())
        });
        compiled.unwrap_or(Self {
            name: name.into(),
            deny: Vec::new(),
            allow: Vec::new(),
            reads_headers: false,
            networks: ConditionNetworks::default(),
        })
    }

    fn try_compile(name: &str, policy: &AuthorizationPolicy) -> Result<Self, (String, String)> {
        let deny = rules("deny", &policy.deny)?;
        let allow = rules("allow", &policy.allow)?;
        let all = || deny.iter().chain(&allow).map(|rule| &rule.expression);
        Ok(Self {
            name: name.into(),
            reads_headers: all().any(Expression::reads_headers),
            networks: ConditionNetworks::of(all()),
            deny,
            allow,
        })
    }

    /// `kind/namespace/name` of the policy.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether rules read headers.
    #[must_use]
    pub fn reads_headers(&self) -> bool {
        self.reads_headers
    }

    /// The variables that its rules read.
    #[must_use]
    pub fn attributes<'a>(&self, subject: Subject<'a>) -> Attributes<'a> {
        Attributes::of(subject, self.reads_headers)
    }

    /// Evaluates the rules for a request.
    #[must_use]
    pub fn evaluate(&self, attributes: &Attributes<'_>) -> Verdict<'_> {
        let variables = Variables {
            attributes,
            networks: &self.networks,
        };
        let mut context = Context::with_env(environment());
        context.set_variable_resolver(&variables);
        let mut errors = Vec::new();
        let mut result = None;
        for rule in &self.deny {
            let why = match rule.evaluate(&context, &mut errors) {
                Some(false) => continue,
                Some(true) => Forbidden::Denied,
                None => Forbidden::NotEvaluated,
            };
            result = Some((Err(why), Some(&*rule.name)));
            break;
        }
        let (result, rule) = result.unwrap_or_else(|| {
            let mut allow = self.allow.iter();
            match allow.find(|rule| rule.evaluate(&context, &mut errors) == Some(true)) {
                Some(rule) => (Ok(()), Some(&*rule.name)),
                None if self.allow.is_empty() => (Ok(()), None),
                None => (Err(Forbidden::NotAllowed), None),
            }
        });
        Verdict {
            result,
            rule,
            errors,
        }
    }
}

impl Rule {
    /// Evaluates a rule; `None` if that fails, with the reason added to `errors`.
    fn evaluate<'a>(
        &'a self,
        context: &Context<'_, '_>,
        errors: &mut Vec<(&'a str, String)>,
    ) -> Option<bool> {
        evaluate(&self.expression, context)
            .inspect_err(|why| errors.push((&self.name, why.clone())))
            .ok()
    }
}

/// Whether a condition is true.
///
/// # Errors
/// It cannot be evaluated, for this reason.
pub(in crate::policy) fn holds(
    condition: &Expression,
    attributes: &Attributes<'_>,
    networks: &ConditionNetworks,
) -> Result<bool, String> {
    let variables = Variables {
        attributes,
        networks,
    };
    let mut context = Context::with_env(environment());
    context.set_variable_resolver(&variables);
    evaluate(condition, &context)
}

fn evaluate(condition: &Expression, context: &Context<'_, '_>) -> Result<bool, String> {
    match condition.evaluate(context) {
        Ok(Value::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!("expected bool, got {}", other.type_of())),
        Err(error) => Err(error.to_string()),
    }
}

fn rules(list: &str, rules: &[AuthorizationRule]) -> Result<Vec<Rule>, (String, String)> {
    let rules = rules.iter().enumerate().map(|(index, rule)| {
        let name = match rule.name.as_str() {
            "" => format!("{list}[{index}]"),
            name => name.to_owned(),
        };
        match Expression::parse(&rule.when) {
            Ok(expression) => Ok(Rule {
                name: name.into(),
                expression,
            }),
            Err(why) => Err((name, why.to_string())),
        }
    });
    rules.collect()
}

#[cfg(test)]
mod tests;
