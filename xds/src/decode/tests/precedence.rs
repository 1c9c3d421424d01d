//! Overriding policies, as proxies of this release and of earlier ones decode them.

use prost::Message;

use super::{policy, resource};
use crate::model::{
    AuthorizationPolicy, Features, Kind, Policy, PolicySpec, Precedence, Resource, RetryBudget,
};
use crate::proto;

type Setting<'a> = &'a dyn Fn(&mut PolicySpec);

/// Proxies of earlier versions let nearer targets replace what an overriding policy sets.
#[test]
fn an_overriding_policy_denies_at_proxies_that_do_not_know_it() {
    let decode = |message: &proto::Policy| {
        let decoded = resource(Kind::Policy, &message.encode_to_vec());
        match decoded.expect("it is valid") {
            Resource::Policy(policy) => Policy::clone(&policy),
            other => panic!("{other:?}"),
        }
    };
    let restricting = |spec: &mut PolicySpec| {
        spec.authorization = Some(AuthorizationPolicy {
            deny: Vec::new(),
            allow: Vec::new(),
        });
    };
    let bounding = |spec: &mut PolicySpec| spec.limits.body_min_rate = Some(1);
    let invalid = |spec: &mut PolicySpec| spec.is_invalid = true;
    let harmless = |spec: &mut PolicySpec| {
        spec.retry_budget = Some(RetryBudget {
            percent: 1,
            floor: 1,
        });
    };
    let settings: [(Setting<'_>, bool); 4] = [
        (&restricting, true),
        (&bounding, true),
        (&invalid, true),
        (&harmless, false),
    ];
    for (set, denies) in settings {
        let mut policy = decode(&policy());
        policy.spec.precedence = Precedence::Overrides;
        set(&mut policy.spec);
        let message = proto::Policy::from(&policy);
        assert_eq!(decode(&message), policy);
        let to_them = decode(&proto::Policy {
            overrides: false,
            invalid_override: false,
            features: Vec::new(),
            ..message
        });
        assert_eq!(to_them.spec.is_invalid, denies, "{policy:?}");
        // What a controller sends to those that state their features.
        let to_them = Resource::from(policy).enforceable_with(Features::NONE);
        let needs = to_them.as_ref().map(Resource::needs);
        assert_eq!(needs, Some(Features::NONE), "{to_them:?}");
    }
}
