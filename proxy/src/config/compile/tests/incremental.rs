//! The compiled form does not depend on the history of a model, and unchanged parts are shared.

mod description;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use xds::model::{
    self, BackendTls, BindKey, Certificate, ErrorPage, ErrorSource, Health, HostAddress, Hostname,
    Hosts, JwksLocation, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider,
    L4Backend, L4Rule, Listener, ListenerKey, Model, NetworkList, NetworkPolicy, ObjectName,
    PageContent, PolicySpec, PolicyTarget, Precedence, PrivateKey, Resource, RouteRule,
    StatusRange, Target, Transport,
};

use self::description::describe;
use super::sample::{
    attachment, backend, gateway, host, http_rule, limits, listener, mirror, policy, route,
    service, target, workload,
};
use super::{Compiler, options};
use crate::config::dns::Resolved;
use crate::config::{Bind, Snapshot};

const VARIANTS: u8 = 3;

/// The resources of the models; each is present in one of its variants, or absent.
const RESOURCES: [fn(u8) -> Resource; 22] = [
    |variant| bind(&gateway(), 80, variant),
    |variant| bind(&other_gateway(), 90, variant),
    |variant| listener("http", (variant > 0).then_some("a.test")).into(),
    |variant| {
        listener(
            "narrow",
            Some(["*.a.test", "*.b.test", "b.test"][usize::from(variant)]),
        )
        .into()
    },
    |variant| second_listener(variant).into(),
    |variant| {
        let to = [
            target("web", 80),
            target("web", 81),
            backend_target("fixed"),
        ];
        let prefix = ["/", "/shop", "/"][usize::from(variant)];
        let mut route = route(
            "shop",
            0,
            prefix,
            vec![(to[usize::from(variant)].clone(), 1)],
        );
        route.created = i64::from(variant);
        route.into()
    },
    |variant| {
        let mut route = route(
            "else",
            0,
            "/",
            vec![(target("copy", 80), u32::from(variant))],
        );
        http_rule(&mut route).filters = mirror(target("web", 80));
        route.into()
    },
    |variant| {
        let mut route = route("shop", 1, "/", vec![(target("web", 80), 1)]);
        let http = listener("http", None).key;
        let listeners = [
            vec![second_key()],
            vec![narrow_key(), http.clone()],
            vec![second_key(), http, narrow_key()],
        ];
        on(&mut route, &listeners[usize::from(variant)]);
        route.into()
    },
    // The same at the listeners where it stays, but for the hosts of one of them.
    |variant| {
        let mut route = route("shop", 2, "/two", vec![(target("web", 80), 1)]);
        let http = listener("http", None).key;
        let attachments = [
            vec![
                attachment(&http, &[]),
                attachment(&narrow_key(), &["x.b.test"]),
            ],
            vec![
                attachment(&http, &[]),
                attachment(&narrow_key(), &["x.b.test", "b.test"]),
            ],
            vec![attachment(&second_key(), &[]), attachment(&http, &[])],
        ];
        route.attachments = attachments[usize::from(variant)].iter().cloned().collect();
        route.into()
    },
    |variant| {
        let mut route = route("bytes", 0, "/", Vec::new());
        route.created = i64::from(variant);
        route.rule = RouteRule::Tcp(L4Rule {
            name: None,
            backends: vec![L4Backend {
                target: target("copy", 80),
                weight: 1,
            }],
        });
        on(&mut route, &[second_key()]);
        route.into()
    },
    |variant| service("web", [&[80][..], &[80, 81], &[81]][usize::from(variant)]).into(),
    |variant| {
        let mut service = service("copy", &[80]);
        service.ports[0].tls = (variant > 0).then(|| Box::new(BackendTls::Invalid));
        service.into()
    },
    |variant| workload("a", "10.0.0.1", health(variant), "web", 80, 8080).into(),
    |variant| workload("b", "10.0.0.1", health(2 - variant), "web", 80, 8080).into(),
    |variant| {
        workload(
            "c",
            "10.0.0.2",
            Health::Ready,
            "web",
            80 + u16::from(variant),
            1,
        )
        .into()
    },
    |variant| {
        let address = match variant {
            0 => HostAddress::Ip([10, 1, 0, 1].into()),
            1 => HostAddress::Ip([10, 1, 0, 2].into()),
            _ => HostAddress::Name(Hostname::parse("one.test").expect("a host name")),
        };
        let mut backend = backend(
            "fixed",
            Hosts::Static(vec![model::Host {
                address,
                port: 80.try_into().expect("not zero"),
                weight: 1.try_into().expect("not zero"),
                zone: None,
            }]),
        );
        backend.tls = (variant == 1).then_some(BackendTls::Invalid);
        backend.into()
    },
    |variant| {
        policy(
            "gateway",
            PolicyTarget::Gateway(gateway()),
            upstream(10, variant),
        )
        .into()
    },
    |variant| {
        let spec = PolicySpec {
            client_certificate: Some(certificate(variant)),
            ..upstream(20, variant)
        };
        policy("other", PolicyTarget::Gateway(other_gateway()), spec).into()
    },
    |variant| {
        let targets = [
            PolicyTarget::Listener(second_key()),
            PolicyTarget::Listener(narrow_key()),
            PolicyTarget::ListenerSet(host("set")),
        ];
        policy(
            "listener",
            targets[usize::from(variant)].clone(),
            upstream(30, variant),
        )
        .into()
    },
    |variant| {
        let kind = "HTTPRoute".to_owned();
        let target = match variant {
            0 => PolicyTarget::Route {
                kind,
                object: host("shop"),
            },
            1 => PolicyTarget::Rule {
                kind,
                object: host("shop"),
                rule: "first".to_owned(),
            },
            _ => PolicyTarget::Route {
                kind,
                object: host("else"),
            },
        };
        policy("route", target, upstream(40, variant)).into()
    },
    |variant| {
        let target = match variant {
            0 => PolicyTarget::Service(model::ServiceKey::new(&host("web"))),
            1 => PolicyTarget::Backend(model::BackendKey::new(&host("fixed"))),
            _ => PolicyTarget::Service(model::ServiceKey::new(&host("copy"))),
        };
        policy("backend", target, upstream(50, variant)).into()
    },
    |variant| policy("jwt", PolicyTarget::Gateway(gateway()), tokens(variant)).into(),
];

