//! Memory of many routes that arrive one by one, each requested once over a connection of its own,
//! measured on the release process:
//!
//! `cargo test --release -p proxy --test controller memory -- --ignored --nocapture`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use translate::Options;
use xds::delta::Encoded;
use xds::model::{Kind, ResourceKey};

use crate::server::{Controller, controller, resources};
use crate::support::{Gateway, Ports, gateway, on_both_drivers, origin, raw};

const ROUTES: usize = 5_000;

/// Bytes that all of them may take: 34.8 MB were measured.
const BAR: u64 = 40_000_000;

/// Memory is settled when it has not changed for longer than the process takes to return it; its code,
/// which does not count here, can take a minute.
const SETTLED: Duration = Duration::from_secs(7);

const TIMEOUT: Duration = Duration::from_mins(3);

/// The resources of a step, of one kind.
type Step = Vec<(ResourceKey, Arc<Encoded>)>;

on_both_drivers! {
    #[ignore = "takes minutes, of the release process"]
    fn routes_that_arrive_one_by_one_use_little_memory(driver) {
        let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let origin = origin().replies(raw(answer).closes());
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver)
            .shards(2)
            .without_rules()
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        let gateway = base.begin(&ports);
        controller.publish(&base, &ports);
        gateway.waits_for_applied(1);
        gateway.client().gets("/").expects(404);
        let before = settled(&gateway);
        for (number, steps) in fleet(&base.yaml(&ports), origin.address().port()) {
            for step in &steps {
                publish(&controller, step);
            }
            let request = format!("GET / HTTP/1.1\r\nHost: app-{number}.example.com\r\n\r\n");
            gateway.client().sends(request).expects(200);
        }
        let used = settled(&gateway).saturating_sub(before);
        eprintln!("{used} bytes for {ROUTES} routes, {before} before");
        assert!(used <= BAR, "{used} bytes");
    }
}

/// Publishes the resources, and waits until they are applied.
fn publish(controller: &Controller, step: &Step) {
    let kind = step[0].0.kind;
    let before = controller.seen().accepted_of(kind);
    controller.publish_more(step);
    controller.waits_until(|seen| seen.accepted_of(kind) > before);
}

/// The routes by number, each as a Service, its endpoints, and itself.
fn fleet(gateway: &str, port: u16) -> BTreeMap<usize, Vec<Step>> {
    let mut yaml = gateway.to_owned();
    for number in 0..ROUTES {
        let route = ROUTE.replace("NAME", &number.to_string());
        let route = route.replace("PORT", &port.to_string());
        yaml.write_str(&route).expect("a string takes everything");
    }
    let mut fleet: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
    for (key, encoded) in resources(&yaml, &Options::machine(), |_| {}) {
        let step = match key.kind {
            Kind::Service => 0,
            Kind::Workload => 1,
            Kind::Route => 2,
            _ => continue,
        };
        let number = key.key.split("app-").nth(1).expect("all have such names");
        let number = number.split(|it: char| !it.is_ascii_digit()).next();
        let number = number.and_then(|it| it.parse().ok()).expect("a number");
        let steps = fleet.entry(number).or_insert_with(|| vec![Step::new(); 3]);
        steps[step].push((key, encoded));
    }
    fleet
}

/// Bytes of memory without the program's pages, once settled.
fn settled(gateway: &Gateway) -> u64 {
    let started = Instant::now();
    let mut last = (gateway.anonymous_bytes(), Instant::now());
    while last.1.elapsed() < SETTLED {
        assert!(started.elapsed() < TIMEOUT, "memory keeps changing");
        std::thread::park_timeout(Duration::from_millis(50));
        let now = gateway.anonymous_bytes();
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    last.0
}

/// A route with a Service of two ports and two endpoints, the second of which is unreachable.
const ROUTE: &str = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app-NAME}
spec:
  hostnames: [app-NAME.example.com]
  parentRefs: [{name: gw}]
  rules: [{backendRefs: [{name: app-NAME, port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: app-NAME}
spec:
  ports: [{name: http, port: 80}, {name: other, port: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: app-NAME-0, labels: {kubernetes.io/service-name: app-NAME}}
addressType: IPv4
ports: [{name: http, port: PORT}, {name: other, port: PORT}]
endpoints: [{addresses: [127.0.0.1]}, {addresses: [127.0.0.2]}]
";
