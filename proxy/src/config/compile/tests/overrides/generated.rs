//! Generated policies of a platform and a tenant.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use xds::model::{
    AuthorizationPolicy, AuthorizationRule, JwtMode, JwtPolicy, ListenerKey, NetworkList,
    NetworkPolicy, PolicySpec, PolicyTarget, Precedence, RateLimitHeaders, RateLimitKey,
    RateLimitPolicy, RateLimitRule, RateLimitStatus, Resource,
};

use super::super::sample::{gateway, host, listener, policy};

fn network() -> impl Strategy<Value = (IpAddr, u8)> {
    prop::sample::select(vec![
        (IpAddr::from([10, 0, 0, 0]), 16),
        (IpAddr::from([10, 0, 0, 0]), 8),
        (IpAddr::from([192, 0, 2, 0]), 24),
        (IpAddr::from([0, 0, 0, 0]), 0),
    ])
}

fn networks() -> impl Strategy<Value = NetworkPolicy> {
    let list = || vec(network(), 0..3).prop_map(NetworkList::new);
    prop_oneof![
        9 => (list(), option::of(list()))
            .prop_map(|(deny, allow)| NetworkPolicy::Lists { deny, allow }),
        1 => Just(NetworkPolicy::ListMissing),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    let texts = prop::sample::select(vec![
        "true",
        "false",
        "request.method == 'GET'",
        "cidr('10.0.0.0/8').contains(client.address)",
        "claims.group == 'admins'",
    ]);
    texts.prop_map(str::to_owned)
}

fn authorization() -> impl Strategy<Value = AuthorizationPolicy> {
    let rules = || {
        let rule = condition().prop_map(|when| AuthorizationRule {
            name: String::new(),
            when,
        });
        vec(rule, 0..3)
    };
    (rules(), rules()).prop_map(|(deny, allow)| AuthorizationPolicy { deny, allow })
}

/// A rule that refuses what it applies to.
fn rate_limit() -> impl Strategy<Value = RateLimitPolicy> {
    let keys = prop::sample::select(vec![
        RateLimitKey::ClientAddress {
            ipv4_prefix: 32,
            ipv6_prefix: 64,
        },
        RateLimitKey::Claim("group".to_owned()),
        RateLimitKey::Path,
    ]);
    (option::weighted(0.8, condition()), vec(keys, 0..3)).prop_map(|(when, key)| {
        let rule = RateLimitRule {
            name: "none".to_owned(),
            when,
            key,
            rate: None,
            dry_run: false,
            max_keys: 1_024,
        };
        RateLimitPolicy {
            rules: vec![rule],
            status: RateLimitStatus::TooManyRequests,
            headers: RateLimitHeaders::Off,
        }
    })
}

/// Settings of an owner, who has an issuer.
fn spec(owner: &'static str, precedence: Precedence) -> impl Strategy<Value = PolicySpec> {
    let fields = (
        option::weighted(0.3, networks()),
        option::weighted(0.4, authorization()),
        option::weighted(0.2, rate_limit()),
        option::weighted(
            0.3,
            prop::sample::select(vec![JwtMode::Strict, JwtMode::Optional]),
        ),
        prop::bool::weighted(0.1),
    );
    fields.prop_map(
        move |(networks, authorization, rate_limit, mode, is_invalid)| PolicySpec {
            networks: networks.filter(|_| !is_invalid),
            authorization: authorization.filter(|_| !is_invalid),
            rate_limit: rate_limit.filter(|_| !is_invalid),
            jwt: mode.filter(|_| !is_invalid).map(|mode| jwt(owner, mode)),
            is_invalid,
            precedence,
            ..PolicySpec::default()
        },
    )
}

pub(super) fn jwt(owner: &str, mode: JwtMode) -> JwtPolicy {
    JwtPolicy {
        mode,
        realm: Some(format!("{owner} {mode:?}")),
        providers: Vec::new(),
    }
}

pub(super) fn target_of_route(rule: bool) -> PolicyTarget {
    let kind = "HTTPRoute".to_owned();
    let object = host("shop");
    if rule {
        let rule = "first".to_owned();
        PolicyTarget::Rule { kind, object, rule }
    } else {
        PolicyTarget::Route { kind, object }
    }
}

pub(super) fn listener_of_tenant() -> ListenerKey {
    ListenerKey::new("ListenerSet", &host("set"), "own")
}

/// At most one policy for each target.
fn policies(
    of: Vec<(&'static str, PolicyTarget, BoxedStrategy<PolicySpec>)>,
) -> impl Strategy<Value = Vec<Resource>> {
    let each = of.into_iter().map(|(name, target, spec)| {
        option::weighted(0.6, spec)
            .prop_map(move |spec| Some(Resource::from(policy(name, target.clone(), spec?))))
            .boxed()
    });
    let each: Vec<_> = each.collect();
    each.prop_map(|policies| policies.into_iter().flatten().collect())
}

/// Overriding policies of the platform.
pub(super) fn enforced() -> impl Strategy<Value = Vec<Resource>> {
    let spec = || spec("platform", Precedence::Overrides).boxed();
    let listener = listener("http", None).key;
    policies(vec![
        ("of-gateway", PolicyTarget::Gateway(gateway()), spec()),
        ("of-listener", PolicyTarget::Listener(listener), spec()),
    ])
}

/// Policies of a tenant, which may override others at its own ListenerSet.
pub(super) fn added() -> impl Strategy<Value = Vec<Resource>> {
    let default = || spec("tenant", Precedence::Defaults).boxed();
    let any = || {
        let overrides = spec("tenant", Precedence::Overrides).boxed();
        prop_oneof![default(), overrides].boxed()
    };
    policies(vec![
        ("of-route", target_of_route(false), default()),
        ("of-rule", target_of_route(true), default()),
        ("of-set", PolicyTarget::ListenerSet(host("set")), any()),
        (
            "of-own",
            PolicyTarget::Listener(listener_of_tenant()),
            any(),
        ),
    ])
}
