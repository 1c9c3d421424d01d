//! The compiled form of a model, seen from the request path.

mod api_keys;
mod health_check;
mod incremental;
mod jwt;
mod l4;
mod overrides;
mod policies;
mod sample;
mod session_keys;
mod shared;

use std::num::NonZeroU32;
use std::time::Duration;

use http::HeaderMap;
use xds::model::{
    self, Health, HostAddress, Hostname, Hosts, InvalidBackend, Model, Target, Timeout, Transport,
};

use self::sample::{
    attachment, backend, gateway, http_rule, listener, mirror, model, route, service, target,
    workload,
};
use super::{CompileOptions, Compiler, KeyOrigin};
use crate::config::dns::Resolved;
use crate::config::{Address, Bind, Cluster, Rule, Sessions, Snapshot};
use crate::route::{RegexCache, RequestView};

fn options() -> CompileOptions {
    CompileOptions::new(NonZeroU32::new(4).expect("not zero"))
}

fn compile(model: &Model) -> Snapshot {
    Compiler::default().compile(model, &Resolved::default(), &options())
}

/// The rule that serves a path of a host.
fn rule<'a>(snapshot: &'a Snapshot, host: &str, path: &str) -> Option<&'a Rule> {
    let listener = bind(snapshot).listener(host)?;
    let view = RequestView {
        host: host.as_bytes(),
        path: path.as_bytes(),
        query: None,
        method: b"GET",
        headers: &HeaderMap::new(),
    };
    let selected = listener.router.select(&view, &mut RegexCache::default());
    let selected = selected.expect("little work")?;
    listener.rules.get(selected.route as usize)
}

/// The section name of a listener.
fn section(key: &model::ListenerKey) -> &str {
    key.as_str().rsplit('/').next().unwrap_or_default()
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
        addresses(self::cluster(&snapshot, "Service/app/web:81")),
        [""; 0]
    );
}

#[test]
fn a_duplicate_workload_is_one_endpoint_with_the_better_health() {
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
        .map(|listener| section(&listener.key))
        .collect();
    assert_eq!(names, ["exact", "deep", "wild", "http"]);
    for (host, name) in [
        ("a.example.com", "exact"),
        ("x.b.example.com", "deep"),
        ("c.example.com", "wild"),
        ("other", "http"),
    ] {
        let found = bind.listener(host).expect("every host is served");
        assert_eq!(section(&found.key), name, "{host}");
    }
}

