//! Dangling references, in a small complete model with parts removed.

use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use std::sync::Arc;

use crate::model::*;

/// A Gateway `a/web` with one listener, and a route that sends requests to service `a/shop`.
fn whole() -> Model {
    let listener = ListenerKey::new("Gateway", &ObjectName::new("a", "web"), "http");
    let service = ServiceKey::new(&ObjectName::new("a", "shop"));
    let mut model = Model::default();
    for resource in gateway(&listener) {
        model.insert(resource);
    }
    for resource in shop(&service) {
        model.insert(resource);
    }
    model.insert(route(&listener, &service).into());
    model
}

/// Changes all resources of a kind.
fn alter<T: Keyed + Clone>(resources: &mut Resources<T>, change: impl Fn(&mut T)) {
    let altered = resources.values().map(|resource| {
        let mut altered = T::clone(resource);
        change(&mut altered);
        Arc::new(altered)
    });
    *resources = altered.collect();
}

fn gateway(listener: &ListenerKey) -> [Resource; 3] {
    let gateway = ObjectName::new("a", "web");
    let bind = Bind {
        key: BindKey::new(Transport::Tcp, PORT.get(), &gateway),
        address: Ipv4Addr::UNSPECIFIED.into(),
        port: PORT,
        transport: Transport::Tcp,
        gateway: gateway.clone(),
    };
    let policy = Policy {
        key: PolicyKey::new("TrafficPolicy", &gateway, listener.as_str()),
        target: PolicyTarget::Listener(listener.clone()),
        spec: PolicySpec::default(),
    };
    let listener = Listener {
        key: listener.clone(),
        bind: bind.key.clone(),
        gateway,
        name: "http".to_owned(),
        hostname: None,
        protocol: ListenerProtocol::Http,
        external_auth: Vec::new(),
    };
    [bind.into(), listener.into(), policy.into()]
}

fn shop(service: &ServiceKey) -> [Resource; 2] {
    let workload = Workload {
        key: WorkloadKey::new("Pod", &ObjectName::new("a", "shop"), "10.0.0.1"),
        address: Ipv4Addr::new(10, 0, 0, 1).into(),
        node: None,
        zone: None,
        hints: None,
        health: Health::Ready,
        serves: vec![Serves {
            service: service.clone(),
            port: PORT,
            transport: Transport::Tcp,
            target_port: PORT,
        }],
    };
    let service = Service {
        key: service.clone(),
        vips: Vec::new(),
        ports: vec![ServicePort {
            port: PORT,
            transport: Transport::Tcp,
            name: String::new(),
            protocol: BackendProtocol::Http,
            tls: None,
        }],
        session_affinity: SessionAffinity::None,
    };
    [service.into(), workload.into()]
}

/// Two backends of it are the same service.
fn route(listener: &ListenerKey, service: &ServiceKey) -> Route {
    let object = ObjectName::new("a", "shop");
    let backend = RouteBackend {
        target: Target::Service {
            service: service.clone(),
            port: PORT.get(),
        },
        weight: 1,
        filters: Filters::default(),
        session: None,
    };
    Route {
        key: RouteKey::new("HTTPRoute", &object, 0, &ObjectName::new("a", "web")),
        attachments: Attachments::from(Attachment {
            listener: listener.clone(),
            hostnames: Arc::default(),
        }),
        created: 0,
        rule: RouteRule::Http(HttpRule {
            name: None,
            protocol: RequestProtocol::Http,
            matches: Box::default(),
            filters: Filters::default(),
            backends: [backend.clone(), backend].into(),
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
            invalid: None,
        }),
    }
}

const PORT: NonZeroU16 = NonZeroU16::MIN;

fn texts(model: &Model) -> Vec<String> {
    model.dangling().iter().map(ToString::to_string).collect()
}

#[test]
fn a_complete_model_has_no_dangling_references() {
    assert_eq!(texts(&whole()), Vec::<String>::new());
}

