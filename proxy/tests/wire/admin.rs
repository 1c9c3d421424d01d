//! The admin server: the exact response of each path, and rejected requests.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Client, Driver, Gateway, Message, TIMEOUT, gateway, on_both_drivers, origin};

/// Sends a request to one of a gateway's servers on a new connection.
pub(crate) fn asks(gateway: &Gateway, server: &str, method: &str, target: &str) -> Message {
    asks_with(gateway, server, method, target, "Host: localhost\r\n")
}

/// Sends a request with these header lines.
pub(crate) fn asks_with(
    gateway: &Gateway,
    server: &str,
    method: &str,
    target: &str,
    lines: &str,
) -> Message {
    let mut client = gateway.client_of(server);
    client.sends(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n"));
    client.reads_reply_to(method)
}

/// Sends a request to a server on a Unix socket, and returns the whole response.
fn asks_by_unix_socket(path: &Path, target: &str, host: &str) -> String {
    let mut socket = UnixStream::connect(path).expect("the server listens");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("room for it");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The response of the admin server to a GET, as JSON.
pub(crate) fn json(gateway: &Gateway, target: &str) -> Value {
    let answer = asks(gateway, "admin", "GET", target);
    assert_eq!(answer.status(), 200, "{answer}");
    assert_eq!(answer.value("content-type"), Some("application/json"));
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// Waits until the readiness server responds with this status and line.
pub(crate) fn waits_for_readiness(gateway: &Gateway, status: u16, line: &str) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answer = asks(gateway, "readiness", "GET", "/healthz/ready");
        if (answer.status(), answer.text().trim_end()) == (status, line) {
            return;
        }
        assert!(Instant::now() < deadline, "never `{line}`: {answer}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Requests a profile of this many seconds, and waits until it is in progress.
#[track_caller]
fn begins_a_profile(gateway: &Gateway, seconds: u32) -> Client {
    begins_a_profile_with(gateway, &format!("seconds={seconds}"))
}

/// The same, with these parameters.
#[track_caller]
fn begins_a_profile_with(gateway: &Gateway, parameters: &str) -> Client {
    let mut client = gateway.client_of("admin");
    let target = format!("/debug/pprof/profile?{parameters}");
    client.sends(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let deadline = Instant::now() + TIMEOUT;
    let tasks = || asks(gateway, "admin", "GET", "/debug/tasks").text();
    while !tasks().contains("admin /debug/pprof/profile") {
        assert!(Instant::now() < deadline, "it is not made");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    client
}

/// Method, target, status, and a part of the body.
const ANSWERS: &[(&str, &str, u16, &str)] = &[
    ("GET", "/config_dump", 200, "\"version\""),
    ("HEAD", "/config_dump", 200, ""),
    (
        "GET",
        "/config_dump?type=routes&name=route-0",
        200,
        "\"routes\"",
    ),
    ("GET", "/config_dump?type=runtime", 200, "\"pending\":[]"),
    (
        "GET",
        "/config_dump?type=route",
        400,
        "expected one of binds",
    ),
    (
        "GET",
        "/config_dump?typ=routes",
        400,
        "unknown parameter `typ`; usage: GET /config_dump",
    ),
    (
        "GET",
        "/config_dump?type=routes&type=binds",
        400,
        "duplicate parameter `type`",
    ),
    (
        "GET",
        "/config_dump?name=",
        400,
        "the parameter `name` is empty",
    ),
    ("POST", "/config_dump", 405, "GET, HEAD"),
    ("GET", "/memory", 200, "\"allocator\""),
    ("DELETE", "/memory", 405, "GET, HEAD"),
    ("GET", "/memory?x", 400, "usage: GET /memory"),
    ("GET", "/debug/tasks", 200, "\"heartbeatMs\""),
    ("GET", "/debug/tasks?format=text", 200, "shard 0 (heartbeat"),
    (
        "GET",
        "/debug/tasks?format=xml",
        400,
        "expected one of json, text",
    ),
    ("POST", "/debug/tasks", 405, "GET, HEAD"),
    ("GET", "/logging", 200, "current log level is "),
    (
        "GET",
        "/logging?level=debug",
        400,
        "use POST to set the level",
    ),
    (
        "POST",
        "/logging",
        400,
        "usage: GET /logging, or POST /logging?level=LEVEL",
    ),
    (
        "POST",
        "/logging?level=verbose",
        400,
        "unknown level `verbose`",
    ),
    (
        "POST",
        "/logging?level=info,proxy%3Dloud",
        400,
        "invalid directive `proxy=loud`: error parsing level filter: expected one of \"off\", \"error\", \"warn\", \
         \"info\", \"debug\", \"trace\", or a number 0-5; usage: GET /logging",
    ),
    (
        "POST",
        "/logging?level=info%0aX",
        400,
        "the level contains '\\n'; only printable characters are allowed; usage: GET /logging",
    ),
    ("PUT", "/logging", 405, "GET, HEAD, POST"),
    ("GET", "/quitquitquit", 405, "POST"),
    (
        "GET",
        "/debug/pprof/profile?seconds=0",
        400,
        "invalid `seconds` value `0`: expected a number from 1 to 300",
    ),
    (
        "GET",
        "/debug/pprof/profile?seconds=301",
        400,
        "usage: GET /debug/pprof/profile",
    ),
    ("GET", "/debug/pprof/profile?seconds=ten", 400, "`ten`"),
    (
        "GET",
        "/debug/pprof/profile?frequency=251",
        400,
        "from 1 to 250",
    ),
    (
        "GET",
        "/debug/pprof/heap?format=svg",
        400,
        "expected one of pprof, flamegraph",
    ),
    ("POST", "/debug/pprof/profile", 405, "GET"),
    ("GET", "/debug/trace?timeout=1ms", 200, ": ready\n\n"),
    ("POST", "/debug/trace?timeout=1ms", 200, ": ready\n\n"),
    ("HEAD", "/debug/trace", 405, ""),
    (
        "GET",
        "/debug/trace?count=0",
        400,
        "expected a number from 1 to",
    ),
    (
        "GET",
        "/debug/trace?timeout=never",
        400,
        "invalid timeout `never`",
    ),
    (
        "GET",
        "/debug/trace?match=get%20/",
        400,
        "invalid match `get /`",
    ),
    ("GET", "/", 200, "<!doctype html>"),
    ("HEAD", "/page/main.js", 200, ""),
    ("POST", "/", 405, "GET, HEAD"),
    ("GET", "/?x", 400, "usage: GET /"),
    ("GET", "/page/index.html", 404, "no endpoint"),
    ("GET", "/nothing", 404, "no endpoint at /nothing"),
    ("GET", "/config_dump/", 404, "no endpoint"),
    ("GET", "/metrics", 404, "no endpoint"),
];

on_both_drivers! {
    fn each_path_responds_or_explains_its_usage(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        for (method, target, status, says) in ANSWERS {
            let answer = asks(&gateway, "admin", method, target);
            assert_eq!(answer.status(), *status, "{method} {target}: {answer}");
            assert!(answer.text().contains(says), "{method} {target}: {answer}");
            if *status == 405 {
                assert!(answer.has("allow"), "{method} {target}: {answer}");
            }
            let is_json = answer.value("content-type") == Some("application/json");
            if is_json && *status >= 400 && *method != "HEAD" {
                let error: Value = serde_json::from_slice(&answer.body).expect("JSON");
                assert!(error["error"].is_string(), "{method} {target}: {answer}");
            }
        }
    }

    fn inspection_endpoints_are_served_on_unix_sockets(driver) {
        let (origin, folder) = (origin(), tempfile::tempdir().expect("a folder"));
        let path = |server| folder.path().join(server);
        let address = |server| format!("--{server}-address=unix:{}", path(server).display());
        let _gateway = gateway(driver).routes_to(&origin)
            .argument(&address("admin")).argument(&address("metrics")).argument(&address("readiness"))
            .start();
        for (server, target, host, status, says) in [
            ("admin", "/logging", "localhost", 200, "current log level is "),
            ("admin", "/logging", "evil.example", 403, "evil.example"),
            ("metrics", "/metrics", "localhost", 200, "gateway_build_info"),
            ("readiness", "/healthz/ready", "localhost", 200, "ready"),
        ] {
            let answer = asks_by_unix_socket(&path(server), target, host);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {answer}");
            assert!(answer.contains(says), "{target}: {answer}");
        }
    }

    fn without_heap_sampling_there_is_no_heap_profile(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin)
            .argument("--heap-sampling=off").inspected().start();
        let answer = asks(&gateway, "admin", "GET", "/debug/pprof/heap");
        assert_eq!(answer.status(), 409, "{answer}");
        assert_eq!(answer.text(), "heap sampling is off: start the gateway with --heap-sampling on\n");
        assert_eq!(json(&gateway, "/memory")["heapProfile"]["armed"], false);
    }

    fn cross_site_requests_are_rejected(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin)
            .argument("--admin-host=admin.internal").inspected().start();
        let port = gateway.server("admin").port();
        let own = format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n");
        for (lines, status) in [
            ("Host: 127.0.0.1\r\n", 200),
            ("Host: [::1]:1\r\n", 200),
            ("Host: admin.internal\r\n", 200),
            (own.as_str(), 200),
            ("Host: evil.example\r\n", 403),
            ("Host: localhost:80@evil.test\r\n", 403),
            ("", 403),
            ("Host: localhost\r\nOrigin: http://evil.example\r\n", 403),
            ("Host: localhost\r\nOrigin: null\r\n", 403),
        ] {
            let answer = asks_with(&gateway, "admin", "GET", "/logging", lines);
            assert_eq!(answer.status(), status, "{lines}{answer}");
        }
        let lines = "Host: evil.example\r\n";
        let refused = asks_with(&gateway, "admin", "POST", "/quitquitquit", lines);
        assert_eq!(refused.status(), 403);
        gateway.client().gets("/").expects(200);
    }

    fn the_log_level_is_set_and_a_bad_one_changes_nothing(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin)
            .environment("RUST_LOG", "info").inspected().start();
        let level = |method, target| asks(&gateway, "admin", method, target).text();
        assert_eq!(level("GET", "/logging"), "current log level is h2=off,info\n");
        assert_eq!(level("POST", "/logging?level=debug"), "current log level is debug\n");
        let mut bad = gateway.client();
        bad.sends("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").expects(400);
        gateway.waits_for_log("rejected a malformed request head");
        for bad in ["loud", "info%0aX", "info,%0dproxy=debug", "info%00"] {
            let answer = asks(&gateway, "admin", "POST", &format!("/logging?level={bad}"));
            assert_eq!(answer.status(), 400, "{answer}");
        }
        assert_eq!(level("GET", "/logging"), "current log level is debug\n");
        let list = level("POST", "/logging?level=warn,proxy::supervisor=info");
        assert!(list.contains("proxy::supervisor=info") && list.contains("warn"), "{list}");
    }

    fn only_one_cpu_profile_is_recorded_at_a_time(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let _first = begins_a_profile(&gateway, 300);
        let second = asks(&gateway, "admin", "GET", "/debug/pprof/profile?seconds=1");
        assert_eq!(second.status(), 409, "{second}");
        let why = "another CPU profile is being recorded";
        assert!(second.text().contains(why), "{second}");
        gateway.client().gets("/").expects(200);
    }

    fn a_profile_has_the_shards_system_calls(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let parameters = "seconds=1&format=flamegraph";
        let mut profile = begins_a_profile_with(&gateway, parameters);
        let mut client = gateway.client();
        // Symbols are looked up by a thread with a lower priority than requests.
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            client.gets("/").expects(200);
        }
        let graph = profile.expects(200).text();
        let calls: &[&str] = match driver {
            Driver::IoUring => &["syscall"],
            Driver::Epoll | Driver::Auto => &["epoll_wait", "recv", "send", "writev"],
        };
        assert!(graph.contains("<title>shard-0 "), "{graph}");
        let is_in_graph = |call: &&str| ["", "__", "__libc_"].iter().any(|way| graph.contains(&format!("<title>{way}{call} ")));
        assert!(calls.iter().any(is_in_graph), "{calls:?}: {graph}");
    }

    fn a_profile_needs_no_writable_temporary_directory(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin)
            .environment("TMPDIR", "/nowhere").inspected().start();
        let mut first = begins_a_profile(&gateway, 1);
        let profile = first.expects(200);
        assert_eq!(profile.value("content-type"), Some("application/octet-stream"));
        assert!(profile.body.starts_with(&[0x1f, 0x8b]), "gzip: {profile}");
    }

    fn quitquitquit_drains(driver) {
        let origin = origin();
        let mut gateway = gateway(driver).routes_to(&origin)
            .argument("--drain-accept=300ms").inspected().start();
        waits_for_readiness(&gateway, 200, "ready");
        let answer = asks(&gateway, "admin", "POST", "/quitquitquit");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "draining\n"));
        gateway.waits_for_log("draining; ");
        waits_for_readiness(&gateway, 503, "not ready, pending: draining");
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn tasks_show_the_state_of_connections(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        let tasks = json(&gateway, "/debug/tasks");
        let shard = &tasks["shards"][0];
        assert_eq!(shard["id"], 0);
        assert!(shard.get("stuck").is_none(), "{tasks}");
        let kinds = |kind| {
            let tasks = shard["tasks"].as_array().expect("a list").iter();
            let children = tasks.clone().flat_map(|task| task["children"].as_array().into_iter().flatten());
            tasks.chain(children).filter(|task| task["kind"] == kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds("housekeeping").len(), 1, "{tasks}");
        assert!(kinds("accept").iter().all(|it| it["detail"].as_str().is_some_and(|it| it.starts_with("tcp/"))));
        let connections = kinds("connection");
        assert_eq!(connections.len(), 1, "{tasks}");
        assert_eq!(connections[0]["state"], "reading-head");
        assert!(tasks["admin"].as_array().is_some_and(|it| !it.is_empty()), "{tasks}");
    }

    fn memory_is_reported_by_the_allocator_and_the_kernel(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).inspected().start();
        let memory = json(&gateway, "/memory");
        for path in ["/allocator/committed", "/allocator/reserved", "/process/rss", "/process/threads", "/process/fds",
                     "/allocations/total/count", "/allocations/total/bytes", "/allocations/total/liveCount",
                     "/allocations/total/liveBytes", "/allocations/shards/0/count", "/allocations/shards/0/liveBytes"] {
            let value = memory.pointer(path).and_then(Value::as_u64);
            assert!(value.is_some_and(|value| value > 0), "{path}: {memory}");
        }
    }

    fn listeners_cannot_bind_ports_of_the_admin_servers(driver) {
        let origin = origin();
        let ports = crate::support::Ports::free(2);
        let builder = gateway(driver).routes_to(&origin).listener("taken")
            .argument(&format!("--admin-address=127.0.0.1:{}", ports[1]));
        let yaml = builder.yaml(&ports);
        let gateway = builder.start_with(&yaml, &ports[..1]);
        gateway.waits_for_log("PortUnavailable");
        gateway.client().gets("/").expects(200);
    }
}
