//! Servers that are broken, malicious or no admin servers: `gwctl` never hangs, and says what to do next.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The result of a run.
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs a command line; panics where it takes much longer than its timeout.
fn gwctl(line: &str) -> Run {
    let started = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
        .args(line.split_whitespace())
        .output()
        .expect("it runs");
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{line}: took {took:?}");
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A server that calls `answer` with each connection after the request's head.
fn server(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut stream = stream;
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut byte) {
                        Ok(1) => head.push(byte[0]),
                        _ => return,
                    }
                }
                answer(stream);
            });
        }
    });
    address
}

/// Writes `first`, then `again` repeatedly until the client disconnects.
fn forever(stream: &mut TcpStream, first: &str, again: &str, pause: Duration) {
    let mut text = first;
    while stream.write_all(text.as_bytes()).is_ok() {
        thread::sleep(pause);
        text = again;
    }
}

const PAUSE: Duration = Duration::from_millis(10);
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: ready\n\n";

fn read_forever(mut stream: TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_server_that_never_responds_times_out() {
    let address = server(read_forever);
    for command in [
        "config all",
        "config backends",
        "log",
        "log --level debug",
        "profile heap -o -",
        "tasks",
        "memory",
        "version",
        "trace --next",
        "trace --port 1 -- http://h/",
        "trace shop --port 1 -- http://h/",
    ] {
        let run = gwctl(&format!("--local {address} --timeout 200ms {command}"));
        assert_eq!(run.code, Some(1), "{command}: {}", run.err);
        assert!(run.err.contains("--timeout"), "{command}: {}", run.err);
    }
}

#[test]
fn reading_a_pipe_without_a_writer_times_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("a command of every Linux").success());
    let pipe = pipe.display();
    for line in [
        format!("config all --file {pipe}"),
        "config all --file -".to_owned(),
        format!("trace --local --port 1 --cacert {pipe} -- https://h/"),
    ] {
        let mut running = Command::new(env!("CARGO_BIN_EXE_gwctl"))
            .args(["--timeout", "200ms"])
            .args(line.split_whitespace())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        // Dropping it would be an end of file.
        let _silent = running.stdin.take();
        let until = Instant::now() + Duration::from_secs(20);
        while running.try_wait().expect("a child").is_none() {
            if Instant::now() > until {
                let _ = running.kill();
                panic!("{line}: still waiting");
            }
            thread::sleep(PAUSE);
        }
        let output = running.wait_with_output().expect("its output");
        assert_eq!(output.status.code(), Some(1), "{line}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("no end of file from"), "{line}: {error}");
        assert!(error.contains("within 200ms"), "{line}: {error}");
    }
}

#[test]
fn a_slow_response_times_out() {
    let heads = server(|mut stream| forever(&mut stream, "HTTP/1.1 200 OK\r\n", "a: b\r\n", PAUSE));
    let bodies = server(|mut stream| {
        let head = "HTTP/1.1 200 OK\r\n\r\n{\"version\":";
        forever(&mut stream, head, " ", PAUSE);
    });
    for address in [heads, bodies] {
        for command in ["config all", "memory", "trace --next"] {
            let run = gwctl(&format!("{command} --local={address} --timeout 300ms"));
            assert_eq!(run.code, Some(1), "{command}: {}", run.err);
            assert!(run.err.starts_with("error: ") || run.err.contains("\nerror: "));
        }
    }
}

#[test]
fn a_trace_that_never_starts_or_ends_times_out() {
    let silent = server(|mut stream| forever(&mut stream, EVENTS, ": keepalive\n\n", PAUSE));
    let run = gwctl(&format!("trace --next --local={silent} --timeout 300ms"));
    assert_eq!(run.code, Some(1));
    assert!(
        run.err.contains("no matching request within 300ms"),
        "{}",
        run.err
    );

    let endless = server(|mut stream| {
        let event = "data: {\"message\":{\"type\":\"novel\"}}\n\n";
        let first = format!("{EVENTS}{event}");
        forever(&mut stream, &first, ": keepalive\n\n", PAUSE);
    });
    let run = gwctl(&format!(
        "trace --next --raw --local={endless} --timeout 300ms"
    ));
    assert_eq!(run.code, Some(1));
    assert_eq!(run.out, "{\"message\":{\"type\":\"novel\"}}\n");
    assert!(run.err.contains("timed out"), "{}", run.err);
    let run = gwctl(&format!("trace --next --local={endless} --timeout 300ms"));
    assert!(
        run.out.contains("novel (unknown event type)"),
        "{}",
        run.out
    );
}

