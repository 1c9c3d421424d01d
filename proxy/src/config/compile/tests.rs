//! What a model comes to, seen from the request path.

mod sample;

use std::num::NonZeroU32;
use std::time::Duration;

use http::HeaderMap;
use xds::model::{
    self, Ejection, Health, HostAddress, Hostname, Hosts, InvalidBackend, LogFormat, Model,
    PolicySpec, PolicyTarget, RetryBudget, Target, Timeout, Transport,
};

use self::sample::{
    backend, gateway, host, limits, listener, mirror, model, policy, route, service, target,
    workload,
};
use super::{CompileOptions, Compiler};
use crate::config::dns::Resolved;
use crate::config::{Address, Bind, Cluster, Rule, Snapshot};
use crate::limits::{EJECTION, Limits, RETRY_BUDGET};
use crate::route::{RegexCache, RequestView};

fn options() -> CompileOptions {
    CompileOptions::new(NonZeroU32::new(4).expect("not zero"))
}

fn compile(model: &Model) -> Snapshot {
    Compiler::default().compile(model, &Resolved::default(), &options())
}

/// The rule that serves a path of a host.
fn rule<'a>(snapshot: &'a Snapshot, host: &str, path: &str) -> Option<&'a Rule> {
    let listener = bind(snapshot).listener(host.as_bytes())?;
    let view = RequestView {
        host: host.as_bytes(),
        path: path.as_bytes(),
        query: None,
        method: b"GET",
        headers: &HeaderMap::new(),
    };
    let selected = listener.router.select(&view, &mut RegexCache::default())?;
    listener.rules.get(selected.route as usize)
}

fn bind(snapshot: &Snapshot) -> &Bind {
    snapshot.bind(0).expect("a bind")
}

fn cluster<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Cluster {
    let found = snapshot
        .clusters
        .iter()
        .find(|cluster| &*cluster.name == name);
    found.expect("a cluster of this name")
}

