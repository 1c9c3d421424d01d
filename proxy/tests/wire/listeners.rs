//! Listeners and Gateways that are added, removed and renamed: no connection is lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    Client, Driver, Gate, Gateway, GatewayBuilder, Origin, Ports, Reply, client, gateway,
    on_both_drivers, origin,
};

/// A gateway with one listener, and the same one with a second listener.
fn with_and_without(driver: Driver, origin: &Origin) -> (GatewayBuilder, GatewayBuilder) {
    let one = gateway(driver).routes_to(origin).shards(2);
    let two = one
        .clone()
        .listener("second")
        .rule_of("second", "{backendRefs: [{@origin}]}");
    (one, two)
}

/// A listener of its own that a Gateway is to have as well, and a route to `added` by it.
fn listener_set(gateway: &str, port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: more}}\n\
         spec: {{parentRef: {{name: {gateway}}}, \
         listeners: [{{name: http, port: {port}, protocol: HTTP}}]}}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: added}}\n\
         spec:\n  parentRefs: [{{group: gateway.networking.k8s.io, kind: ListenerSet, \
         name: more, sectionName: http}}]\n  rules:\n  \
         - {{matches: [{{path: {{value: /added}}}}], \
         backendRefs: [{{group: gateway-system.io, kind: Backend, name: added}}]}}"
    )
}

/// Sends requests over one connection after the other until `over`. The port may be closed, but
/// every accepted connection must get a response.
fn send_requests_until(gateway: &Gateway, listener: usize, over: &AtomicBool) -> usize {
    let mut answers = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok(stream) = std::net::TcpStream::connect(gateway.address_of(listener)) else {
            continue;
        };
        let mut client = Client::over(stream);
        loop {
            let answer = client.gets("/").reads();
            answers += 1;
            assert!([200, 404].contains(&answer.status()), "{answer}");
            if answer.says_close() {
                client.expects_close();
                break;
            }
            assert_eq!(answer.status(), 200, "{answer}");
            if over.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    answers
}

/// Runs `change` while clients send requests to the n-th listener.
fn under_load(gateway: &Gateway, listener: usize, change: impl FnOnce()) {
    let (over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let sent = send_requests_until(gateway, listener, &over);
                answers.fetch_add(sent, Ordering::Relaxed);
            });
        }
        // Also if the change fails, or the clients would never end.
        let _ends = StopOnDrop(&over);
        change();
    });
    assert!(answers.into_inner() > 0);
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