fn other_gateway() -> ObjectName {
    host("other")
}

fn bind(gateway: &ObjectName, port: u16, variant: u8) -> Resource {
    let address = [[0, 0, 0, 0], [127, 0, 0, 1], [127, 0, 0, 2]][usize::from(variant)];
    Resource::from(model::Bind {
        key: BindKey::new(Transport::Tcp, port, gateway),
        address: address.into(),
        port: 8080.try_into().expect("not zero"),
        transport: Transport::Tcp,
        gateway: gateway.clone(),
    })
}

pub(super) fn narrow_key() -> ListenerKey {
    listener("narrow", None).key
}

fn second_key() -> ListenerKey {
    ListenerKey::new("ListenerSet", &host("set"), "second")
}

/// A listener of a set that moves from Gateway to Gateway.
fn second_listener(variant: u8) -> Listener {
    let gateway = if variant == 0 {
        gateway()
    } else {
        other_gateway()
    };
    let port = if variant == 0 { 80 } else { 90 };
    Listener {
        key: second_key(),
        bind: BindKey::new(Transport::Tcp, port, &gateway),
        gateway,
        ..listener("second", Some("c.test"))
    }
}

pub(super) fn on(route: &mut model::Route, listeners: &[ListenerKey]) {
    let attachments = listeners.iter().map(|listener| attachment(listener, &[]));
    route.attachments = attachments.collect();
}

fn backend_target(name: &str) -> Target {
    Target::Backend(model::BackendKey::new(&host(name)))
}

fn health(variant: u8) -> Health {
    [Health::Ready, Health::Draining, Health::NotReady][usize::from(variant)]
}

fn certificate(variant: u8) -> Certificate {
    Certificate {
        chain: vec![model::Der::new(&[variant])],
        key: PrivateKey::new(&[variant]),
    }
}

pub(super) fn upstream(base: u32, variant: u8) -> PolicySpec {
    let limits = limits(model::Limits {
        upstream_connections: (base + u32::from(variant)).try_into().ok(),
        ..model::Limits::default()
    });
    let network = ([10, 0, variant, 0].into(), 24);
    PolicySpec {
        networks: (variant > 0).then(|| NetworkPolicy::Lists {
            deny: NetworkList::new([network]),
            allow: None,
        }),
        error_pages: (variant > 0).then(|| vec![page(target("web", 79 + u16::from(variant)))]),
        is_invalid: variant == 0 && base == 10,
        closes_connections: variant == 0 && base == 10,
        precedence: if variant == 2 {
            Precedence::Overrides
        } else {
            Precedence::Defaults
        },
        ..limits
    }
}

/// A page of a server.
fn page(server: Target) -> ErrorPage {
    let all = StatusRange::new(400, 599).expect("statuses");
    ErrorPage {
        statuses: vec![all],
        source: ErrorSource::Any,
        content: PageContent::Server(server),
    }
}

fn tokens(variant: u8) -> PolicySpec {
    let provider = JwtProvider {
        name: "idp".to_owned(),
        issuer: format!("https://{variant}.test"),
        audiences: Vec::new(),
        keys: JwtKeys::Remote {
            location: JwksLocation::Url(format!("https://{}.test/", variant / 2)),
            cache: None,
        },
        from: Vec::new(),
        forward: JwtForward::Strip,
        clock_skew: None,
        expiry: JwtExpiry::Required,
        claims_to_headers: Vec::new(),
    };
    PolicySpec {
        jwt: Some(JwtPolicy {
            mode: JwtMode::Strict,
            realm: None,
            providers: vec![provider],
        }),
        ..PolicySpec::default()
    }
}