fn addresses(cluster: &Cluster) -> Vec<String> {
    let mut names: Vec<_> = cluster
        .endpoints
        .iter()
        .map(|it| it.name.to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn a_request_finds_listener_rule_backend_and_endpoints() {
    let mut model = model();
    model.insert(service("web", &[80, 81]).into());
    model.insert(workload("a", "10.0.0.1", Health::Ready, "web", 80, 8080).into());
    model.insert(workload("b", "10.0.0.2", Health::Ready, "web", 80, 8080).into());
    model.insert(workload("c", "10.0.0.3", Health::NotReady, "web", 80, 8080).into());
    model.insert(route("shop", 2, "/shop", vec![(target("web", 80), 1)]).into());

    let snapshot = compile(&model);
    assert_eq!(bind(&snapshot).address.to_string(), "0.0.0.0:8080");
    let rule = rule(&snapshot, "a.example.com", "/shop/cart").expect("a rule");
    assert_eq!(&*rule.name, "HTTPRoute/app/shop/2");
    let cluster = snapshot.cluster(rule.backends[0].cluster.expect("a valid backend"));
    assert_eq!(&*cluster.name, "Service/app/web:80");
    assert_eq!(
        addresses(cluster),
        ["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"]
    );
    assert_eq!(cluster.set.serving().len(), 2);
    for endpoint in &cluster.endpoints {
        assert_eq!(
            cluster.endpoint(endpoint.id).map(|it| &it.name),
            Some(&endpoint.name)
        );
    }
    assert_eq!(
        addresses(super::tests::cluster(&snapshot, "Service/app/web:81")),
        [""; 0]
    );
}

#[test]
fn a_workload_listed_twice_counts_once_in_its_better_state() {
    let mut model = model();
    model.insert(service("web", &[80]).into());
    model.insert(workload("a", "10.0.0.1", Health::NotReady, "web", 80, 8080).into());
    model.insert(workload("b", "10.0.0.1", Health::Ready, "web", 80, 8080).into());
    let snapshot = compile(&model);
    let cluster = cluster(&snapshot, "Service/app/web:80");
    assert_eq!(addresses(cluster), ["10.0.0.1:8080"]);
    assert_eq!(cluster.set.serving().len(), 1);
}

#[test]
fn the_listener_of_a_host_is_the_most_specific_one() {
    let mut model = model();
    for (name, hostname) in [
        ("wild", Some("*.example.com")),
        ("deep", Some("*.b.example.com")),
        ("exact", Some("a.example.com")),
    ] {
        model.insert(listener(name, hostname).into());
    }
    let snapshot = compile(&model);
    let bind = bind(&snapshot);
    let names: Vec<&str> = bind
        .listeners
        .iter()
        .map(|listener| &*listener.name)
        .collect();
    assert_eq!(names, ["exact", "deep", "wild", "http"]);
    for (host, name) in [
        ("a.example.com", "exact"),
        ("x.b.example.com", "deep"),
        ("c.example.com", "wild"),
        ("other", "http"),
    ] {
        let found = bind
            .listener(host.as_bytes())
            .expect("every host is served");
        assert_eq!(&*found.name, name, "{host}");
    }
}

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
        let limits = super::tests::rule(&snapshot, "a", path)
            .expect("a rule")
            .limits;
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
    use crate::policy::forwarded::TrustedHops;
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

#[test]
fn what_does_not_resolve_keeps_its_share() {
    let mut model = model();
    model.insert(service("web", &[80]).into());
    let gone = Target::Invalid(InvalidBackend::NotPermitted);
    let backends = vec![(target("web", 80), 3), (gone, 1), (target("web", 99), 2)];
    model.insert(route("shop", 0, "/", backends).into());
    let snapshot = compile(&model);
    let rule = rule(&snapshot, "a", "/").expect("a rule");
    assert_eq!(rule.draw, crate::upstream::balance::Draw::new(&[3, 1, 2]));
    let clusters = rule
        .backends
        .iter()
        .map(|backend| backend.cluster.map(|it| it.0));
    let expected = [
        Ok(0),
        Err(InvalidBackend::NotPermitted),
        Err(InvalidBackend::NotFound),
    ];
    assert_eq!(clusters.collect::<Vec<_>>(), expected);
}

#[test]
fn mirrors_know_their_clusters() {
    let mut model = model();
    model.insert(service("web", &[80]).into());
    model.insert(service("copy", &[80]).into());
    let mut shop = route("shop", 0, "/", vec![(target("web", 80), 1)]);
    shop.rule.filters.mirrors.push(mirror(target("copy", 80)));
    shop.rule.backends[0]
        .filters
        .mirrors
        .push(mirror(target("none", 80)));
    model.insert(shop.into());
    let snapshot = compile(&model);
    let backend = &rule(&snapshot, "a", "/").expect("a rule").backends[0];
    let first = backend.mirrors[0].map(|it| &*snapshot.cluster(it).name);
    assert_eq!(first, Ok("Service/app/copy:80"));
    assert_eq!(backend.mirrors[1], Err(InvalidBackend::NotFound));
    assert_eq!(backend.policy.as_ref().map(|it| it.mirrors.len()), Some(2));
}

#[test]
fn timeouts_session_and_retry_arrive_at_the_rule() {
    let mut model = model();
    let mut shop = route("shop", 0, "/", Vec::new());
    shop.rule.timeouts.request = Timeout::After(Duration::from_secs(9));
    shop.rule.session = Some(model::SessionPersistence {
        token: model::SessionToken::Header(http::HeaderName::from_static("x-session")),
        absolute_timeout: None,
        idle_timeout: None,
    });
    shop.rule.retry = Some(model::Retry {
        attempts: 2,
        codes: Vec::new(),
        backoff: None,
    });
    let mut forever = route("forever", 0, "/forever", Vec::new());
    forever.rule.timeouts.request = Timeout::Never;
    model.insert(shop.clone().into());
    model.insert(forever.into());
    let snapshot = compile(&model);
    let shop_rule = rule(&snapshot, "a", "/").expect("a rule");
    assert_eq!(shop_rule.request_timeout, Some(Duration::from_secs(9)));
    assert_eq!(
        (shop_rule.backend_timeout, shop_rule.waits_forever),
        (None, false)
    );
    assert_eq!(
        (&shop_rule.session, &shop_rule.retry),
        (&shop.rule.session, &shop.rule.retry)
    );
    let forever = rule(&snapshot, "a", "/forever").expect("a rule");
    assert_eq!(
        (forever.request_timeout, forever.waits_forever),
        (None, true)
    );
}

#[test]
fn backends_are_static_named_or_sockets() {
    let name = |text: &str| Hostname::parse(text).expect("a name");
    let fixed = |address, weight| model::Host {
        address,
        port: std::num::NonZeroU16::new(8080).expect("not zero"),
        weight: NonZeroU32::new(weight).expect("not zero"),
    };
    let ip = |text: &str| HostAddress::Ip(text.parse().expect("an address"));
    let hosts = Hosts::Static(vec![
        fixed(ip("10.0.0.1"), 2),
        fixed(HostAddress::Name(name("one.test")), 3),
        fixed(HostAddress::Name(name("unknown.test")), 1),
    ]);
    let dns = Hosts::Dns {
        name: name("many.test"),
        port: std::num::NonZeroU16::new(81).expect("not zero"),
        refresh: None,
    };
    let mut model = model();
    model.insert(backend("fixed", hosts).into());
    model.insert(backend("named", dns).into());
    model.insert(
        backend(
            "socket",
            Hosts::Unix {
                path: "/run/app.sock".into(),
            },
        )
        .into(),
    );

    let mut resolved = Resolved::default();
    let answers = |texts: &[&str]| {
        texts
            .iter()
            .map(|it| it.parse().expect("an address"))
            .collect()
    };
    // The second address of a listed host plays no part; its first one is listed already.
    assert!(resolved.insert(&name("one.test"), answers(&["10.0.0.9", "10.0.0.1"])));
    assert!(resolved.insert(
        &name("many.test"),
        answers(&["10.0.1.2", "10.0.1.1", "10.0.1.1"])
    ));
    let snapshot = Compiler::default().compile(&model, &resolved, &options());
    let fixed = cluster(&snapshot, "Backend/app/fixed");
    assert_eq!(addresses(fixed), ["10.0.0.1:8080"]);
    assert_eq!(fixed.set.serving()[0].weight.get(), 5);
    let named = cluster(&snapshot, "Backend/app/named");
    assert_eq!(addresses(named), ["10.0.1.1:81", "10.0.1.2:81"]);
    let socket = &cluster(&snapshot, "Backend/app/socket").endpoints[0];
    assert_eq!(socket.address, Address::Unix("/run/app.sock".into()));
    assert_eq!(&*socket.name, "unix:/run/app.sock");
}

#[test]
fn ids_stay_over_changes_and_are_not_reused_before_they_are_released() {
    let compile = |compiler: &mut Compiler, names: &[&str]| {
        let mut model = model();
        for name in names {
            model.insert(service(name, &[80]).into());
            model.insert(workload(name, "10.0.0.1", Health::Ready, name, 80, 80).into());
        }
        let snapshot = compiler.compile(&model, &Resolved::default(), &options());
        let ids = snapshot
            .clusters
            .iter()
            .map(|it| (it.id, it.endpoints[0].id));
        ids.collect::<Vec<_>>()
    };
    let mut compiler = Compiler::default();
    let first = compile(&mut compiler, &["a", "b"]);
    let second = compile(&mut compiler, &["b", "c"]);
    assert_eq!(first[1], second[0]);
    assert_eq!((second[1].0.index, second[1].0.generation), (2, 0));
    // Somebody still has the first snapshot.
    compiler.release(1);
    let third = compile(&mut compiler, &["b", "d"]);
    assert_eq!((third[1].0.index, third[1].0.generation), (3, 0));
    compiler.release(3);
    let fourth = compile(&mut compiler, &["b", "e"]);
    assert_eq!(fourth[0], first[1]);
    assert_eq!(fourth[1].0.generation, 1);
    assert!([0, 2].contains(&fourth[1].0.index));
    assert_eq!(fourth[1].1.generation, 1);
}

#[test]
fn a_bind_keeps_its_id_and_never_gets_another_s() {
    let bind = |port| model::Bind {
        key: model::BindKey::new(Transport::Tcp, port, &gateway()),
        address: std::net::Ipv4Addr::UNSPECIFIED.into(),
        port: std::num::NonZeroU16::new(port).expect("not zero"),
        transport: Transport::Tcp,
        gateway: gateway(),
    };
    let mut compiler = Compiler::default();
    let mut ids = |ports: &[u16]| {
        let mut model = Model::default();
        for port in ports {
            model.insert(bind(*port).into());
        }
        let snapshot = compiler.compile(&model, &Resolved::default(), &options());
        let ports = snapshot.binds.iter();
        ports
            .map(|bind| bind.as_ref().map(|bind| bind.address.port()))
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&[80, 90]), [Some(80), Some(90)]);
    assert_eq!(ids(&[90, 100]), [None, Some(90), Some(100)]);
    assert_eq!(ids(&[80]), [Some(80), None, None]);
}

#[test]
fn what_hangs_on_nothing_is_left_out() {
    let mut lost = route("lost", 0, "/", Vec::new());
    lost.listener = listener("none", None).key;
    let mut model = model();
    model.insert(lost.into());
    model.insert(workload("a", "10.0.0.1", Health::Ready, "none", 80, 80).into());
    let snapshot = compile(&model);
    assert!(rule(&snapshot, "a", "/").is_none());
    assert!(snapshot.clusters.is_empty());
}