on_both_drivers! {
    fn a_request_in_progress_outlives_its_listener(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
        let origin = origin().replies(slow);
        let (one, two) = with_and_without(driver, &origin);
        let gateway = two.start();
        let mut client = client(gateway.address_of(1));
        client.gets("/");
        origin.waits_for_requests(1);
        gateway.reconfigure(&one);
        gateway.waits_until_refused_on(gateway.address_of(1));
        gate.open();
        let answer = client.expects(200);
        assert_eq!(answer.text(), "late");
        assert!(answer.says_close());
        client.expects_close();
    }

    fn requests_that_wait_for_a_connection_outlive_their_listener_and_route(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
        let origin = origin().replies(slow);
        let limited = |builder: GatewayBuilder| {
            builder.shards(1).limits("upstreamConnections: 1, connectTimeout: 30s")
        };
        let (_, two) = with_and_without(driver, &origin);
        let two = limited(two);
        let gateway = two.clone().start();
        let mut clients: Vec<Client> = (0..4).map(|_| client(gateway.address_of(1))).collect();
        for client in &mut clients {
            client.gets("/");
        }
        origin.waits_for_requests(1);
        clients[3].expects_silence();
        // Backend, routes and listener are removed from the configuration, and added again.
        gateway.reconfigure(&limited(self::gateway(driver)));
        gateway.waits_until_refused_on(gateway.address_of(1));
        gateway.reconfigure(&two);
        gateway.waits_until_listening_on(gateway.address_of(1));
        let mut later = client(gateway.address_of(1));
        later.gets("/");
        gate.open();
        for client in clients.iter_mut().chain([&mut later]) {
            assert_eq!(client.expects(200).text(), "late");
        }
    }

    fn a_persistent_connection_is_closed_when_its_listener_is_removed(driver) {
        let origin = origin();
        let (one, two) = with_and_without(driver, &origin);
        let gateway = two.start();
        let mut persistent = client(gateway.address_of(1));
        let mut idle = client(gateway.address_of(1));
        let mut parked = client(gateway.address_of(1));
        for client in [&mut persistent, &mut idle, &mut parked] {
            assert!(!client.gets("/").expects(200).says_close());
        }
        // Long enough to be parked without a buffer.
        parked.expects_silence_for(Duration::from_millis(1_300));
        persistent.gets("/").expects(200);
        gateway.reconfigure(&one);
        gateway.waits_until_refused_on(gateway.address_of(1));
        for client in [&mut persistent, &mut parked] {
            assert!(client.gets("/").expects(404).says_close());
            client.expects_close();
        }
        idle.expects_close();
        gateway.client().gets("/").expects(200);
    }

    fn a_route_of_a_listener_set_is_served_only_there(driver) {
        let (own, added) = (origin(), origin());
        let port = Ports::free(1);
        let with = gateway(driver)
            .routes_to(&own)
            .backend("added", &[added.address()])
            .document(&listener_set("gw", port[0]));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port[0]));
        // By default a Gateway allows no ListenerSets.
        let gateway = with.clone().start();
        gateway.client().gets("/").expects(200);
        gateway.waits_until_refused_on(address);
        gateway.reconfigure(&with.gateway_field("allowedListeners: {namespaces: {from: Same}}"));
        gateway.waits_until_listening_on(address);
        client(address).gets("/added").expects(200);
        assert_eq!(added.only_request().target(), "/added");
        assert_eq!(own.requests().len(), 1);
        client(address).gets("/").expects(404);
        gateway.client().gets("/added").expects(200);
        assert_eq!((own.requests().len(), added.requests().len()), (2, 1));
    }

    fn toggling_a_listener_under_load_loses_no_request(driver) {
        let origin = origin();
        let (one, two) = with_and_without(driver, &origin);
        let gateway = two.clone().start();
        under_load(&gateway, 1, || {
            for _ in 0..5 {
                gateway.reconfigure(&one);
                gateway.waits_until_refused_on(gateway.address_of(1));
                gateway.reconfigure(&two);
                gateway.waits_until_listening_on(gateway.address_of(1));
            }
        });
    }

    fn a_listener_recreated_immediately_gets_its_port(driver) {
        let origin = origin();
        let (one, two) = with_and_without(driver, &origin);
        let gateway = two.clone().start();
        for round in 0..5 {
            gateway.reconfigure(&one);
            gateway.waits_for_applied(round * 2 + 2);
            gateway.reconfigure(&two);
            gateway.waits_for_applied(round * 2 + 3);
            gateway.waits_until_listening_on(gateway.address_of(1));
            client(gateway.address_of(1)).gets("/").expects(200);
        }
        assert!(!gateway.log().contains("cannot listen"), "{}", gateway.log());
    }

    fn a_renamed_gateway_keeps_its_connections(driver) {
        let origin = origin();
        let named = gateway(driver).routes_to(&origin).shards(2);
        let gateway = named.clone().start();
        let yaml = named.yaml(gateway.ports());
        let renamed = yaml.replace("name: gw", "name: other");
        let mut persistent = gateway.client();
        persistent.gets("/").expects(200);
        under_load(&gateway, 0, || {
            for (round, text) in [&renamed, &yaml, &renamed].into_iter().enumerate() {
                gateway.rewrite(text);
                gateway.waits_for_applied(round + 2);
                assert!(!persistent.gets("/").expects(200).says_close());
                gateway.client().gets("/").expects(200);
            }
        });
        assert!(!gateway.log().contains("cannot listen"), "{}", gateway.log());
    }

    fn a_listener_without_http_routes_still_reserves_its_hostname(driver) {
        let origin = origin();
        let secret = "protocol: HTTP, hostname: secret.test, allowedRoutes: {kinds: [{kind: TCPRoute}]}";
        let gateway = gateway(driver)
            .listener_with("lax", "protocol: HTTP")
            .listener_beside("lax", "secret", secret)
            .backend("origin", &[origin.address()])
            .rule_of("lax", "{backendRefs: [{@origin}]}")
            .start();
        let mut client = client(gateway.address_of(1));
        client.sends("GET / HTTP/1.1\r\nHost: secret.test\r\n\r\n").expects(404);
        client.sends("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n").expects(200);
        assert_eq!(origin.requests().len(), 1);
    }
}
