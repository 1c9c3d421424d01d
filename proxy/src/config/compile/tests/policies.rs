//! Which policy wins if several apply.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use xds::model::{
    self, Ejection, JwtKeys, ListenerKey, LogFormat, Model, ObjectName, PolicySpec, PolicyTarget,
    RetryBudget, RetryConstraint, RetryRate, Timeout,
};

use super::jwt::jwt;
use super::sample::{
    attachment, gateway, host, http_rule, limits, listener, model, policy, route, service, target,
};
use super::{bind, cluster, compile, options, rule};
use crate::config::RetryLimit;
use crate::limits::{EJECTION, Limits, RETRY_BUDGET};
use crate::policy::forwarded::TrustedHops;

#[test]
fn the_policy_of_the_nearest_target_wins_for_each_field() {
    let mut model = model();
    model.insert(route("shop", 0, "/", vec![(target("web", 80), 1)]).into());
    let seconds = |n| Some(Timeout::After(Duration::from_secs(n)));
    let targets = [
        PolicyTarget::Gateway(gateway()),
        PolicyTarget::Listener(listener("http", None).key),
        PolicyTarget::Route {
            kind: "HTTPRoute".to_owned(),
            object: host("shop"),
        },
        PolicyTarget::Rule {
            kind: "HTTPRoute".to_owned(),
            object: host("shop"),
            rule: "first".to_owned(),
        },
    ];
    let fields: [fn(&mut model::Limits, Option<Timeout>); 4] = [
        |limits, time| limits.stream_idle_timeout = time,
        |limits, time| limits.body_idle_timeout = time,
        |limits, time| limits.write_idle_timeout = time,
        |limits, time| limits.connect_timeout = time,
    ];
    // Each target sets its own field and those of all wider ones.
    for (level, target) in targets.into_iter().enumerate() {
        let mut policy_limits = model::Limits::default();
        for field in &fields[level..] {
            field(&mut policy_limits, seconds(level as u64 + 1));
        }
        model.insert(policy(&level.to_string(), target, limits(policy_limits)).into());
    }
    let snapshot = compile(&model);
    let rule = rule(&snapshot, "a", "/").expect("a rule");
    let expected = Limits {
        stream_idle_timeout: Some(Duration::from_secs(1)),
        body_idle_timeout: Some(Duration::from_secs(2)),
        write_idle_timeout: Some(Duration::from_secs(3)),
        connect_timeout: Some(Duration::from_secs(4)),
        ..Limits::default()
    };
    assert_eq!(*rule.limits, expected);
    assert_eq!(
        rule.backends[0].limits.connect_timeout,
        expected.connect_timeout
    );
    // Policies of the nearer targets do not apply to another rule of the same object, or to another
    // object.
    let mut other = route("shop", 1, "/other", Vec::new());
    http_rule(&mut other).name = None;
    model.insert(other.into());
    model.insert(route("else", 0, "/else", Vec::new()).into());
    let snapshot = compile(&model);
    let timeouts = |path| {
        let limits = super::rule(&snapshot, "a", path)
            .expect("a rule")
            .limits
            .clone();
        [limits.write_idle_timeout, limits.connect_timeout].map(|it| it.map(|it| it.as_secs()))
    };
    assert_eq!(timeouts("/other"), [Some(3), Some(3)]);
    assert_eq!(timeouts("/else"), [Some(2), Some(2)]);
}

#[test]
fn a_listener_set_policy_ranks_between_gateway_and_listener() {
    let name = ObjectName::new("app", "set");
    let key = |section| ListenerKey::new("ListenerSet", &name, section);
    let mut model = model();
    for section in ["one", "two"] {
        let hostname = format!("{section}.example.com");
        let mut of_set = listener(section, Some(&hostname));
        of_set.key = key(section);
        let mut shop = route(section, 0, "/", Vec::new());
        shop.attachments = attachment(&key(section), &[]).into();
        model.insert(of_set.into());
        model.insert(shop.into());
    }
    model.insert(route("plain", 0, "/", Vec::new()).into());
    let write_idle_timeout = |seconds| {
        limits(model::Limits {
            write_idle_timeout: Some(Timeout::After(Duration::from_secs(seconds))),
            ..model::Limits::default()
        })
    };
    let targets = [
        PolicyTarget::Gateway(gateway()),
        PolicyTarget::ListenerSet(name.clone()),
        PolicyTarget::Listener(key("two")),
    ];
    for (seconds, target) in (1..).zip(targets) {
        model.insert(policy(&seconds.to_string(), target, write_idle_timeout(seconds)).into());
    }
    let snapshot = compile(&model);
    let seconds = |host| {
        let rule = rule(&snapshot, host, "/").expect("a rule");
        rule.limits.write_idle_timeout.map(|it| it.as_secs())
    };
    assert_eq!(seconds("a"), Some(1));
    assert_eq!(seconds("one.example.com"), Some(2));
    assert_eq!(seconds("two.example.com"), Some(3));
}

