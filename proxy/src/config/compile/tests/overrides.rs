//! Policies that take precedence: whatever policies a tenant adds, in whatever order they arrive, no request is
//! admitted that the overriding policies alone refuse.

mod generated;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use xds::delta::Client;
use xds::model::{
    self, AuthorizationPolicy, JwtMode, JwtPolicy, Model, NetworkList, NetworkPolicy, PolicySpec,
    PolicyTarget, Precedence, Resource, Timeout,
};

use self::generated::{histories, jwt, listener_of_tenant, target_of_route};
use super::sample::{
    attachment, gateway, host, http_rule, limits, listener, model, policy, route, target,
};
use super::{Compiler, bind, compile, options, rule};
use crate::config::dns::Resolved;
use crate::config::{HeadPolicies, Rule, Snapshot};
use crate::failure::FailureKind;
use crate::http::head::Fields;
use crate::policy::authorization::{ClaimValues, Subject};
use crate::policy::client_networks;
use crate::policy::effective_fields::{EffectiveFields, PolicyView};
use crate::policy::forwarded::HeaderTrust;
use crate::policy::rate_limit::{Moment, RateLimits};

/// What a request is judged by.
#[derive(Debug, Clone)]
struct Request {
    /// Its listener: the Gateway's, or that of the tenant's ListenerSet.
    host: &'static str,
    client: IpAddr,
    method: &'static [u8],
    /// Whether it has a token of the tenant's issuer, of a member of `admins`.
    has_token: bool,
}

fn requests() -> Vec<Request> {
    let clients = [[10, 0, 0, 1], [10, 1, 0, 1], [192, 0, 2, 1]].map(IpAddr::from);
    let mut requests = Vec::new();
    for host in ["a.test", "tenant.test"] {
        for client in clients {
            for method in [&b"GET"[..], b"POST"] {
                requests.extend([true, false].map(|has_token| Request {
                    host,
                    client,
                    method,
                    has_token,
                }));
            }
        }
    }
    requests
}

impl Request {
    /// What policies see of it.
    fn subject<'a>(
        &self,
        fields: &'a Fields,
        view: PolicyView,
        claims: Option<&'a ClaimValues>,
    ) -> Subject<'a> {
        Subject {
            method: self.method,
            host: self.host,
            path: "/",
            fields: EffectiveFields {
                fields,
                bytes: &[],
                header_trust: HeaderTrust::Untrusted,
                principal: None,
                own: &[],
                grants: None,
                view,
            },
            client: self.client,
            claims: claims.filter(|_| view.has_claims()),
        }
    }

    /// Whether these rate limits refuse it. Rules of the test refuse all or none, so nothing is counted.
    fn is_limited(&self, limits: &RateLimits, claims: Option<&ClaimValues>) -> bool {
        let fields = Fields::default();
        let moments = [Moment::Head, Moment::Early, Moment::Late];
        moments.into_iter().any(|moment| {
            let subject = |view| self.subject(&fields, view, claims);
            let counted = limits.count(moment, subject, (Duration::ZERO, 0), false);
            counted.refusal.is_some()
        })
    }

    /// Whether it is refused before its rule is selected.
    fn is_refused_at_head(&self, policies: &HeadPolicies) -> bool {
        client_networks::check(&policies.networks, self.client).is_err() || {
            policies.rate_limits.as_ref()
        }
        .is_some_and(|it| self.is_limited(it, None))
    }

    /// Whether a configuration refuses it.
    fn is_refused_by(&self, snapshot: &Snapshot) -> bool {
        let listener = bind(snapshot).listener(self.host).expect("a listener");
        let rule = rule(snapshot, self.host, "/").expect("a rule");
        let head = listener.head_policies.as_deref();
        // A token is of the tenant, whom the platform does not trust.
        let claims = match (jwt_in_force(rule), self.has_token) {
            (Some(jwt), true) if jwt.contains("platform") => return true,
            (Some(jwt), false) if jwt.contains("Strict") => return true,
            (Some(_), true) => json!({"group": "admins"}),
            (_, false) | (None, true) => json!({}),
        };
        let claims = ClaimValues::new(claims.as_object().expect("an object"));
        let claims = Some(&claims).filter(|_| rule.authenticator().is_some() && self.has_token);
        let fields = Fields::default();
        rule.refused_by().is_some()
            || head.is_some_and(|head| self.is_refused_at_head(head))
            || client_networks::check(&rule.networks, self.client).is_err()
            || { rule.rate_limits.as_deref() }.is_some_and(|it| self.is_limited(it, claims))
            || rule.authorization.iter().any(|it| {
                let subject = self.subject(&fields, it.view, claims);
                let attributes = it.policy.attributes(subject);
                it.policy.evaluate(&attributes).result.is_err()
            })
    }
}

