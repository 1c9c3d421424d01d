//! Rewrites of paths. Of an invalid one nothing is left but that there is one: a backend does not expect paths
//! as clients send them.

use xds::model::{PathRewrite, PathRewriteRule, Substitution};

use super::api::PathRewriteSpec;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the rewrite of a policy, and returns its problems.
pub(crate) fn lower(spec: &PathRewriteSpec) -> (PathRewrite, Vec<Problem>) {
    let mut problems = Vec::new();
    let substitution = Substitution::parse(&spec.substitution);
    let substitution = substitution.map_err(|why| {
        problems.push(Problem::new(Reason::Invalid, "substitution", why));
    });
    let substitution = substitution.ok();
    // The pattern is checked even if there is nothing to put into its place.
    let checked = substitution
        .clone()
        .or_else(|| Substitution::parse("").ok());
    let rule = checked.map(|it| PathRewriteRule::parse(&spec.pattern, it));
    if let Some(Err(why)) = &rule {
        problems.push(Problem::new(Reason::Invalid, "pattern", why));
    }
    let rewrite = match (substitution, rule) {
        (Some(_), Some(Ok(rule))) => PathRewrite::Rule(rule),
        _ => PathRewrite::Invalid,
    };
    (rewrite, problems)
}

/// What is literal text, and maybe not meant so.
pub(crate) fn warning(substitution: &Substitution) -> Option<String> {
    let (found, instead) = substitution.foreign_reference()?;
    Some(format!(
        "`{found}` is literal text: write `{instead}` for the text of a group"
    ))
}

/// Checks a pattern.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), String> {
    let nothing = Substitution::parse("").map_err(|why| why.to_string())?;
    let rule = PathRewriteRule::parse(pattern, nothing);
    rule.map(drop).map_err(|why| why.to_string())
}

/// What follows from an invalid rewrite.
pub(crate) const ANSWERED_UNTIL_THEN: &str =
    "; until then requests of its rules get status 500 (bad_rewrite)";
