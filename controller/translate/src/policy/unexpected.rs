//! What a policy that has an effect does that its author may not expect, for its condition.

use std::borrow::Cow;

use xds::model::{
    AuthorizationPolicy, NetworkPolicy, PathRewrite, PolicySpec, Precedence, RateLimitKey,
};

use super::expression::Expression;
use super::path_rewrite;
use super::status::INVALID_REWRITE;

/// The effect of a policy with what may be unexpected.
pub(super) fn effect_of(spec: &PolicySpec) -> Option<Cow<'static, str>> {
    if matches!(spec.path_rewrite, Some(PathRewrite::Invalid)) {
        return Some(INVALID_REWRITE.into());
    }
    match first_warning(spec) {
        Some((field, why)) => Some(format!("the policy has an effect; in {field} {why}").into()),
        None => effect_of_limits(spec),
    }
}

/// The first field that may not mean what it seems to, and why.
fn first_warning(spec: &PolicySpec) -> Option<(String, String)> {
    if let Some(PathRewrite::Rule(rule)) = &spec.path_rewrite
        && let Some(why) = path_rewrite::warning(rule.substitution())
    {
        return Some(("pathRewrite.substitution".to_owned(), why));
    }
    if let Some(NetworkPolicy::Lists { deny, .. }) = &spec.networks
        && deny.iter().any(|(_, length)| *length == 0)
    {
        let why = "a network has every address of its family, which are all denied";
        return Some(("networks.deny".to_owned(), why.to_owned()));
    }
    expressions(spec).find_map(|(field, text)| {
        let expression = Expression::parse(text).ok()?;
        let why = expression.warnings().first()?.clone();
        Some((field, why))
    })
}

/// The expressions of a policy, with their fields.
fn expressions(spec: &PolicySpec) -> impl Iterator<Item = (String, &str)> {
    let authorization = spec.authorization.iter().flat_map(of_authorization);
    let limits = spec.rate_limit.iter().flat_map(|it| &it.rules).enumerate();
    let limits = limits.filter_map(|(index, rule)| {
        Some((
            format!("rateLimit.rules[{index}].when"),
            rule.when.as_deref()?,
        ))
    });
    let except = spec.respond.iter().filter_map(|it| it.except.as_deref());
    let except = except.map(|text| ("respond.except".to_owned(), text));
    authorization.chain(limits).chain(except)
}

fn of_authorization(policy: &AuthorizationPolicy) -> impl Iterator<Item = (String, &str)> {
    let lists = [("deny", &policy.deny), ("allow", &policy.allow)];
    lists.into_iter().flat_map(|(list, rules)| {
        { rules.iter().enumerate() }
            .map(move |(index, rule)| (format!("authorization.{list}[{index}].when"), &*rule.when))
    })
}

/// That of a policy that limits rates.
fn effect_of_limits(spec: &PolicySpec) -> Option<Cow<'static, str>> {
    let keys = spec.rate_limit.as_ref()?.rules.iter();
    let keys = keys.flat_map(|rule| &rule.key);
    let header = keys.filter_map(|part| match part {
        RateLimitKey::Header(name) => Some(name),
        _ => None,
    });
    Some(match header.min_by_key(|name| name.as_str()) {
        None => EACH_PROXY.into(),
        Some(name) if spec.precedence == Precedence::Overrides => {
            format!("{EACH_PROXY}; header {name} of a key is what the client sends").into()
        }
        Some(name) => format!(
            "{EACH_PROXY}; header {name} of a key is what the client sends, unless claimsToHeaders or an \
             authorization server of the listener sets it: those of rules are asked later"
        )
        .into(),
    })
}

const EACH_PROXY: &str = "the policy has an effect; each proxy counts requests by itself";