/// A route at both listeners.
fn route_resource() -> Resource {
    let mut route = route("shop", 0, "/", vec![(target("web", 80), 1)]);
    http_rule(&mut route).name = Some("first".into());
    let listeners = [listener("http", None).key, listener_of_tenant()];
    let attachments = listeners.map(|key| attachment(&key, &[]));
    route.attachments = attachments.into_iter().collect();
    route.into()
}

fn of(snapshot: &Snapshot) -> &Rule {
    rule(snapshot, "a", "/").expect("a rule")
}

fn with<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Model {
    let mut model = model();
    let mut own = listener("own", Some("tenant.test"));
    own.key = listener_of_tenant();
    model.insert(own.into());
    for resource in resources {
        model.insert(resource.clone());
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_policy_of_a_tenant_admits_what_an_overriding_one_refuses(
        ((enforced, histories), order) in histories().prop_flat_map(|(enforced, histories)| {
            let versions = histories.iter().enumerate();
            let order = versions.flat_map(|(at, history)| vec![at; history.len()]);
            let order: Vec<usize> = order.collect();
            (Just((enforced, histories)), Just(order).prop_shuffle())
        }),
    ) {
        let route = route_resource();
        let alone = compile(&with(enforced.iter().chain([&route])));
        let mut refused = requests();
        refused.retain(|request| request.is_refused_by(&alone));
        let tokens = jwt_in_force(of(&alone));

        // One by one, as a proxy receives them: whatever has arrived, and whether it is rejected, all of the
        // platform's hold from the moment on when the last of them is there.
        let mut model = with([&route]);
        let mut compiler = Compiler::default();
        compiler.compile(&model, &Resolved::default(), &options());
        let mut client = Client::new("proxy".to_owned());
        let mut missing: Vec<_> = enforced.iter().map(Resource::resource_key).collect();
        let mut histories: Vec<_> = histories.into_iter().map(Vec::into_iter).collect();
        let mut order = order.into_iter();
        let mut is_any_rejected = false;
        loop {
            let snapshot = compiler.compile(&model, &Resolved::default(), &options());
            if missing.is_empty() {
                for request in &refused {
                    prop_assert!(request.is_refused_by(&snapshot), "{request:?}");
                }
                if tokens.is_some() && !is_any_rejected {
                    prop_assert_eq!(jwt_in_force(of(&snapshot)), tokens.clone());
                }
            }
            let Some(version) = order.next().and_then(|at| histories[at].next()) else {
                break;
            };
            let key = version.resource.resource_key();
            missing.retain(|it| *it != key || !version.is_last);
            is_any_rejected |= version.is_rejected;
            model.apply(version.arrives_at(&mut client));
        }
    }
}

/// Which JWT policy is in force.
fn jwt_in_force(rule: &Rule) -> Option<String> {
    let jwt = rule.authenticator()?;
    let challenge = jwt.challenge(FailureKind::NoToken)?;
    Some(String::from_utf8_lossy(challenge).into_owned())
}

#[test]
fn enforced_rules_read_claims_that_are_enforced_at_their_target_or_a_wider_one() {
    let rules = PolicySpec {
        authorization: Some(AuthorizationPolicy {
            deny: Vec::new(),
            allow: Vec::new(),
        }),
        precedence: Precedence::Overrides,
        ..PolicySpec::default()
    };
    let tokens = PolicySpec {
        jwt: Some(jwt("platform", JwtMode::Strict)),
        precedence: Precedence::Overrides,
        ..PolicySpec::default()
    };
    let wide = || PolicyTarget::Gateway(gateway());
    let narrow = || PolicyTarget::Listener(listener("http", None).key);
    let view = |of_rules: PolicyTarget, of_tokens: PolicyTarget| {
        let snapshot = compile(&with(&[
            route_resource(),
            policy("rules", of_rules, rules.clone()).into(),
            policy("tokens", of_tokens, tokens.clone()).into(),
        ]));
        of(&snapshot).authorization[0].view
    };
    assert_eq!(view(wide(), wide()), PolicyView::AsSentWithClaims);
    assert_eq!(view(narrow(), wide()), PolicyView::AsSentWithClaims);
    assert_eq!(view(wide(), narrow()), PolicyView::AsSent);
}

#[test]
fn networks_close_connections_only_where_nobody_else_speaks_for_clients() {
    let lists = NetworkPolicy::Lists {
        deny: NetworkList::new([(IpAddr::from([10, 0, 0, 0]), 8)]),
        allow: None,
    };
    let enforced = |networks: &NetworkPolicy| PolicySpec {
        networks: Some(networks.clone()),
        precedence: Precedence::Overrides,
        ..PolicySpec::default()
    };
    let trusting = PolicySpec {
        trust: NonZeroU32::new(1).map(model::Trust::Hops),
        ..PolicySpec::default()
    };
    let at_accept = |resources: &[Resource]| {
        let snapshot = compile(&with(resources));
        bind(&snapshot).networks.is_some()
    };
    let everywhere = || PolicyTarget::Gateway(gateway());
    let of = |target: PolicyTarget, spec: PolicySpec| Resource::from(policy("a", target, spec));
    let also = |target: PolicyTarget, spec: PolicySpec| Resource::from(policy("b", target, spec));
    let enforcing = of(everywhere(), enforced(&lists));
    let own = PolicyTarget::Listener(listener("http", None).key);
    let of_tenant = PolicyTarget::ListenerSet(host("set"));
    assert!(at_accept(std::slice::from_ref(&enforcing)));
    assert!(!at_accept(&[
        enforcing.clone(),
        also(everywhere(), trusting.clone())
    ]));
    assert!(!at_accept(&[
        enforcing.clone(),
        also(own.clone(), trusting.clone())
    ]));
    assert!(
        at_accept(&[enforcing, also(of_tenant, trusting)]),
        "a tenant's trust is none"
    );
    assert!(
        !at_accept(&[of(own, enforced(&lists))]),
        "others share the port"
    );
    let replaceable = PolicySpec {
        precedence: Precedence::Defaults,
        ..enforced(&lists)
    };
    assert!(!at_accept(&[of(everywhere(), replaceable)]));
    let missing = of(everywhere(), enforced(&NetworkPolicy::ListMissing));
    assert!(!at_accept(&[missing]), "requests say what is missing");
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
    assert_eq!(limits.stream_idle_timeout, Some(Duration::from_mins(1)));
    assert_eq!(limits.write_idle_timeout, Some(Duration::from_secs(6)));
    assert_eq!(limits.response_head_timeout, Some(Duration::from_secs(5)));
    let to_backend = &rule.backends[0].limits;
    assert_eq!(
        to_backend.response_head_timeout,
        Some(Duration::from_secs(5))
    );
    assert_eq!(
        rule.head_bound(),
        Some(Duration::from_secs(5)),
        "nor may the route lift it"
    );
}

#[test]
fn the_wider_one_of_two_overriding_policies_wins_what_is_not_added() {
    let realm = |realm: &str| PolicySpec {
        jwt: Some(JwtPolicy {
            realm: Some(realm.to_owned()),
            ..jwt("platform", JwtMode::Strict)
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
    let challenge = jwt_in_force(of(&snapshot)).expect("a challenge");
    assert!(challenge.contains("wide"), "{challenge}");
}
