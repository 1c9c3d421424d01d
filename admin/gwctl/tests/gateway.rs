//! Every `gwctl` command that queries a gateway, against the real binary.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread;

use admin_types::trace::{Event, Message};

use self::support::Gateway;
use self::support::port::Ports;

mod cluster;
mod support;

/// Runs command lines against it, with `--local`.
trait CommandLine {
    /// Runs one; returns its exit code, stdout and stderr.
    fn gwctl(&self, line: &str) -> (Option<i32>, String, String);

    fn stdout(&self, line: &str) -> String {
        let (code, out, err) = self.gwctl(line);
        assert_eq!(code, Some(0), "{line}: {err}");
        out
    }

    fn trace(&self, line: &str) -> Vec<Event> {
        let out = self.stdout(&format!("trace --raw {line}"));
        let events = out.lines().map(serde_json::from_str);
        events
            .collect::<Result<_, _>>()
            .expect("JSON Lines of events")
    }
}

impl CommandLine for Gateway {
    fn gwctl(&self, line: &str) -> (Option<i32>, String, String) {
        let line = line.replace("SECURE", &self.secure.to_string());
        let line = line.replace("PORT", &self.port.to_string());
        let own = self.file.with_file_name("own.pem");
        let line = line.replace("OWN", &own.display().to_string());
        let line = line.replace("FILE", &self.file.display().to_string());
        let local = format!("--local={}", self.admin);
        let line = [local.as_str()].into_iter().chain(line.split_whitespace());
        alone(&line.collect::<Vec<_>>())
    }
}

/// Runs a command line as it is; returns its exit code, stdout and stderr.
fn alone(line: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
        .args(line)
        .output()
        .expect("it runs");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn status(events: &[Event]) -> Option<u16> {
    match &events.last()?.message {
        Message::RequestFinished(finished) => Some(finished.status),
        _ => None,
    }
}

#[test]
fn a_trace_covers_a_request_from_start_to_finish() {
    let gateway = Gateway::start();
    let events = gateway.trace("gateway/edge --port PORT -- http://shop.example/a?b");
    assert!(matches!(events[0].message, Message::RequestStarted { .. }));
    assert_eq!(status(&events), Some(200));
    let chosen = events.iter().find_map(|event| match &event.message {
        Message::RouteSelection { selected, .. } => selected.as_deref(),
        _ => None,
    });
    assert!(
        chosen.is_some_and(|it| it.starts_with("HTTPRoute/default/shop")),
        "{events:?}"
    );

    let text = gateway.stdout("trace --port PORT -X DELETE -- shop.example/dead");
    assert!(text.contains("DELETE shop.example/dead"), "{text}");
    assert!(text.contains("503"), "{text}");
    let text = gateway.stdout("trace --port PORT -- http://elsewhere.test/");
    assert!(text.contains("404"), "{text}");
    assert!(text.contains("listener  none"), "{text}");
}

#[test]
fn a_request_over_tls_is_traced() {
    let gateway = Gateway::start();
    for trust in ["--cacert OWN", "-k"] {
        let line = format!("edge --port SECURE {trust} -- https://shop.example/a");
        let events = gateway.trace(&line);
        assert_eq!(status(&events), Some(200), "{trust}");
    }
    for (line, expected) in [
        (
            "--port SECURE --cacert OWN -- https://other.example/",
            "certificate is not for `other.example`",
        ),
        (
            "--port PORT -k -- https://shop.example/",
            "is it an HTTPS listener?",
        ),
        (
            "--port SECURE --cacert FILE -- https://shop.example/",
            "skip verification with -k",
        ),
    ] {
        let (code, out, err) = gateway.gwctl(&format!("trace {line}"));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{line}: {err}");
        assert!(err.contains(expected), "{line}: {err}");
    }
}

/// What a listener with a mistake shows on this machine, in a dump, and before its file is loaded.
#[test]
fn the_status_of_files_has_their_problems() {
    let gateway = Gateway::start();
    let file = gateway.file.display().to_string();
    let of_gateway = || gateway.gwctl("status");
    let of_files = || alone(&["status", "--config", &file]);
    for (line, (code, text, err)) in [("status", of_gateway()), ("status --config", of_files())] {
        assert_eq!(code, Some(0), "{line}: {err}{text}");
        assert!(text.starts_with("Gateway default/edge\n"), "{line}: {text}");
        assert!(!text.contains("Problems"), "{line}: {text}");
    }
    let yaml = fs::read_to_string(&gateway.file).expect("our file");
    fs::write(
        &gateway.file,
        yaml.replace("[{name: pods, port", "[{name: pds, port"),
    )
    .expect("our file");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let text = loop {
        let (code, text, _) = of_gateway();
        if code == Some(1) {
            break text;
        }
        assert!(std::time::Instant::now() < until, "{text}");
    };
    let problem = "Service default/pds does not exist (did you mean `pods`?)";
    assert!(
        text.contains("  error    ") && text.contains(problem),
        "{text}"
    );
    let (code, text, _) = of_files();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(problem), "{text}");
    let dump = gateway.file.with_file_name("dump.json");
    fs::write(&dump, gateway.stdout("config all -o json")).expect("a file");
    let (code, text, _) = alone(&["status", "--file", &dump.display().to_string()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(problem), "{text}");
}

#[test]
fn a_trace_with_a_url_shows_only_its_own_request() {
    let gateway = Gateway::start();
    let port = gateway.port;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let others = thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            let request = b"GET /other HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n\r\n";
            stream.write_all(request).expect("it reads");
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    for _ in 0..5 {
        let events = gateway.trace("--port PORT -- http://shop.example/ours");
        let paths = events.iter().filter_map(|event| match &event.message {
            Message::RequestSnapshot(request) => Some(request.path.as_str()),
            _ => None,
        });
        assert_eq!(paths.collect::<Vec<_>>(), ["/ours"]);
    }
    // Without a URL, it traces the next request.
    for line in ["--next", "gateway/edge"] {
        let events = gateway.trace(line);
        assert_eq!(status(&events), Some(200), "{line}");
    }
    drop(stop);
    others.join().expect("the other client ends");
}

#[test]
fn a_failed_trace_prints_the_cause() {
    let gateway = Gateway::start();
    let ports = Ports::free(1);
    let unused = ports[0];
    for (line, expected) in [
        (
            format!("trace --port {unused} -- http://shop.example/"),
            "cannot connect to a listener",
        ),
        (
            format!("trace edge --port {unused} -- http://h/"),
            "no listener on port",
        ),
        (
            "trace nobody --port PORT -- http://h/".to_owned(),
            "Gateway default/nobody is not loaded",
        ),
        ("trace --next --timeout 100ms".to_owned(), "within 100ms"),
    ] {
        let (code, out, err) = gateway.gwctl(&line);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{line}: {err}");
        assert!(err.contains(expected), "{line}: {err}");
    }
}

#[test]
fn an_admin_server_on_a_unix_socket_is_reachable() {
    let gateway = Gateway::start_at(|_, folder| format!("unix:{}/admin.sock", folder.display()));
    assert!(gateway.stdout("tasks").contains("shard 1"));
    let events = gateway.trace("--port PORT -- shop.example/");
    assert_eq!(status(&events), Some(200), "{events:?}");
    let nobody = gateway.admin.clone() + "t";
    let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
        .args(["memory", "--local", &nobody])
        .output()
        .expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains(&format!("cannot connect to {nobody}")),
        "{error}"
    );
}

