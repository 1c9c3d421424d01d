//! A gateway with too many clients degrades step by step.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::metrics::{count, samples, waits_for_buffers, waits_for_count};
use super::page_servers::{gateway_with, page};
use crate::support::frames::{HEADERS, Peer, get};
use crate::support::{
    Client, Driver, Gate, Gateway, GatewayBuilder, Message, Origin, Reply, TIMEOUT, allowing,
    authorizer, gateway, on_both_drivers, origin, pattern,
};

/// A gateway with [`FILES`], of which it keeps half for itself, as it has few, two for its bind, and ten for its
/// backend, which has that many connections. The rest is for clients.
fn gateway_with_few_descriptors(driver: Driver, origin: &Origin) -> GatewayBuilder {
    gateway(driver)
        .routes_to(origin)
        .limits("upstreamConnections: 10")
        .open_files(FILES)
}

const FILES: usize = 688;
const ROOM: usize = FILES / 2 - 2 - 10;

/// This many clients with a connection and a response.
fn served_clients(gateway: &Gateway, count: usize) -> Vec<Client> {
    let client = |_| {
        let mut client = gateway.client();
        client.gets("/").expects(200);
        client
    };
    (0..count).map(client).collect()
}

/// Repeats a request until a response satisfies the condition.
pub(super) fn until(
    mut ask: impl FnMut() -> Message,
    wanted: impl Fn(&Message) -> bool,
) -> Message {
    let started = Instant::now();
    loop {
        let response = ask();
        if wanted(&response) {
            return response;
        }
        assert!(started.elapsed() < TIMEOUT * 6, "only {response}");
    }
}

/// A memory cgroup that a test writes.
pub(super) struct Cgroup(tempfile::TempDir);

impl Cgroup {
    pub(super) fn new(limit: usize) -> Self {
        let cgroup = Self(tempfile::tempdir().expect("a folder"));
        cgroup.writes("memory.max", limit);
        cgroup.uses(0);
        cgroup
    }

    /// Sets the memory in use, without file pages.
    fn uses(&self, bytes: usize) {
        const FILES: usize = 1 << 30;
        self.writes(
            "memory.stat",
            format!("file {FILES}\ninactive_file {FILES}"),
        );
        self.writes("memory.current", bytes + FILES);
    }

    /// In one step, as the kernel does.
    fn writes(&self, name: &str, text: impl std::fmt::Display) {
        let fresh = self.0.path().join("new");
        std::fs::write(&fresh, format!("{text}\n")).expect("a folder of ours");
        std::fs::rename(fresh, self.0.path().join(name)).expect("a folder of ours");
    }
}

/// A gateway in this cgroup.
pub(super) fn within(cgroup: &Cgroup, gateway: GatewayBuilder) -> GatewayBuilder {
    let folder = cgroup.0.path().to_str().expect("a path of ours");
    gateway
        .environment("TEST_MEMORY_CGROUP", folder)
        .inspected()
}

fn is_refused(response: &Message) -> bool {
    response.status() == 503 && response.has("retry-after")
}

