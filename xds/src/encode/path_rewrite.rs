//! Rewrites of paths.

use crate::model::{PathRewrite, PathRewriteRule};
use crate::proto::{self, path_rewrite};

impl From<&PathRewrite> for proto::PathRewrite {
    fn from(rewrite: &PathRewrite) -> Self {
        let kind = match rewrite {
            PathRewrite::Rule(rule) => path_rewrite::Kind::Rule(rule.into()),
            PathRewrite::Invalid => path_rewrite::Kind::Invalid(proto::Unit {}),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&PathRewriteRule> for proto::PathRewriteRule {
    fn from(rule: &PathRewriteRule) -> Self {
        Self {
            pattern: rule.pattern().to_owned(),
            substitution: rule.substitution().as_str().to_owned(),
        }
    }
}
