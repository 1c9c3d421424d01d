//! Policies that take precedence: whatever policies a tenant adds, in whatever order they arrive, no request is
//! admitted that the overriding policies alone refuse.

use std::net::IpAddr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use xds::model::{
    self, AuthorizationPolicy, AuthorizationRule, JwtMode, JwtPolicy, Model, NetworkList,
    NetworkPolicy, PolicySpec, PolicyTarget, Precedence, Resource, Timeout,
};

use super::sample::{gateway, host, http_rule, limits, listener, model, policy, route, target};
use super::{Compiler, compile, options, rule};
use crate::config::dns::Resolved;
use crate::config::{Rule, RuleClaims, Snapshot};
use crate::http::head::Fields;
use crate::policy::authorization::{Attributes, Subject};
use crate::policy::client_networks;
use crate::policy::effective_fields::EffectiveFields;
use crate::policy::forwarded::HeaderTrust;

/// What a request is judged by.
#[derive(Debug, Clone)]
struct Request {
    client: IpAddr,
    method: &'static [u8],
}

fn requests() -> Vec<Request> {
    let clients = [[10, 0, 0, 1], [10, 1, 0, 1], [192, 0, 2, 1]].map(IpAddr::from);
    let methods = [&b"GET"[..], b"POST"];
    let requests = clients.into_iter().flat_map(|client| {
        methods
            .into_iter()
            .map(move |method| Request { client, method })
    });
    requests.collect()
}

/// Whether a rule refuses a request without a token.
fn refuses(rule: &Rule, request: &Request) -> bool {
    let fields = Fields::default();
    rule.refused_by().is_some()
        || client_networks::check(&rule.networks, request.client).is_err()
        || rule.authorization.iter().any(|it| {
            let subject = Subject {
                method: request.method,
                host: "a.test",
                path: "/",
                fields: EffectiveFields {
                    fields: &fields,
                    bytes: &[],
                    header_trust: HeaderTrust::Untrusted,
                    principal: None,
                    own: &[],
                    grants: None,
                },
                client: request.client,
                claims: None,
            };
            let attributes = Attributes::of(subject, &it.policy);
            it.policy.evaluate(&attributes).result.is_err()
        })
}

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
        4 => (list(), option::of(list()))
            .prop_map(|(deny, allow)| NetworkPolicy::Lists { deny, allow }),
        1 => Just(NetworkPolicy::ListMissing),
    ]
}

fn authorization() -> impl Strategy<Value = AuthorizationPolicy> {
    let rules = || {
        let texts = prop::sample::select(vec![
            "true",
            "false",
            "request.method == 'GET'",
            "cidr('10.0.0.0/8').contains(client.address)",
            "claims.group == 'admins'",
        ]);
        let rule = texts.prop_map(|when| AuthorizationRule {
            name: String::new(),
            when: when.to_owned(),
        });
        vec(rule, 0..3)
    };
    (rules(), rules()).prop_map(|(deny, allow)| AuthorizationPolicy { deny, allow })
}

fn spec(precedence: Precedence) -> impl Strategy<Value = PolicySpec> {
    let fields = (
        option::of(networks()),
        option::of(authorization()),
        option::of(prop_oneof![Just(JwtMode::Strict), Just(JwtMode::Optional)]),
        prop::bool::weighted(0.1),
    );
    fields.prop_map(
        move |(networks, authorization, mode, is_invalid)| PolicySpec {
            networks: networks.filter(|_| !is_invalid),
            authorization: authorization.filter(|_| !is_invalid),
            jwt: mode.filter(|_| !is_invalid).map(jwt),
            is_invalid,
            precedence,
            ..PolicySpec::default()
        },
    )
}

fn jwt(mode: JwtMode) -> JwtPolicy {
    JwtPolicy {
        mode,
        realm: Some(format!("{mode:?}")),
        providers: Vec::new(),
    }
}

fn target_of_route(rule: bool) -> PolicyTarget {
    let kind = "HTTPRoute".to_owned();
    let object = host("shop");
    if rule {
        let rule = "first".to_owned();
        PolicyTarget::Rule { kind, object, rule }
    } else {
        PolicyTarget::Route { kind, object }
    }
}

/// Policies of the platform, each for another target.
fn enforced() -> impl Strategy<Value = Vec<Resource>> {
    let at = |name: &'static str, target: PolicyTarget| {
        option::weighted(0.6, spec(Precedence::Overrides))
            .prop_map(move |spec| Some(policy(name, target.clone(), spec?).into()))
    };
    let of_gateway = at("enforced-gateway", PolicyTarget::Gateway(gateway()));
    let key = listener("http", None).key;
    let of_listener = at("enforced-listener", PolicyTarget::Listener(key));
    (of_gateway, of_listener).prop_map(|(one, other)| one.into_iter().chain(other).collect())
}

/// Policies of a tenant.
fn added() -> impl Strategy<Value = Vec<Resource>> {
    let at = |name: &'static str, target: PolicyTarget| {
        option::of(spec(Precedence::Defaults))
            .prop_map(move |spec| Some(policy(name, target.clone(), spec?).into()))
    };
    let of_route = at("route", target_of_route(false));
    let of_rule = at("rule", target_of_route(true));
    (of_route, of_rule).prop_map(|(one, other)| one.into_iter().chain(other).collect())
}

fn route_resource() -> Resource {
    let mut route = route("shop", 0, "/", vec![(target("web", 80), 1)]);
    http_rule(&mut route).name = Some("first".into());
    route.into()
}