#[test]
fn access_log_policies_have_the_same_precedence() {
    let log = |format, off| {
        let access_log = model::AccessLog {
            off,
            format,
            ..options().access_log
        };
        PolicySpec {
            access_log: Some(access_log),
            ..PolicySpec::default()
        }
    };
    let mut model = model();
    model.insert(route("shop", 0, "/", Vec::new()).into());
    model.insert(route("quiet", 0, "/quiet", Vec::new()).into());
    let everywhere = PolicyTarget::Gateway(gateway());
    model.insert(policy("a", everywhere, log(LogFormat::Json, false)).into());
    let quiet = PolicyTarget::Route {
        kind: "HTTPRoute".to_owned(),
        object: host("quiet"),
    };
    model.insert(policy("b", quiet, log(LogFormat::Text, true)).into());
    let snapshot = compile(&model);
    let of = |path| &rule(&snapshot, "a", path).expect("a rule").access_log;
    assert_eq!((of("/").format, of("/").off), (LogFormat::Json, false));
    assert!(of("/quiet").off);
    assert_eq!(
        bind(&snapshot)
            .listeners
            .first()
            .expect("a listener")
            .access_log
            .format,
        LogFormat::Json
    );
}

#[test]
fn connection_settings_come_from_gateway_and_listener_policies() {
    let mut model = model();
    model.insert(listener("narrow", Some("a.example.com")).into());
    let trust = |hops| PolicySpec {
        trust: NonZeroU32::new(hops).map(model::Trust::Hops),
        ..PolicySpec::default()
    };
    let merge = PolicySpec {
        path_options: Some(model::PathOptions {
            merge_slashes: true,
            escaped_slash: model::EscapedSlash::Reject,
        }),
        ..PolicySpec::default()
    };
    let narrow = PolicyTarget::Listener(listener("narrow", None).key);
    let wide = PolicyTarget::Listener(listener("http", None).key);
    model.insert(policy("a", PolicyTarget::Gateway(gateway()), merge).into());
    model.insert(policy("b", narrow, trust(3)).into());
    let hops = |model: &Model| bind(&compile(model)).trust.clone();
    assert_eq!(hops(&model), TrustedHops::Last(3));
    // The wider listener gets unknown hosts.
    model.insert(policy("c", wide, trust(1)).into());
    assert_eq!(hops(&model), TrustedHops::Last(1));
    assert!(bind(&compile(&model)).path_options.merge_slashes);
}

#[test]
fn of_overriding_connection_settings_those_of_the_wider_target_hold() {
    let (defaults, overrides) = (model::Precedence::Defaults, model::Precedence::Overrides);
    let mut model = model();
    model.insert(listener("narrow", Some("a.example.com")).into());
    let trust = |hops, precedence| PolicySpec {
        trust: NonZeroU32::new(hops).map(model::Trust::Hops),
        precedence,
        ..PolicySpec::default()
    };
    let of_listener = |name| PolicyTarget::Listener(listener(name, None).key);
    let hops = |model: &Model| bind(&compile(model)).trust.clone();
    for (name, target, precedence, expected) in [
        ("a", of_listener("http"), defaults, 1),
        ("b", of_listener("narrow"), overrides, 2),
        ("c", of_listener("http"), overrides, 3),
        ("d", PolicyTarget::Gateway(gateway()), defaults, 3),
        ("e", PolicyTarget::Gateway(gateway()), overrides, 5),
    ] {
        let hops_of = u32::from(name.as_bytes()[0] - b'a') + 1;
        model.insert(policy(name, target, trust(hops_of, precedence)).into());
        assert_eq!(hops(&model), TrustedHops::Last(expected), "with {name}");
    }
}