/// Every id that a snapshot has, each of its kind.
fn ids(snapshot: &Snapshot) -> Vec<(&'static str, crate::names::Interned)> {
    let mut ids = Vec::new();
    for cluster in snapshot.clusters.iter() {
        ids.push(("cluster", cluster.id));
        ids.extend(cluster.endpoints.iter().map(|it| ("endpoint", it.id)));
    }
    for listener in snapshot
        .binds
        .iter()
        .flatten()
        .flat_map(|it| it.listeners.iter())
    {
        ids.push(("listener", listener.id));
        ids.extend(listener.rules.entries().map(|(_, it)| ("rule", it.id)));
    }
    ids
}

proptest! {
    #[test]
    fn incremental_compilation_equals_compilation_from_scratch(
        steps in prop::collection::vec(
            prop::collection::vec((0..RESOURCES.len(), 0..=VARIANTS), 1..5),
            1..30,
        ),
    ) {
        let (mut model, mut compiler) = (Model::default(), Compiler::default());
        let resolved = Resolved::default();
        for (version, step) in (1_u64..).zip(steps) {
            let before = model.clone();
            for (resource, variant) in step {
                let created = RESOURCES[resource](variant % VARIANTS);
                if let Some(variants) = (variant == VARIANTS).then_some(0..VARIANTS) {
                    for variant in variants {
                        let other = RESOURCES[resource](variant);
                        model.remove(other.kind(), other.key());
                    }
                } else {
                    model.insert(created);
                }
            }
            compiler.take(&before.changes_to(&model));
            let snapshot = compiler.snapshot(&resolved, &options());
            compiler.release(version, &[]);
            let mut scratch = Compiler::default();
            let expected = scratch.compile(&model, &resolved, &options());
            prop_assert_eq!(describe(&snapshot, &compiler), describe(&expected, &scratch));
            let ids = ids(&snapshot);
            let distinct: BTreeSet<_> = ids.iter().collect();
            prop_assert_eq!(distinct.len(), ids.len(), "two things have one id");
        }
        // Nothing remains of removed resources.
        let none = Model::default();
        let snapshot = compiler.compile(&none, &resolved, &options());
        compiler.release(u64::MAX, &[]);
        prop_assert!(snapshot.clusters.is_empty() && ids(&snapshot).is_empty());
        prop_assert!(compiler.is_empty());
    }
}

#[test]
fn unchanged_parts_are_shared() {
    let mut model = super::model();
    model.insert(listener("narrow", Some("*.b.test")).into());
    model.insert(service("web", &[80]).into());
    model.insert(service("copy", &[80]).into());
    let mut other = route("other", 0, "/", vec![(target("copy", 80), 1)]);
    on(&mut other, &[narrow_key()]);
    model.insert(other.into());
    model.insert(route("shop", 0, "/", vec![(target("web", 80), 1)]).into());
    model.insert(route("else", 0, "/else", vec![(target("copy", 80), 1)]).into());
    let (mut compiler, resolved) = (Compiler::default(), Resolved::default());
    let old = compiler.compile(&model, &resolved, &options());
    model.insert(route("shop", 0, "/shop", vec![(target("web", 80), 1)]).into());
    let new = compiler.compile(&model, &resolved, &options());
    for number in 0..2 {
        let clusters = [&old, &new].map(|it| it.clusters.shared(number).expect("a cluster"));
        assert!(Arc::ptr_eq(clusters[0], clusters[1]));
    }
    let [old, new] = [&old, &new].map(|it| it.bind(0).expect("a bind"));
    let listener = |bind: &Bind, host| {
        let at = bind.hosts.find(host).expect("a listener");
        Arc::clone(bind.listeners.shared(at).expect("a listener"))
    };
    let narrow = [old, new].map(|bind| listener(bind, b"x.b.test"));
    assert!(Arc::ptr_eq(&narrow[0], &narrow[1]));
    let http = [old, new].map(|bind| listener(bind, b"a.test"));
    assert!(!Arc::ptr_eq(&http[0], &http[1]));
    let same = http[0].rules.entries().filter(|(number, _)| {
        let rules = [&http[0], &http[1]].map(|it| it.rules.shared(*number).expect("a rule"));
        Arc::ptr_eq(&rules[0].rule, &rules[1].rule)
    });
    let same: Vec<&str> = same.map(|(_, rule)| &*rule.name).collect();
    assert_eq!(same, ["HTTPRoute/app/else/0"]);
}