#[test]
fn a_flood_of_events_is_rejected() {
    let flood = server(|mut stream| {
        let event = "data: {\"message\":{\"type\":\"novel\"}}\n\n".repeat(100);
        forever(&mut stream, EVENTS, &event, Duration::ZERO);
    });
    let run = gwctl(&format!("trace --next --local={flood} --timeout 10s"));
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("more than 10000 events"), "{}", run.err);
    let line = server(|mut stream| {
        let endless = "x".repeat(1 << 16);
        forever(&mut stream, EVENTS, &endless, Duration::ZERO);
    });
    let run = gwctl(&format!("trace --next --local={line} --timeout 10s"));
    assert!(run.err.contains("longer than 4 MiB"), "{}", run.err);
}

#[test]
fn an_unexpected_response_suggests_checking_the_address() {
    let html = "HTTP/1.1 200 OK\r\n\r\n<html>";
    let no_event = format!("{EVENTS}data: <html>\n\n");
    let busy = "HTTP/1.1 409 Conflict\r\n\r\n{\"error\":\"busy\"}";
    for (answer, command, expected) in [
        (
            "220 mail.example ESMTP\r\n",
            "config all",
            "no HTTP response",
        ),
        ("", "memory", "no HTTP response"),
        (html, "config all", "not a configuration dump"),
        (html, "tasks", "unexpected response"),
        (html, "log", "is not a log level"),
        (html, "profile heap -o -", "is not a profile"),
        (html, "profile heap --flamegraph -o -", "is not a profile"),
        (
            "HTTP/1.1 404 Not Found\r\n\r\nno",
            "log",
            "of the same version",
        ),
        (&no_event, "trace --next", "is not a trace"),
        (html, "trace --next", "closed the trace before it started"),
        (busy, "trace --next", "409 Conflict: busy"),
    ] {
        let answer = answer.to_owned();
        let address = server(move |mut stream| drop(stream.write_all(answer.as_bytes())));
        let run = gwctl(&format!("{command} --local={address} --timeout 5s"));
        assert_eq!(run.code, Some(1), "{command}: {}", run.err);
        assert!(run.err.contains(expected), "{command}: {}", run.err);
    }
}

#[test]
fn a_response_without_a_trace_explains_which_gateway_may_have_sent_it() {
    let admin = server(|mut stream| forever(&mut stream, EVENTS, ": keepalive\n\n", PAUSE));
    for (status, expected) in [
        ("204 No Content", "not from this gateway"),
        // May come from this gateway, which rejects malformed requests before tracing.
        ("417 Expectation Failed", "gateway_refused_total"),
    ] {
        let other = server(move |mut stream| {
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            drop(stream.write_all(answer.as_bytes()));
        });
        let (_, port) = other.rsplit_once(':').expect("a port");
        let run = gwctl(&format!("trace --local={admin} --port {port} -- http://h/"));
        assert_eq!(run.code, Some(1));
        for expected in [status, expected, "gwctl config listeners"] {
            assert!(run.err.contains(expected), "{status}: {}", run.err);
        }
    }
}

#[test]
fn a_full_output_device_is_an_error_without_a_panic() {
    for (line, code) in [("completion bash", 1), ("check /nowhere", 1)] {
        let full = File::options().write(true).open("/dev/full");
        let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
            .args(line.split_whitespace())
            .stdout(full.expect("a device of every Linux"))
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{line}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.starts_with("error: "), "{line}: {error}");
    }
}

#[test]
fn exit_codes_distinguish_usage_errors_from_failures() {
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = unused.local_addr().expect("its address");
    drop(unused);
    for (line, code, expected) in [
        ("config", 2, "Usage"),
        ("config all --file a --file b", 2, "only one source"),
        ("config diff --file a", 2, "--config FILE"),
        ("profile cpu --seconds 0", 2, "1..=300"),
        ("config all", 1, "--local"),
        ("config all --file /nowhere", 1, "cannot open /nowhere"),
        ("trace --file a --next", 1, "--local=HOST:PORT"),
        ("config all --local=nowhere", 1, "HOST:PORT"),
        ("check /nowhere", 1, "cannot read /nowhere"),
        ("check /dev/zero", 1, "not a regular file"),
    ] {
        let run = gwctl(line);
        assert_eq!(run.code, Some(code), "{line}: {}", run.err);
        assert!(run.err.contains(expected), "{line}: {}", run.err);
    }
    let run = gwctl(&format!("memory --local={address}"));
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("is the gateway running"), "{}", run.err);
}
