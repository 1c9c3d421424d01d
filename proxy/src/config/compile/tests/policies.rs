//! Which policy has the say where several speak.

use std::num::NonZeroU32;
use std::time::Duration;

use xds::model::{
    self, Ejection, LogFormat, Model, PolicySpec, PolicyTarget, RetryBudget, Timeout,
};

use super::sample::{gateway, host, limits, listener, model, policy, route, service, target};
use super::{bind, cluster, compile, options, rule};
use crate::limits::{EJECTION, Limits, RETRY_BUDGET};
use crate::policy::forwarded::TrustedHops;

#[test]
fn the_nearest_target_wins_each_field() {
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
        let mut said = model::Limits::default();
        for field in &fields[level..] {
            field(&mut said, seconds(level as u64 + 1));
        }
        model.insert(policy(&level.to_string(), target, limits(said)).into());
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
    assert_eq!(rule.limits, expected);
    assert_eq!(rule.backends[0].connect_timeout, expected.connect_timeout);
    // Another rule of the same object, and another object, have no part in the nearer ones.
    let mut other = route("shop", 1, "/other", Vec::new());
    other.rule.name = None;
    model.insert(other.into());
    model.insert(route("else", 0, "/else", Vec::new()).into());
    let snapshot = compile(&model);
    let timeouts = |path| {
        let limits = super::rule(&snapshot, "a", path).expect("a rule").limits;
        [limits.write_idle_timeout, limits.connect_timeout].map(|it| it.map(|it| it.as_secs()))
    };
    assert_eq!(timeouts("/other"), [Some(3), Some(3)]);
    assert_eq!(timeouts("/else"), [Some(2), Some(2)]);
}

#[test]
fn access_logs_follow_the_same_order() {
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
        bind(&snapshot).listeners[0].access_log.format,
        LogFormat::Json
    );
}

#[test]
fn connections_go_by_gateway_and_listener() {
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
    // The wider listener is where everything unknown goes.
    model.insert(policy("c", wide, trust(1)).into());
    assert_eq!(hops(&model), TrustedHops::Last(1));
    assert!(bind(&compile(&model)).path_options.merge_slashes);
}

#[test]
fn upstream_policies_reach_the_cluster_by_its_own_name_or_its_gateway() {
    let ejection = Ejection {
        max_percent: 10,
        ..EJECTION
    };
    let budget = |percent| RetryBudget { percent, floor: 1 };
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
    assert_eq!(of("Service/app/web:80").retry_budget, budget(40));
    assert_eq!(of("Service/app/web:80").connections_per_shard.get(), 10);
    assert_eq!(of("Service/app/own:80").retry_budget, budget(50));
    assert_eq!(of("Service/app/own:80").connections_per_shard.get(), 13);
    assert_eq!(*of("Service/app/own:80").set.ejection(), ejection);
    assert_eq!(of("Service/app/unused:80").retry_budget, RETRY_BUDGET);
    assert_eq!(*of("Service/app/unused:80").set.ejection(), EJECTION);
}

#[test]
fn a_backend_s_own_patience_goes_before_the_rule_s() {
    let patience = |seconds| {
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
    model.insert(policy("a", PolicyTarget::Gateway(gateway()), patience(3)).into());
    let slow = PolicyTarget::Service(service("slow", &[]).key);
    model.insert(policy("b", slow, patience(60)).into());
    let snapshot = compile(&model);
    let backends = &rule(&snapshot, "a", "/").expect("a rule").backends;
    let seconds = backends
        .iter()
        .map(|it| it.response_head_timeout.map(|it| it.as_secs()));
    assert_eq!(seconds.collect::<Vec<_>>(), [Some(3), Some(60)]);
}