#[test]
fn children_without_their_parent_are_listed_once() {
    let route = "Route `HTTPRoute/a/shop/0/a/web`";
    let cases = [
        (
            Kind::Bind,
            "tcp/1/a/web",
            vec!["Listener `Gateway/a/web/http` refers to the bind `tcp/1/a/web`".to_owned()],
        ),
        (
            Kind::Listener,
            "Gateway/a/web/http",
            vec![
                format!("{route} refers to the listener `Gateway/a/web/http`"),
                "Policy `TrafficPolicy/a/web/Gateway/a/web/http` refers to the listener \
                 `Gateway/a/web/http`"
                    .to_owned(),
            ],
        ),
        (
            Kind::Service,
            "Service/a/shop",
            vec![
                "Workload `Pod/a/shop/10.0.0.1` refers to the service `Service/a/shop`".to_owned(),
                format!("{route} refers to the service `Service/a/shop`"),
            ],
        ),
    ];
    for (kind, key, expected) in cases {
        let mut model = whole();
        assert!(model.remove(kind, key), "{key}");
        let expected: Vec<String> = expected
            .into_iter()
            .map(|text| format!("{text}, which does not exist"))
            .collect();
        assert_eq!(texts(&model), expected);
    }
}

#[test]
fn references_of_mirrors_and_ports_are_checked() {
    let mut model = whole();
    alter(&mut model.services, |service| {
        service.ports.clear();
    });
    alter(&mut model.routes, |route| {
        let RouteRule::Http(rule) = &mut route.rule else {
            panic!("it is of HTTP");
        };
        rule.backends = Box::default();
        let mirror = Mirror {
            target: Target::Backend(BackendKey::new(&ObjectName::new("a", "copy"))),
            fraction: None,
        };
        let filters = FilterSet {
            mirrors: vec![mirror],
            ..FilterSet::default()
        };
        rule.filters = filters.into();
    });
    let route = "Route `HTTPRoute/a/shop/0/a/web`";
    assert_eq!(
        texts(&model),
        [
            "Workload `Pod/a/shop/10.0.0.1` refers to the tcp port 1 of service `Service/a/shop`, \
             which does not exist"
                .to_owned(),
            format!("{route} refers to the backend `Backend/a/copy`, which does not exist"),
        ]
    );
}

#[test]
fn a_udp_rule_needs_a_udp_port() {
    let mut model = whole();
    let target = Target::Service {
        service: ServiceKey::new(&ObjectName::new("a", "shop")),
        port: PORT.get(),
    };
    let rule = L4Rule {
        name: None,
        backends: vec![L4Backend { target, weight: 1 }],
    };
    alter(&mut model.routes, |route| {
        route.rule = RouteRule::Tcp(rule.clone());
    });
    assert_eq!(texts(&model), Vec::<String>::new());
    alter(&mut model.routes, |route| {
        route.rule = RouteRule::Udp(rule.clone());
    });
    assert_eq!(
        texts(&model),
        [
            "Route `HTTPRoute/a/shop/0/a/web` refers to the udp port 1 of service \
          `Service/a/shop`, which does not exist"
        ]
    );
}

#[test]
fn references_of_jwt_providers_to_backends_are_checked() {
    let mut model = whole();
    let keys = JwtKeys::Remote {
        location: JwksLocation::Backend {
            target: Target::Backend(BackendKey::new(&ObjectName::new("a", "idp"))),
            path: "/certs".to_owned(),
        },
        cache: None,
    };
    alter(&mut model.policies, |policy| {
        policy.spec.jwt = Some(JwtPolicy {
            mode: JwtMode::Strict,
            realm: None,
            providers: vec![JwtProvider {
                name: "idp".to_owned(),
                issuer: "https://idp.example".to_owned(),
                audiences: Vec::new(),
                keys: keys.clone(),
                from: Vec::new(),
                forward: JwtForward::Strip,
                clock_skew: None,
                expiry: JwtExpiry::Required,
                claims_to_headers: Vec::new(),
            }],
        });
    });
    assert_eq!(
        texts(&model),
        [
            "Policy `TrafficPolicy/a/web/Gateway/a/web/http` refers to the backend `Backend/a/idp`, \
          which does not exist"
        ]
    );
}