#[test]
fn unresolved_backends_keep_their_weight() {
    let mut model = model();
    model.insert(service("web", &[80]).into());
    let gone = Target::Invalid {
        why: InvalidBackend::NotPermitted,
        reference: "Service/a/none:80".to_owned(),
    };
    let backends = vec![(target("web", 80), 3), (gone, 1), (target("web", 99), 2)];
    model.insert(route("shop", 0, "/", backends).into());
    let snapshot = compile(&model);
    let rule = rule(&snapshot, "a", "/").expect("a rule");
    assert_eq!(rule.draw, crate::config::Draw::new(&[3, 1, 2]));
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
fn mirrors_are_resolved_to_clusters() {
    let mut model = model();
    model.insert(service("web", &[80]).into());
    model.insert(service("copy", &[80]).into());
    let mut shop = route("shop", 0, "/", vec![(target("web", 80), 1)]);
    http_rule(&mut shop).filters = mirror(target("copy", 80));
    http_rule(&mut shop).backends[0].filters = mirror(target("none", 80));
    model.insert(shop.into());
    let snapshot = compile(&model);
    let backend = &rule(&snapshot, "a", "/").expect("a rule").backends[0];
    let first = backend.mirrors()[0].map(|it| &*snapshot.cluster(it).name);
    assert_eq!(first, Ok("Service/app/copy:80"));
    assert_eq!(backend.mirrors()[1], Err(InvalidBackend::NotFound));
    assert_eq!(backend.policy.as_ref().map(|it| it.mirrors.len()), Some(2));
}

#[test]
fn timeouts_session_and_retry_are_compiled_into_the_rule() {
    let mut model = model();
    let mut shop = route("shop", 0, "/", Vec::new());
    http_rule(&mut shop).timeouts.request = Timeout::After(Duration::from_secs(9));
    http_rule(&mut shop).session = Some(Box::new(model::SessionPersistence {
        token: model::SessionToken::Header(http::HeaderName::from_static("x-session")),
        absolute_timeout: None,
        idle_timeout: None,
    }));
    http_rule(&mut shop).retry = Some(Box::new(model::Retry {
        attempts: 2,
        codes: Vec::new(),
        backoff: None,
    }));
    let mut forever = route("forever", 0, "/forever", Vec::new());
    http_rule(&mut forever).timeouts.request = Timeout::Never;
    let wanted = http_rule(&mut shop).clone();
    model.insert(shop.into());
    model.insert(forever.into());
    let snapshot = compile(&model);
    let shop_rule = rule(&snapshot, "a", "/").expect("a rule");
    assert_eq!(shop_rule.request_timeout(), Some(Duration::from_secs(9)));
    assert_eq!(
        (shop_rule.backend_timeout(), shop_rule.waits_forever()),
        (None, false)
    );
    assert_eq!(
        Some(&shop_rule.sessions),
        wanted.session.map(Sessions::OfRule).as_ref()
    );
    assert_eq!(shop_rule.retry, wanted.retry);
    let forever = rule(&snapshot, "a", "/forever").expect("a rule");
    assert_eq!(
        (forever.request_timeout(), forever.waits_forever()),
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
        zone: None,
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
    let responses = |texts: &[&str]| {
        texts
            .iter()
            .map(|it| it.parse().expect("an address"))
            .collect()
    };
    // The second address of a listed host is ignored; its first one is listed already.
    assert!(resolved.insert(&name("one.test"), responses(&["10.0.0.9", "10.0.0.1"])));
    assert!(resolved.insert(
        &name("many.test"),
        responses(&["10.0.1.2", "10.0.1.1", "10.0.1.1"])
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
fn ids_are_stable_and_not_reused_before_their_snapshots_are_released() {
    let compile = |compiler: &mut Compiler, names: &[&str]| {
        let mut model = model();
        for name in names {
            model.insert(service(name, &[80]).into());
            model.insert(workload(name, "10.0.0.1", Health::Ready, name, 80, 80).into());
        }
        let snapshot = compiler.compile(&model, &Resolved::default(), &options());
        let mut clusters: Vec<&Cluster> = snapshot.clusters.iter().collect();
        clusters.sort_by_key(|it| &it.name);
        let ids = clusters.iter().map(|it| (it.id, it.endpoints[0].id));
        ids.collect::<Vec<_>>()
    };
    let mut compiler = Compiler::default();
    let first = compile(&mut compiler, &["a", "b"]);
    let second = compile(&mut compiler, &["b", "c"]);
    assert_eq!(first[1], second[0]);
    assert_eq!((second[1].0.index, second[1].0.generation), (2, 0));
    // The first snapshot is still in use.
    compiler.release(1, &[]);
    let third = compile(&mut compiler, &["b", "d"]);
    assert_eq!((third[1].0.index, third[1].0.generation), (3, 0));
    compiler.release(3, &[]);
    let fourth = compile(&mut compiler, &["b", "e"]);
    assert_eq!(fourth[0], first[1]);
    assert_eq!(fourth[1].0.generation, 1);
    assert!([0, 2].contains(&fourth[1].0.index));
    assert_eq!(fourth[1].1.generation, 1);
}

#[test]
fn an_address_keeps_its_bind_id_across_gateways() {
    let bind = |gateway: &model::ObjectName, port| model::Bind {
        key: model::BindKey::new(Transport::Tcp, port, gateway),
        address: std::net::Ipv4Addr::UNSPECIFIED.into(),
        port: std::num::NonZeroU16::new(port).expect("not zero"),
        transport: Transport::Tcp,
        gateway: gateway.clone(),
    };
    let mut compiler = Compiler::default();
    let mut ids = |gateway: &model::ObjectName, ports: &[u16]| {
        let mut model = Model::default();
        for port in ports {
            model.insert(bind(gateway, *port).into());
        }
        let snapshot = compiler.compile(&model, &Resolved::default(), &options());
        let ports = snapshot.binds.iter();
        ports
            .map(|bind| bind.as_ref().map(|bind| bind.address.port()))
            .collect::<Vec<_>>()
    };
    let (old, new) = (gateway(), model::ObjectName::new("app", "new"));
    assert_eq!(ids(&old, &[80, 90]), [Some(80), Some(90)]);
    assert_eq!(ids(&old, &[90, 100]), [None, Some(90), Some(100)]);
    assert_eq!(ids(&new, &[80]), [Some(80), None, None]);
}

#[test]
fn resources_without_a_parent_are_ignored() {
    let mut lost = route("lost", 0, "/", Vec::new());
    lost.attachments = attachment(&listener("none", None).key, &[]).into();
    let mut model = model();
    model.insert(lost.into());
    model.insert(workload("a", "10.0.0.1", Health::Ready, "none", 80, 80).into());
    let snapshot = compile(&model);
    assert!(rule(&snapshot, "a", "/").is_none());
    assert!(snapshot.clusters.is_empty());
}