on_both_drivers! {
    fn descriptors_unused_by_upstreams_are_available_to_clients(driver) {
        let origin = origin();
        let gateway = gateway_with_few_descriptors(driver, &origin).start();
        let clients = served_clients(&gateway, ROOM - 10);
        // The former share of 45 % would have been exceeded.
        assert!(clients.len() > FILES * 45 / 100);
    }

    fn connections_are_closed_after_their_response_when_capacity_is_scarce(driver) {
        let origin = origin();
        let gateway = gateway_with_few_descriptors(driver, &origin).start();
        let mut early = gateway.client();
        assert!(!early.gets("/").expects(200).says_close());
        let _others: Vec<_> = (0..ROOM * 88 / 100).map(|_| gateway.client()).collect();
        let started = Instant::now();
        while !gateway.client().gets("/").expects(200).says_close() {
            assert!(started.elapsed() < TIMEOUT, "all of them are accepted by and by");
        }
        assert!(early.gets("/").expects(200).says_close());
        early.expects_close();
    }

    fn idle_connections_are_closed_early_when_capacity_is_nearly_exhausted(driver) {
        let origin = origin();
        let gateway = gateway_with_few_descriptors(driver, &origin).start();
        let mut idle = gateway.client();
        idle.gets("/").expects(200);
        let mut others = served_clients(&gateway, ROOM * 70 / 100);
        others.extend((0..ROOM * 25 / 100).map(|_| gateway.client()));
        let started = Instant::now();
        idle.expects_close();
        // The idle timeout would be a minute.
        assert!(started.elapsed() < TIMEOUT, "after {:?}", started.elapsed());
    }

    fn connections_over_the_limit_wait_and_are_served(driver) {
        let origin = origin();
        let gateway = gateway_with_few_descriptors(driver, &origin).limits("keepAliveTimeout: 60s").start();
        let held: Vec<_> = (0..ROOM + 20).map(|_| gateway.client()).collect();
        let mut late = gateway.client();
        late.gets("/").expects_silence_for(Duration::from_millis(300));
        drop(held);
        late.expects(200);
    }

    fn a_pause_of_accepting_is_counted_once(driver) {
        let origin = origin();
        let gateway = gateway_with_few_descriptors(driver, &origin).limits("keepAliveTimeout: 60s").inspected().start();
        let held: Vec<_> = (0..ROOM + 20).map(|_| gateway.client()).collect();
        let mut late = gateway.client();
        // Several times as long as the accept loops pause before they look again.
        late.gets("/").expects_silence_for(Duration::from_millis(600));
        waits_for_count(&gateway, "gateway_shard_accept_pauses_total", "", 1.0);
        drop(held);
        late.expects(200);
    }

    fn requests_are_rejected_temporarily_without_descriptors_for_backends(driver) {
        let gate = Gate::default();
        let held = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 204 No\r\n\r\n");
        let origin = origin().replies_to("/held", held);
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut clients = served_clients(&gateway, 20);
        let mut first = gateway.client();
        // It has the only connection to the origin.
        first.gets("/held");
        origin.waits_for_requests(21);
        gateway.may_open_files(false);
        // The first one hits the limit, and later ones are rejected without an attempt.
        let mut answers = clients.iter_mut().map(|client| client.gets("/").expects(503));
        let refused = answers.find(is_refused).expect("a refusal within a second");
        assert_eq!(refused.value("retry-after"), Some("1"));
        assert_eq!(origin.requests().len(), 21);
        gateway.may_open_files(true);
        until(|| gateway.client().gets("/").reads(), |response| response.status() == 200);
        gate.open();
        first.expects(204);
    }

    fn memory_is_reported_without_a_limit_too(driver) {
        let (origin, cgroup) = (origin(), Cgroup::new(1 << 30));
        cgroup.uses(1 << 20);
        cgroup.writes("memory.max", "max");
        let gateway = within(&cgroup, gateway(driver).routes_to(&origin)).start();
        let size = |name: &str| count(&gateway, &format!("gateway_memory_{name}_bytes"), "");
        assert_eq!(samples(&gateway, "gateway_memory_limit_bytes"), 0);
        assert!((size("working_set") - f64::from(1 << 20)).abs() < 1.0);
        let resident = size("resident");
        assert!(resident > f64::from(1 << 20) && resident < size("machine"), "{resident}");
    }

    fn close_to_the_memory_limit_requests_are_rejected_and_then_connections(driver) {
        const LIMIT: usize = 1 << 30;
        let (origin, cgroup) = (origin(), Cgroup::new(LIMIT));
        cgroup.uses(LIMIT / 2);
        let gateway = within(&cgroup, gateway(driver).routes_to(&origin)).start();
        gateway.client().gets("/").expects(200);
        cgroup.uses(LIMIT / 100 * 92);
        until(|| gateway.client().gets("/").reads(), is_refused);
        gateway.waits_for_log("memory is close to the limit");
        let mut over_h2 = Peer::client(gateway.address());
        over_h2.sends(get(1));
        assert_eq!(over_h2.next_of(HEADERS).status(), Some(503));
        let count_of = |name: &str, label: &str| count(&gateway, name, label);
        assert!(count_of("gateway_shard_shed_requests_total", "reason=\"memory\"") >= 2.0);
        let limit = count_of("gateway_memory_limit_bytes", "");
        assert!(count_of("gateway_memory_working_set_bytes", "") > 0.9 * limit);

        cgroup.uses(LIMIT / 100 * 97);
        let started = Instant::now();
        let mut waiting = Vec::new();
        while count(&gateway, "gateway_shard_accept_pauses_total", "") < 1.0 {
            assert!(started.elapsed() < TIMEOUT, "all of them are accepted");
            waiting.push(gateway.client());
        }
        cgroup.uses(LIMIT / 2);
        until(|| gateway.client().gets("/").reads(), |response| response.status() == 200);
        gateway.waits_for_log("memory is no longer close to the limit");
    }

    /// It would only be load elsewhere.
    fn no_page_server_is_asked_about_a_request_that_is_shed(driver) {
        const LIMIT: usize = 1 << 30;
        let (pages, cgroup) = (origin().replies(page(200, "a page")), Cgroup::new(LIMIT));
        cgroup.uses(LIMIT / 2);
        let gateway = within(&cgroup, gateway_with(&pages, driver)).start();
        assert_eq!(gateway.client().gets("/a").expects(500).text(), "a page");
        cgroup.uses(LIMIT / 100 * 92);
        until(|| gateway.client().gets("/a").reads(), is_refused);
        let asked = pages.requests().len();
        for _ in 0..10 {
            let answer = gateway.client().gets("/a").expects(503);
            assert_eq!(answer.text(), "the gateway is overloaded\n");
        }
        assert_eq!(pages.requests().len(), asked);
    }

    fn half_closed_clients_are_given_up_when_memory_is_short(driver) {
        const LIMIT: usize = 1 << 30;
        let cgroup = Cgroup::new(LIMIT);
        cgroup.uses(LIMIT / 2);
        let origin = origin().replies(Reply::at_once().reads_the_body().stalls());
        let builder = gateway(driver)
            .routes_to(&origin)
            .limits("responseHeadTimeout: 1h, halfCloseTimeout: 1h");
        let gateway = within(&cgroup, builder).start();
        let (mut whole, mut half) = (gateway.client(), gateway.client());
        whole.posts("/", "body");
        half.posts("/", "body").finishes();
        waits_for_count(&gateway, "gateway_shard_half_closed_connections", "", 1.0);
        cgroup.uses(LIMIT / 100 * 87);
        half.expects_end();
        waits_for_count(&gateway, "gateway_shard_half_closed_connections", "", 0.0);
        whole.expects_silence();
    }

    fn mirrors_that_hang_are_dropped_before_requests_are_rejected(driver) {
        // Half of it is for buffers, and half of that for mirrors.
        let cgroup = Cgroup::new(64 << 20);
        let (stuck, origin) = (TcpListener::bind("127.0.0.1:0").expect("a port"), origin());
        let auth = authorizer(Some(allowing(&[])));
        let builder = gateway(driver)
            .backend("stuck", &[stuck.local_addr().expect("bound")])
            .speaks("stuck", "H2C")
            .backend("auth", &[auth.address()])
            .speaks("auth", "H2C")
            .backend("origin", &[origin.address()])
            .rule(
                "{filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {@auth}, grpc: {}, \
                 forwardBody: {maxSize: 1048576}}}, {type: RequestMirror, requestMirror: {backendRef: {@stuck}}}], \
                 backendRefs: [{@origin}]}",
            );
        let gateway = within(&cgroup, builder).start();
        let (mut client, body) = (gateway.client(), pattern(1_000_000));
        client.posts("/", &body).expects(200);
        // It gives room for little more than the first 64 KiB.
        let _mirror = Peer::server(&stuck);
        for _ in 0..40 {
            client.posts("/", &body).expects(200);
        }
        // The copies of the first requests, which count.
        waits_for_buffers(&gateway, |bytes| (8e6..17e6).contains(&bytes));
        waits_for_count(&gateway, "gateway_shard_shed_requests_total", "", 0.0);
    }

    fn a_shard_above_its_buffer_limit_rejects_requests(driver) {
        // Half of it is for buffers: three large ones, one of which belongs to the client's
        // connection.
        let cgroup = Cgroup::new(2 * 3 * 68 * 1024);
        let (stuck, origin) = (TcpListener::bind("127.0.0.1:0").expect("a port"), origin());
        let builder = gateway(driver)
            .backend("stuck", &[stuck.local_addr().expect("bound")])
            .backend("origin", &[origin.address()])
            .rule("{matches: [{method: POST}], backendRefs: [{@stuck}]}")
            .rule("{backendRefs: [{@origin}]}");
        let gateway = within(&cgroup, builder).start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        let mut uploads = Vec::new();
        let refused = until(
            || {
                // Its responses are not read, so its buffer soon stays in use.
                let mut upload = gateway.client();
                upload.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000000\r\n\r\n");
                upload.sends_until_full(64 << 20);
                uploads.push(upload);
                client.gets("/").reads()
            },
            is_refused,
        );
        assert_eq!(refused.value("retry-after"), Some("1"));
        waits_for_count(&gateway, "gateway_shard_shed_requests_total", "reason=\"memory\"", 0.0);
        drop(uploads);
        until(|| gateway.client().gets("/").reads(), |response| response.status() == 200);
    }
}
