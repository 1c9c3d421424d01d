//! Generated policies of a platform and a tenant, and how a proxy receives them.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use xds::delta::{Client, Encoded, Version};
use xds::discovery::{self, Any, DeltaDiscoveryResponse};
use xds::model::{
    AuthorizationPolicy, AuthorizationRule, Change, JwtMode, JwtPolicy, ListenerKey, NetworkList,
    NetworkPolicy, Policy, PolicySpec, PolicyTarget, Precedence, RateLimitHeaders, RateLimitKey,
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
fn enforced() -> impl Strategy<Value = Vec<Resource>> {
    let spec = || spec("platform", Precedence::Overrides).boxed();
    let listener = listener("http", None).key;
    policies(vec![
        ("of-gateway", PolicyTarget::Gateway(gateway()), spec()),
        ("of-listener", PolicyTarget::Listener(listener), spec()),
    ])
}

/// Policies of a tenant, which may override others at its own ListenerSet.
fn added() -> impl Strategy<Value = Vec<Resource>> {
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

/// A version of a resource, as a proxy receives it.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    pub(super) resource: Resource,
    /// Whether it has a value that the proxy does not know.
    pub(super) is_rejected: bool,
    pub(super) is_last: bool,
}

impl Arrival {
    fn last(resource: &Resource, is_rejected: bool) -> Self {
        Self {
            resource: resource.clone(),
            is_rejected,
            is_last: true,
        }
    }

    /// What a proxy applies of it.
    pub(super) fn arrives_at(self, client: &mut Client) -> Vec<Change> {
        let encoded = Encoded::new(&self.resource);
        let mut value = encoded.bytes.to_vec();
        if self.is_rejected {
            // `limits` with a largest head of 0 bytes.
            value.extend([0x22, 0x02, 0x10, 0x00]);
        }
        let kind = encoded.key.kind;
        let response = DeltaDiscoveryResponse {
            system_version_info: "1/1/1".to_owned(),
            type_url: kind.type_url().to_owned(),
            nonce: "nonce".to_owned(),
            resources: vec![discovery::Resource {
                version: Version::of(&value).to_string(),
                name: encoded.key.key.to_string(),
                resource: Some(Any {
                    type_url: kind.type_url().to_owned(),
                    value: value.into(),
                }),
            }],
            ..DeltaDiscoveryResponse::default()
        };
        let received = client.receive(response).expect("it is a part");
        let received = received.expect("it is the last part");
        assert_eq!(received.refused.len(), usize::from(self.is_rejected));
        let changes = received.changes.clone();
        let _ = client.acknowledge(received, Vec::new());
        changes
    }
}

/// Overriding policies of the platform, with the versions of these and of a tenant's policies as they arrive. The
/// last version of an overriding one may be rejected; then an earlier one was as it is, or did not override.
pub(super) fn histories() -> impl Strategy<Value = (Vec<Resource>, Vec<Vec<Arrival>>)> {
    let earlier = || {
        let precedence = prop::sample::select(vec![Precedence::Defaults, Precedence::Overrides]);
        (option::of(precedence), prop::bool::weighted(0.4))
    };
    let all = (enforced(), added(), vec(earlier(), 2), prop::bool::ANY);
    all.prop_map(|(enforced, added, earlier, is_tenants_rejected)| {
        let platforms = { enforced.iter().zip(earlier) }.map(|(last, (earlier, is_rejected))| {
            let earlier = earlier.map(|precedence| Arrival {
                resource: with_precedence(last, precedence),
                is_rejected: false,
                is_last: false,
            });
            let last = Arrival::last(last, is_rejected);
            earlier.into_iter().chain([last]).collect()
        });
        let tenants = added
            .iter()
            .map(|it| vec![Arrival::last(it, is_tenants_rejected)]);
        let histories = platforms.chain(tenants).collect();
        (enforced, histories)
    })
}

fn with_precedence(policy: &Resource, precedence: Precedence) -> Resource {
    let Resource::Policy(policy) = policy else {
        panic!("it is a policy");
    };
    let mut policy = Policy::clone(policy);
    policy.spec.precedence = precedence;
    policy.into()
}
