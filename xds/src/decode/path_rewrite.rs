//! Rewrites of paths.

use super::field_path::FieldPath;
use crate::model::{PathRewrite, PathRewriteRule, Substitution};
use crate::proto::{self, path_rewrite};

pub(super) fn path_rewrite(at: &FieldPath<'_>, message: proto::PathRewrite) -> Option<PathRewrite> {
    match message.kind {
        Some(path_rewrite::Kind::Rule(message)) => {
            rule(&at.field("rule"), &message).map(PathRewrite::Rule)
        }
        Some(path_rewrite::Kind::Invalid(proto::Unit {})) => Some(PathRewrite::Invalid),
        None => at.record_missing_choice(),
    }
}

fn rule(at: &FieldPath<'_>, message: &proto::PathRewriteRule) -> Option<PathRewriteRule> {
    let substitution = Substitution::parse(&message.substitution);
    let substitution = at.field("substitution").accept(substitution)?;
    let rule = PathRewriteRule::parse(&message.pattern, substitution);
    at.field("pattern").accept(rule)
}
