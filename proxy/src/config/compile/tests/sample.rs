//! Small resources to put models together from. All objects are in namespace `app`, all listeners
//! on one bind of Gateway `app/gw`.

use std::net::Ipv4Addr;
use std::num::NonZeroU16;

use xds::model::{
    Attachment, Backend, BackendKey, BackendProtocol, Bind, BindKey, FilterSet, Filters, Health,
    Hostname, Hosts, HttpMatch, HttpRule, Limits, Listener, ListenerKey, ListenerProtocol, Mirror,
    Model, ObjectName, PathMatch, Policy, PolicyKey, PolicySpec, PolicyTarget, RequestProtocol,
    Route, RouteBackend, RouteKey, RouteRule, Serves, Service, ServiceKey, ServicePort,
    SessionAffinity, Target, Timeouts, Transport, Workload, WorkloadKey,
};

pub(super) fn host(name: &str) -> ObjectName {
    ObjectName::new("app", name)
}

pub(super) fn gateway() -> ObjectName {
    host("gw")
}

/// A bind with listener `http` for every host.
pub(super) fn model() -> Model {
    let mut model = Model::default();
    let bind = Bind {
        key: bind_key(),
        address: Ipv4Addr::UNSPECIFIED.into(),
        port: port(8080),
        transport: Transport::Tcp,
        gateway: gateway(),
    };
    model.insert(bind.into());
    model.insert(listener("http", None).into());
    model
}

fn bind_key() -> BindKey {
    BindKey::new(Transport::Tcp, 80, &gateway())
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("not zero")
}

pub(super) fn listener(name: &str, hostname: Option<&str>) -> Listener {
    Listener {
        key: ListenerKey::new("Gateway", &gateway(), name),
        bind: bind_key(),
        gateway: gateway(),
        name: name.to_owned(),
        hostname: hostname.map(|name| Hostname::parse(name).expect("a host name")),
        protocol: ListenerProtocol::Http,
        external_auth: Vec::new(),
    }
}

/// An attachment to a listener, with these hosts there.
pub(super) fn attachment(listener: &ListenerKey, hostnames: &[&str]) -> Attachment {
    let hostnames = hostnames.iter().map(|host| Hostname::parse(host));
    Attachment {
        listener: listener.clone(),
        hostnames: hostnames.map(|host| host.expect("a host name")).collect(),
    }
}

/// Rule `first` of a route on listener `http`.
pub(super) fn route(name: &str, rule: u16, prefix: &str, backends: Vec<(Target, u32)>) -> Route {
    let listener = listener("http", None).key;
    let backends = backends.into_iter().map(|(target, weight)| RouteBackend {
        target,
        weight,
        filters: Filters::default(),
        session: None,
    });
    Route {
        key: RouteKey::new("HTTPRoute", &host(name), rule, &gateway()),
        attachments: attachment(&listener, &[]).into(),
        created: 0,
        rule: RouteRule::Http(HttpRule {
            protocol: RequestProtocol::Http,
            name: Some("first".into()),
            matches: [HttpMatch {
                path: PathMatch::prefix(prefix).expect("a path"),
                method: None,
                headers: Box::default(),
                query: Box::default(),
            }]
            .into(),
            filters: Filters::default(),
            backends: backends.collect(),
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
            invalid: None,
        }),
    }
}

pub(super) fn target(service: &str, port: u16) -> Target {
    Target::Service {
        service: ServiceKey::new(&host(service)),
        port,
    }
}

/// Filters that send a copy of each request to a target.
pub(super) fn mirror(target: Target) -> Filters {
    let mirror = Mirror {
        target,
        fraction: None,
    };
    let filters = FilterSet {
        mirrors: vec![mirror],
        ..FilterSet::default()
    };
    filters.into()
}

pub(super) fn service(name: &str, ports: &[u16]) -> Service {
    let ports = ports.iter().map(|number| ServicePort {
        port: port(*number),
        transport: Transport::Tcp,
        name: number.to_string(),
        protocol: BackendProtocol::Http,
        tls: None,
    });
    Service {
        key: ServiceKey::new(&host(name)),
        vips: Vec::new(),
        ports: ports.collect(),
        session_affinity: SessionAffinity::None,
    }
}

pub(super) fn workload(
    name: &str,
    address: &str,
    health: Health,
    service: &str,
    number: u16,
    target: u16,
) -> Workload {
    Workload {
        key: WorkloadKey::new("EndpointSlice", &host(name), address),
        address: address.parse().expect("an address"),
        node: None,
        zone: None,
        hints: None,
        health,
        serves: vec![Serves {
            service: ServiceKey::new(&host(service)),
            port: port(number),
            transport: Transport::Tcp,
            target_port: port(target),
        }],
    }
}

pub(super) fn backend(name: &str, hosts: Hosts) -> Backend {
    Backend {
        key: BackendKey::new(&host(name)),
        hosts,
        protocol: BackendProtocol::Http,
        tls: None,
        proxy_protocol: None,
    }
}

/// The rule of a [`route`].
pub(super) fn http_rule(route: &mut Route) -> &mut HttpRule {
    match &mut route.rule {
        RouteRule::Http(rule) => rule,
        other => panic!("{other:?} is not of HTTP"),
    }
}

pub(super) fn policy(name: &str, target: PolicyTarget, spec: PolicySpec) -> Policy {
    Policy {
        key: PolicyKey::new("TrafficPolicy", &host(name), "target"),
        target,
        spec,
    }
}

/// A policy with only limits.
pub(super) fn limits(limits: Limits) -> PolicySpec {
    PolicySpec {
        limits,
        ..PolicySpec::default()
    }
}