#[test]
fn sockets_take_no_settings_from_policies_of_listener_sets() {
    let set = ObjectName::new("tenant", "set");
    let mut more = listener("more", Some("tenant.example.com"));
    more.key = ListenerKey::new("ListenerSet", &set, "more");
    let settings = |hops, merge_slashes| PolicySpec {
        trust: NonZeroU32::new(hops).map(model::Trust::Hops),
        path_options: Some(model::PathOptions {
            merge_slashes,
            escaped_slash: model::EscapedSlash::Keep,
        }),
        proxy_protocol: Some(model::ProxyProtocolIn {
            mode: model::ProxyProtocolMode::Required,
            trusted_sources: Vec::new(),
        }),
        access_log: Some(model::AccessLog {
            off: true,
            ..options().access_log
        }),
        limits: model::Limits {
            http2_streams: NonZeroU32::new(1),
            ..model::Limits::default()
        },
        ..PolicySpec::default()
    };
    let mut model = model();
    model.insert(more.clone().into());
    let plain = compile(&model);
    let target = PolicyTarget::ListenerSet(set);
    model.insert(policy("a", target, settings(5, true)).into());
    let target = PolicyTarget::Listener(more.key.clone());
    model.insert(policy("b", target, settings(6, true)).into());
    let snapshot = compile(&model);
    let (bind, before) = (bind(&snapshot), bind(&plain));
    assert_eq!(bind.trust, before.trust);
    assert_eq!(bind.limits, before.limits);
    assert_eq!(bind.proxy_protocol, before.proxy_protocol);
    assert_eq!(bind.path_options, before.path_options);
    assert!(!bind.access_log.off, "of requests that no listener serves");
    let own = bind.listeners.iter().find(|it| it.key == more.key);
    assert!(
        own.expect("its listener").access_log.off,
        "of its own requests"
    );
}

#[test]
fn no_nearer_policy_lifts_an_invalid_one() {
    let mut model = model();
    model.insert(route("shop", 0, "/", vec![(target("web", 80), 1)]).into());
    model.insert(route("other", 0, "/other", vec![(target("closed", 80), 1)]).into());
    let refused_by = |model: &Model, path| {
        let snapshot = compile(model);
        let rule = rule(&snapshot, "a", path).expect("a rule");
        rule.refused_by().map(str::to_owned)
    };
    let invalid = || PolicySpec {
        is_invalid: true,
        ..PolicySpec::default()
    };
    let everywhere = PolicyTarget::Gateway(gateway());
    model.insert(policy("broken", everywhere.clone(), invalid()).into());
    let shop = PolicyTarget::Route {
        kind: "HTTPRoute".to_owned(),
        object: host("shop"),
    };
    model.insert(
        policy(
            "own",
            shop,
            jwt("https://a.test", JwtKeys::Inline("{}".into())),
        )
        .into(),
    );
    for path in ["/", "/other"] {
        let name = policy("broken", everywhere.clone(), invalid()).key;
        let name = name
            .as_str()
            .split('/')
            .take(3)
            .collect::<Vec<_>>()
            .join("/");
        assert_eq!(refused_by(&model, path), Some(name), "{path}");
    }
    // One of a Service closes nothing else.
    let mut model = self::model();
    model.insert(route("shop", 0, "/", vec![(target("web", 80), 1)]).into());
    model.insert(route("other", 0, "/other", vec![(target("closed", 80), 1)]).into());
    let closed = PolicyTarget::Service(service("closed", &[80]).key);
    model.insert(policy("broken", closed, invalid()).into());
    assert_eq!(refused_by(&model, "/other"), None);
    let snapshot = compile(&model);
    let of = |path| {
        let backends = &rule(&snapshot, "a", path).expect("a rule").backends;
        backends[0].refused_by().is_some()
    };
    assert_eq!([of("/"), of("/other")], [false, true]);
}

#[test]
fn a_retry_constraint_replaces_the_budget_and_shards_share_its_minimum_rate() {
    let rate = |count| RetryRate {
        count: NonZeroU32::new(count).expect("a count"),
        interval: Duration::from_secs(1),
    };
    let constraint = |count| RetryConstraint {
        percent: 30,
        interval: Duration::from_secs(10),
        min_rate: rate(count),
    };
    let mut model = model();
    model.insert(service("web", &[80]).into());
    model.insert(route("shop", 0, "/", vec![(target("web", 80), 1)]).into());
    let own = PolicyTarget::Service(service("web", &[]).key);
    let budget = PolicySpec {
        retry_budget: Some(RETRY_BUDGET),
        ..PolicySpec::default()
    };
    model.insert(policy("a", own.clone(), budget).into());
    let constrained = PolicySpec {
        retry_constraint: Some(constraint(10)),
        ..PolicySpec::default()
    };
    model.insert(policy("b", own, constrained).into());
    let snapshot = compile(&model);
    let limit = &cluster(&snapshot, "Service/app/web:80").retry_limit;
    assert_eq!(
        *limit,
        RetryLimit::Rate(Arc::new(constraint(3))),
        "of four shards"
    );
}

