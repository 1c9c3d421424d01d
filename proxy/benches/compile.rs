//! What a change of configuration costs from the model on, at 200 to 100 000 routes: each a rule
//! with two matches and a backend, on one of a hundred listeners, to one of a tenth as many services
//! with three endpoints. Changes are measured with all routes on one listener too.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use proxy::config::compile::{CompileOptions, Compiler};
use proxy::config::dns::Resolved;
use xds::model::{
    Attachment, Attachments, BackendProtocol, Bind, BindKey, Filters, Health, Hostname, HttpMatch,
    HttpRule, Listener, ListenerKey, ListenerProtocol, Model, ObjectName, PathMatch,
    RequestProtocol, Resource, Route, RouteBackend, RouteKey, RouteRule, Serves, Service,
    ServiceKey, ServicePort, SessionAffinity, Target, Timeouts, Transport, Workload, WorkloadKey,
};

const SIZES: [usize; 3] = [200, 5_000, 100_000];
const CHANGED: [usize; 3] = [500, 5_000, 40_000];
const LISTENERS: usize = 100;
/// Where all routes are on one.
const ONE_LISTENER: usize = 1;

fn name(name: &str) -> ObjectName {
    ObjectName::new("default", name)
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("not zero")
}

fn model(routes: usize, listeners: usize) -> Model {
    let mut model = Model::default();
    let bind = BindKey::new(Transport::Tcp, 80, &name("gateway"));
    let bind_resource = Bind {
        key: bind.clone(),
        address: std::net::Ipv4Addr::UNSPECIFIED.into(),
        port: port(80),
        transport: Transport::Tcp,
        gateway: name("gateway"),
    };
    model.insert(bind_resource.into());
    for number in 0..listeners {
        model.insert(listener(number, &bind).into());
    }
    for number in 0..routes.div_ceil(10) {
        add_service(&mut model, number);
    }
    for number in 0..routes {
        model.insert(route(number, listeners).into());
    }
    model
}

fn listener_key(number: usize) -> ListenerKey {
    ListenerKey::new("Gateway", &name("gateway"), &format!("l{number}"))
}

fn listener(number: usize, bind: &BindKey) -> Listener {
    let hostname = Hostname::parse(&format!("*.team-{number}.example.com"));
    Listener {
        key: listener_key(number),
        bind: bind.clone(),
        gateway: name("gateway"),
        name: format!("l{number}"),
        hostname: Some(hostname.expect("a host name")),
        protocol: ListenerProtocol::Http,
        external_auth: Vec::new(),
    }
}

fn service_key(number: usize) -> ServiceKey {
    ServiceKey::new(&name(&format!("service-{number}")))
}

fn add_service(model: &mut Model, number: usize) {
    let service = Service {
        key: service_key(number),
        vips: Vec::new(),
        ports: vec![ServicePort {
            port: port(80),
            transport: Transport::Tcp,
            name: "http".to_owned(),
            protocol: BackendProtocol::Http,
            tls: None,
        }],
        session_affinity: SessionAffinity::None,
    };
    model.insert(service.into());
    for endpoint in 0..3_u8 {
        let [.., high, low] = number.to_be_bytes();
        let address = std::net::Ipv4Addr::new(10, endpoint, high, low);
        let slice = name(&format!("service-{number}-{endpoint}"));
        let workload = Workload {
            key: WorkloadKey::new("EndpointSlice", &slice, &address.to_string()),
            address: address.into(),
            node: None,
            zone: None,
            hints: None,
            health: Health::Ready,
            serves: vec![Serves {
                service: service_key(number),
                port: port(80),
                transport: Transport::Tcp,
                target_port: port(8080),
            }],
        };
        model.insert(workload.into());
    }
}

fn route(number: usize, listeners: usize) -> Route {
    let listener = listener_key(number % listeners);
    let object = name(&format!("route-{number}"));
    let matches = ["exact", "prefix"].map(|kind| {
        let path = format!("/api/v{}/{kind}/{number}", number % 3);
        let path = match kind {
            "exact" => PathMatch::exact(&path),
            _ => PathMatch::prefix(&path),
        };
        HttpMatch {
            path: path.expect("a path"),
            method: None,
            headers: Box::default(),
            query: Box::default(),
        }
    });
    let hostname = Hostname::parse(&format!("app.team-{}.example.com", number % listeners));
    Route {
        key: RouteKey::new("HTTPRoute", &object, 0, &name("gateway")),
        attachments: Attachments::from(Attachment {
            listener,
            hostnames: [hostname.expect("a host name")].into(),
        }),
        created: 0,
        rule: RouteRule::Http(HttpRule {
            protocol: RequestProtocol::Http,
            name: None,
            matches: matches.into(),
            filters: Filters::default(),
            backends: [RouteBackend {
                target: Target::Service {
                    service: service_key(number / 10),
                    port: 80,
                },
                weight: 1,
                filters: Filters::default(),
                session: None,
            }]
            .into(),
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
            invalid: None,
        }),
    }
}

fn compile(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(10);
    group.measurement_time(Duration::from_secs(3));
    for routes in SIZES {
        let model = model(routes, LISTENERS);
        let options = CompileOptions::new(NonZeroU32::new(8).expect("not zero"));
        let mut compiler = Compiler::default();
        let resolved = Resolved::default();
        // As after the first time: ids are known.
        group.bench_function(BenchmarkId::from_parameter(routes), |bencher| {
            bencher.iter(|| compiler.compile(&model, &resolved, &options));
        });
    }
    group.finish();
}

/// One route among so many gets another path, and its first one again.
fn change(criterion: &mut Criterion) {
    for (name, listeners) in [
        ("change", LISTENERS),
        ("change_on_one_listener", ONE_LISTENER),
    ] {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(50);
        for routes in CHANGED {
            let (model, mut compiler) = (model(routes, listeners), Compiler::default());
            let options = CompileOptions::new(NonZeroU32::new(8).expect("not zero"));
            let resolved = Resolved::default();
            compiler.compile(&model, &resolved, &options);
            let forms = ["/changed", "/again"].map(|path| {
                let mut route = route(routes / 2, listeners);
                if let RouteRule::Http(rule) = &mut route.rule {
                    rule.matches[0].path = PathMatch::exact(path).expect("a path");
                }
                let resource = Resource::from(route);
                [(resource.resource_key(), Some(resource))]
            });
            let mut forms = forms.iter().cycle();
            group.bench_function(BenchmarkId::from_parameter(routes), |bencher| {
                bencher.iter(|| {
                    compiler.take(forms.next().expect("it has no end"));
                    compiler.snapshot(&resolved, &options)
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, compile, change);
criterion_main!(benches);