#[test]
fn each_command_shows_the_loaded_configuration() {
    let gateway = Gateway::start();
    for (line, expected) in [
        ("config all edge", "HTTPRoute/default/shop rule 0"),
        ("config all -o yaml", "gateway: default/edge"),
        ("config backends", "Backend  dead"),
        ("config routes", "/dead"),
        ("config listeners", "*.example"),
        ("config policies", "KIND"),
        ("config diff --config FILE", "no changes"),
        ("config backends -n default", "Backend  dead"),
        ("log", "current log level is "),
        ("log gateway/edge", "current log level is "),
        ("log --level warn", "current log level is warn"),
        ("tasks edge", "shard 1"),
        ("tasks -n default", "shard 1"),
        ("memory gtw/edge", "heap profile  sampling"),
        ("version", "configuration  1"),
        ("check FILE", "2 listeners and 3 rules would be served"),
    ] {
        let text = gateway.stdout(line);
        assert!(text.contains(expected), "{line}: {text}");
    }
    let (code, _, err) = gateway.gwctl("log --level info=loud");
    assert_eq!(code, Some(1), "{err}");
    assert!(
        gateway.stdout("log").contains("warn"),
        "the level in force is unchanged"
    );
    let heap = gateway.stdout("profile heap edge --flamegraph -o - --timeout 5m");
    assert!(heap.contains("<svg"), "{heap:.100}");
}

#[test]
fn selecting_a_gateway_that_is_not_loaded_lists_those_that_are() {
    let gateway = Gateway::start();
    for command in [
        "config all",
        "config backends",
        "config routes",
        "log",
        "profile heap",
        "tasks",
        "memory",
        "trace --port PORT",
    ] {
        for named in ["nobody", "edge -n shops", "-n shops"] {
            let line = match command {
                "trace --port PORT" => format!("{command} {named} -- http://h/"),
                _ => format!("{command} {named}"),
            };
            let (code, out, err) = gateway.gwctl(&line);
            assert_eq!((code, out.as_str()), (Some(1), ""), "{line}: {err}");
            assert!(err.contains("loaded are: default/edge"), "{line}: {err}");
        }
    }
}

#[test]
fn a_diff_shows_the_changes() {
    let gateway = Gateway::start();
    let yaml = fs::read_to_string(&gateway.file).expect("our file");
    let other = gateway.file.with_file_name("other.yaml");
    fs::write(&other, yaml.replace("/dead", "/gone")).expect("a file");
    let line = format!("config diff --config {}", other.display());
    let (code, text, err) = gateway.gwctl(&line);
    assert_eq!(code, Some(1), "{err}");
    assert!(text.contains("~ route HTTPRoute/default/shop/1"), "{text}");
    assert!(text.contains("/gone"), "{text}");

    let more = gateway.file.with_file_name("more.yaml");
    let shops = yaml.replace("metadata: {name: ", "metadata: {namespace: shops, name: ");
    let taken = format!("port: {}, protocol: HTTP,", gateway.port);
    let shops = shops.replace(&taken, "port: 9, protocol: HTTP,");
    fs::write(&more, shops).expect("a file");
    let diff = |namespace| {
        let more = more.display();
        gateway.gwctl(&format!("config diff -n {namespace} --config FILE {more}"))
    };
    let (code, text, _) = diff("default");
    assert_eq!((code, &*text), (Some(0), "no changes\n"));
    let (code, text, _) = diff("shops");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("+ listener Gateway/shops/edge/http"),
        "{text}"
    );
    assert!(!text.contains("default/"), "{text}");

    let saved = gateway.file.with_file_name("saved.json");
    fs::write(&saved, gateway.stdout("config all -o json")).expect("a file");
    let saved = saved.display();
    let diff = gateway.stdout(&format!("config diff --file {saved}"));
    assert_eq!(diff, "no changes\n");
    let dump = fs::read_to_string(saved.to_string()).expect("our file");
    assert!(dump.contains("EndpointSlice/default/pods-1"), "{dump}");
}
