//! Rewrites of paths.

use proptest::prelude::*;
use xds::model::{PathRewrite, PathRewriteRule, Substitution};

pub(super) fn path_rewrite() -> impl Strategy<Value = PathRewrite> {
    let pattern = prop_oneof![
        "\\^?/[a-z]{1,4}(\\([a-z]\\|[.]\\*\\)|\\[[a-f]-[g-z]\\]\\+)?\\$?",
        Just(String::new()),
    ];
    let substitution = "/?[a-z%20]{0,3}(\\\\[0-9])?(\\?[a-z]=\\\\[0-9])?";
    let rule = (pattern, substitution).prop_filter_map("valid", |(pattern, substitution)| {
        let substitution = Substitution::parse(&substitution).ok()?;
        let rule = PathRewriteRule::parse(&pattern, substitution);
        Some(PathRewrite::Rule(rule.expect("an expression")))
    });
    prop_oneof![rule, Just(PathRewrite::Invalid)]
}
