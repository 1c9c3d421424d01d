//! Rewrites of paths, and proxies that do not know them.

use prost::Message;

use super::{policy, problems, resource};
use crate::decode::substitute;
use crate::model::{Feature, Features, Kind, Resource};
use crate::proto::{self, path_rewrite};

fn rewrite(pattern: &str, substitution: &str) -> proto::Policy {
    let rule = proto::PathRewriteRule {
        pattern: pattern.to_owned(),
        substitution: substitution.to_owned(),
    };
    let kind = Some(path_rewrite::Kind::Rule(rule));
    proto::Policy {
        path_rewrite: Some(proto::PathRewrite { kind }),
        features: vec![Feature::PathRewrite.name().to_owned()],
        ..policy()
    }
}

/// An earlier proxy would send paths that the backend does not expect.
#[test]
fn a_rewrite_needs_a_proxy_that_knows_it() {
    let message = rewrite("^/a", "/b");
    let decoded = resource(Kind::Policy, &message.encode_to_vec()).expect("it is valid");
    let earlier = Feature::ALL.iter().filter(|it| **it < Feature::PathRewrite);
    let earlier: Features = earlier.copied().collect();
    let Some(Resource::Policy(closed)) = decoded.enforceable_with(earlier) else {
        panic!("{decoded:?}");
    };
    assert!(closed.spec.is_invalid && closed.spec.path_rewrite.is_none());
    assert_eq!(decoded.enforceable_with(Features::all()), Some(decoded));
}

#[test]
fn what_cannot_be_read_is_named_and_refuses_requests() {
    for (message, expected) in [
        (
            rewrite("(?=a)", "/b"),
            "path_rewrite.rule.pattern: look-ahead `(?=` is not supported",
        ),
        (
            rewrite("a", "%"),
            "path_rewrite.rule.substitution: `%` at character 1 is not followed by",
        ),
        (
            proto::Policy {
                path_rewrite: Some(proto::PathRewrite::default()),
                ..policy()
            },
            "path_rewrite: ",
        ),
    ] {
        let [problem] = &problems(Kind::Policy, &message)[..] else {
            panic!("one problem of {message:?}");
        };
        assert!(problem.starts_with(expected), "{problem}");
        let refusing = substitute(Kind::Policy, &message.key, &message.encode_to_vec());
        let Some(Resource::Policy(refusing)) = refusing else {
            panic!("{refusing:?}");
        };
        assert!(refusing.spec.is_invalid);
    }
}
