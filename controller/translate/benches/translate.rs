//! How long a translation takes: routes of one Gateway, and Services with two endpoints each.

use criterion::{Criterion, criterion_group, criterion_main};
use translate::files::{Source, admit};
use translate::{Options, Store, translate};

/// As in the binaries.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn routes(criterion: &mut Criterion) {
    for (routes, services) in [(500, 1), (5_000, 1), (5_000, 5_000)] {
        let store = store(routes, services);
        let options = Options::machine();
        let name = format!("{routes} routes to {services} services");
        criterion.bench_function(&name, |bencher| {
            bencher.iter_with_large_drop(|| translate(&store, &options));
        });
    }
}

fn store(routes: usize, services: usize) -> Store {
    let mut text = GATEWAY.to_owned();
    for number in 0..routes {
        let route = ROUTE.replace("NUMBER", &number.to_string());
        text += &route.replace("TARGET", &(number % services).to_string());
    }
    for number in 0..services {
        text += &SERVICE.replace("NUMBER", &number.to_string());
    }
    let admitted = admit(&[Source::new("bench.yaml", text)]);
    assert!(
        admitted.findings.is_empty(),
        "{:?}",
        admitted.findings.first()
    );
    let objects = admitted.objects.into_iter();
    objects.map(|(object, _)| object).collect()
}

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gateway}
spec:
  gatewayClassName: gateway
  listeners:
  - {name: http, port: 8080, protocol: HTTP, hostname: '*.example.com'}
";

const ROUTE: &str = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route-NUMBER}
spec:
  parentRefs: [{name: gateway}]
  hostnames: [host-NUMBER.example.com]
  rules:
  - matches:
    - {path: {type: PathPrefix, value: /api}, headers: [{name: version, value: 'two'}]}
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-a, value: b}]}}]
    backendRefs: [{name: service-TARGET, port: 80}]
";

const SERVICE: &str = "
---
apiVersion: v1
kind: Service
metadata: {name: service-NUMBER}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: slice-NUMBER, labels: {kubernetes.io/service-name: service-NUMBER}}
addressType: IPv4
ports: [{name: http, port: 3000}]
endpoints:
- {addresses: [10.0.0.1], conditions: {ready: true}}
- {addresses: [10.0.0.2], conditions: {ready: true}}
";

criterion_group!(benches, routes);
criterion_main!(benches);
