//! Rate limits, and proxies that do not know them.

use prost::Message;

use super::{policy, resource};
use crate::model::{
    AuthorizationPolicy, Features, Kind, NetworkList, NetworkPolicy, Policy, Resource,
};
use crate::proto;

fn rate_limit() -> proto::RateLimitPolicy {
    proto::RateLimitPolicy {
        rules: vec![proto::RateLimitRule {
            name: "nobody".to_owned(),
            max_keys: 1024,
            ..proto::RateLimitRule::default()
        }],
        status: 429,
        headers: proto::RateLimitHeaders::Off.into(),
    }
}

fn decode(message: &proto::Policy) -> Policy {
    let decoded = resource(Kind::Policy, &message.encode_to_vec());
    match decoded.expect("it is valid") {
        Resource::Policy(policy) => Policy::clone(&policy),
        other => panic!("{other:?}"),
    }
}

/// An earlier proxy would let everything pass.
#[test]
fn a_rate_limit_needs_a_proxy_that_knows_it() {
    let mut message = policy();
    message.rate_limit = Some(rate_limit());
    let decoded = resource(Kind::Policy, &message.encode_to_vec()).expect("it is valid");
    let earlier = ["shared-rules", "networks"].map(str::to_owned);
    let earlier = Features::stated(&earlier);
    let Some(Resource::Policy(closed)) = decoded.enforceable_with(earlier) else {
        panic!("{decoded:?}");
    };
    assert!(closed.spec.is_invalid);
    assert_eq!(decoded.enforceable_with(Features::all()), Some(decoded));
    // One that cannot be read refuses everything.
    message.rate_limit = Some(proto::RateLimitPolicy::default());
    let bytes = message.encode_to_vec();
    assert!(resource(Kind::Policy, &bytes).is_err());
    let refusing = super::super::policy::refusing(&message.key, &bytes);
    assert!(refusing.is_some_and(|it| it.spec.is_invalid));
}

/// What an earlier release knows of a message has to refuse every request: it ignores the rest.
#[test]
fn a_policy_with_rate_limits_denies_at_proxies_that_do_not_know_them() {
    let mut message = policy();
    message.rate_limit = Some(rate_limit());
    let mut policy = decode(&message);
    let allow_all = AuthorizationPolicy {
        deny: Vec::new(),
        allow: Vec::new(),
    };
    let networks = NetworkPolicy::Lists {
        deny: NetworkList::new([]),
        allow: None,
    };
    for (networks, authorization) in [
        (None, None),
        (None, Some(allow_all.clone())),
        (Some(networks.clone()), None),
        (Some(networks), Some(allow_all)),
    ] {
        policy.spec.networks = networks;
        policy.spec.authorization = authorization;
        let message = proto::Policy::from(&policy);
        assert_eq!(decode(&message), policy);
        let without_rate_limits = proto::Policy {
            rate_limit: None,
            authorization_with_rate_limit: None,
            features: Vec::new(),
            ..message
        };
        let without_networks = proto::Policy {
            networks: None,
            authorization_with_networks: None,
            ..without_rate_limits.clone()
        };
        for earlier in [without_rate_limits, without_networks] {
            let rules = decode(&earlier).spec.authorization;
            assert_eq!(rules, Some(AuthorizationPolicy::deny_all()));
        }
    }
}