fn of(snapshot: &Snapshot) -> &Rule {
    rule(snapshot, "a", "/").expect("a rule")
}

fn with<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Model {
    let mut model = model();
    for resource in resources {
        model.insert(resource.clone());
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_policy_of_a_tenant_admits_what_an_overriding_one_refuses(
        enforced in enforced(),
        added in added(),
        seed in any::<prop::sample::Index>(),
    ) {
        let route = route_resource();
        let alone = compile(&with(enforced.iter().chain([&route])));
        let refused: Vec<Request> = { requests().into_iter() }
            .filter(|request| refuses(of(&alone), request))
            .collect();
        let challenge = alone_challenge(of(&alone));

        // In any order, as resources arrive.
        let mut all: Vec<Resource> = enforced.iter().chain(&added).cloned().collect();
        let rotation = seed.index(all.len().max(1));
        all.rotate_left(rotation.min(all.len()));
        let mut model = with([&route]);
        let mut compiler = Compiler::default();
        compiler.compile(&model, &Resolved::default(), &options());
        for resource in all {
            model.insert(resource);
            compiler.compile(&model, &Resolved::default(), &options());
        }
        let snapshot = compiler.compile(&model, &Resolved::default(), &options());
        let together = of(&snapshot);
        for request in refused {
            prop_assert!(refuses(together, &request), "{request:?}");
        }
        if challenge.is_some() {
            prop_assert_eq!(alone_challenge(together), challenge, "its own credentials");
        }
    }
}

/// Which JWT policy is in force.
fn alone_challenge(rule: &Rule) -> Option<String> {
    let jwt = rule.jwt.as_ref()?;
    let challenge = jwt.challenge(crate::failure::FailureKind::NoToken)?;
    Some(String::from_utf8_lossy(challenge).into_owned())
}

#[test]
fn claims_of_a_tenants_issuer_do_not_satisfy_enforced_rules() {
    let claims = |own_jwt: bool, enforced_jwt: bool| {
        let rules = AuthorizationPolicy {
            deny: Vec::new(),
            allow: vec![AuthorizationRule {
                name: String::new(),
                when: "claims.group == 'admins'".to_owned(),
            }],
        };
        let enforced = PolicySpec {
            authorization: Some(rules),
            jwt: enforced_jwt.then(|| jwt(JwtMode::Strict)),
            precedence: Precedence::Overrides,
            ..PolicySpec::default()
        };
        let own = PolicySpec {
            jwt: own_jwt.then(|| jwt(JwtMode::Optional)),
            ..PolicySpec::default()
        };
        let model = with(&[
            route_resource(),
            policy("enforced", PolicyTarget::Gateway(gateway()), enforced).into(),
            policy("own", target_of_route(false), own).into(),
        ]);
        let snapshot = compile(&model);
        of(&snapshot).authorization[0].claims
    };
    assert_eq!(claims(true, false), RuleClaims::Absent);
    assert_eq!(claims(true, true), RuleClaims::Verified);
}

#[test]
fn enforced_limits_are_bounds() {
    let seconds = |seconds| Some(Timeout::After(Duration::from_secs(seconds)));
    let bounds = PolicySpec {
        precedence: Precedence::Overrides,
        ..limits(model::Limits {
            body_min_rate: Some(100),
            stream_idle_timeout: seconds(60),
            write_idle_timeout: seconds(60),
            response_head_timeout: seconds(5),
            ..model::Limits::default()
        })
    };
    let own = limits(model::Limits {
        body_min_rate: Some(10),
        stream_idle_timeout: Some(Timeout::Never),
        write_idle_timeout: seconds(6),
        response_head_timeout: seconds(50),
        ..model::Limits::default()
    });
    let mut forever = route("shop", 0, "/", vec![(target("web", 80), 1)]);
    http_rule(&mut forever).timeouts.request = Timeout::Never;
    let model = with(&[
        forever.into(),
        policy("bounds", PolicyTarget::Gateway(gateway()), bounds).into(),
        policy("own", target_of_route(false), own).into(),
    ]);
    let snapshot = compile(&model);
    let rule = of(&snapshot);
    let limits = &rule.limits;
    assert_eq!(limits.body_min_rate, 100, "the larger rate is tighter");
    assert_eq!(limits.stream_idle_timeout, Some(Duration::from_secs(60)));
    assert_eq!(limits.write_idle_timeout, Some(Duration::from_secs(6)));
    assert_eq!(limits.response_head_timeout, Some(Duration::from_secs(5)));
    let to_backend = &rule.backends[0].limits;
    assert_eq!(
        to_backend.response_head_timeout,
        Some(Duration::from_secs(5))
    );
    assert!(!rule.waits_forever(), "nor may the route lift it");
}

#[test]
fn the_wider_one_of_two_overriding_policies_wins_what_is_not_added() {
    let realm = |realm: &str| PolicySpec {
        jwt: Some(JwtPolicy {
            realm: Some(realm.to_owned()),
            ..jwt(JwtMode::Strict)
        }),
        precedence: Precedence::Overrides,
        ..PolicySpec::default()
    };
    let key = listener("http", None).key;
    let model = with(&[
        route_resource(),
        policy("wide", PolicyTarget::Gateway(gateway()), realm("wide")).into(),
        policy("narrow", PolicyTarget::Listener(key), realm("narrow")).into(),
    ]);
    let snapshot = compile(&model);
    let challenge = alone_challenge(of(&snapshot)).expect("a challenge");
    assert!(challenge.contains("wide"), "{challenge}");
}