#[test]
fn a_service_may_only_tighten_the_limits_of_connections_that_a_gateway_enforces() {
    for (enforced, expected) in [(5, 5), (500, 10)] {
        let spec = |most, precedence| PolicySpec {
            precedence,
            limits: model::Limits {
                endpoint_connections: NonZeroU32::new(most),
                ..model::Limits::default()
            },
            ..PolicySpec::default()
        };
        let mut model = model();
        model.insert(service("own", &[80]).into());
        model.insert(route("shop", 0, "/", vec![(target("own", 80), 1)]).into());
        let everywhere = PolicyTarget::Gateway(gateway());
        let enforcing = spec(enforced, model::Precedence::Overrides);
        model.insert(policy("a", everywhere, enforcing).into());
        let own = PolicyTarget::Service(service("own", &[]).key);
        let of_service = spec(10, model::Precedence::Defaults);
        model.insert(policy("b", own, of_service).into());
        let snapshot = compile(&model);
        let own = cluster(&snapshot, "Service/app/own:80");
        assert_eq!(own.endpoint_connections, Some(expected));
    }
}

#[test]
fn upstream_policies_apply_to_a_cluster_by_service_or_by_gateway() {
    let ejection = Ejection {
        max_percent: 10,
        ..EJECTION
    };
    let budget = |percent| RetryBudget { percent, floor: 1 };
    let limit = |percent| RetryLimit::InFlight(budget(percent));
    let upstream = |percent, ejection| PolicySpec {
        retry_budget: Some(budget(percent)),
        ejection,
        limits: model::Limits {
            upstream_connections: NonZeroU32::new(percent),
            ..model::Limits::default()
        },
        ..PolicySpec::default()
    };
    let mut model = model();
    for name in ["web", "own", "unused"] {
        model.insert(service(name, &[80]).into());
    }
    let both = vec![(target("web", 80), 1), (target("own", 80), 1)];
    model.insert(route("shop", 0, "/", both).into());
    let everywhere = PolicyTarget::Gateway(gateway());
    model.insert(policy("a", everywhere, upstream(40, Some(ejection))).into());
    let own = PolicyTarget::Service(service("own", &[]).key);
    model.insert(policy("b", own, upstream(50, None)).into());
    let snapshot = compile(&model);
    let of = |name| cluster(&snapshot, name);
    assert_eq!(of("Service/app/web:80").retry_limit, limit(40));
    assert_eq!(of("Service/app/web:80").connections_per_shard.get(), 10);
    assert_eq!(of("Service/app/own:80").retry_limit, limit(50));
    assert_eq!(of("Service/app/own:80").connections_per_shard.get(), 13);
    assert_eq!(*of("Service/app/own:80").set.ejection(), ejection);
    assert_eq!(
        of("Service/app/unused:80").retry_limit,
        RetryLimit::InFlight(RETRY_BUDGET)
    );
    assert_eq!(*of("Service/app/unused:80").set.ejection(), EJECTION);
}

#[test]
fn a_backends_response_timeout_overrides_the_rules() {
    let with_timeout = |seconds| {
        limits(model::Limits {
            response_head_timeout: Some(Timeout::After(Duration::from_secs(seconds))),
            ..model::Limits::default()
        })
    };
    let mut model = model();
    model.insert(service("web", &[80]).into());
    model.insert(service("slow", &[80]).into());
    let both = vec![(target("web", 80), 1), (target("slow", 80), 1)];
    model.insert(route("shop", 0, "/", both).into());
    model.insert(policy("a", PolicyTarget::Gateway(gateway()), with_timeout(3)).into());
    let slow = PolicyTarget::Service(service("slow", &[]).key);
    model.insert(policy("b", slow, with_timeout(60)).into());
    let snapshot = compile(&model);
    let backends = &rule(&snapshot, "a", "/").expect("a rule").backends;
    let seconds = backends
        .iter()
        .map(|it| it.limits.response_head_timeout.map(|it| it.as_secs()));
    assert_eq!(seconds.collect::<Vec<_>>(), [Some(3), Some(60)]);
}
