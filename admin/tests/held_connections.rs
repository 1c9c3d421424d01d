//! Probes and scrapes are answered while others hold hundreds of connections.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use admin::{Address, BoundSockets, Handles, LogControl, Server, Sockets};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing_subscriber::{EnvFilter, Registry, reload};

/// How a client holds a connection.
#[derive(Debug, Clone, Copy)]
enum Holder {
    /// Sends nothing.
    Idle,
    /// Sends a byte of a request now and then.
    Trickling,
    /// Sends requests, and reads one byte of the responses.
    HalfReading,
}

/// Holds a connection, until the server closes it.
async fn hold(address: SocketAddr, path: &str, holder: Holder, held: &AtomicUsize) {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return;
    };
    held.fetch_add(1, Ordering::Relaxed);
    match holder {
        Holder::Idle => drop(stream.read(&mut [0]).await),
        Holder::Trickling => {
            let endless =
                std::iter::once(&b"GET / HTTP/1.1\r\nx: "[..]).chain(std::iter::repeat(&b"x"[..]));
            for part in endless {
                if stream.write_all(part).await.is_err() {
                    break;
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        Holder::HalfReading => {
            let requests = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").repeat(8);
            let _ = stream.write_all(requests.as_bytes()).await;
            let _ = stream.read_exact(&mut [0]).await;
            // The server closes it without a byte that could be read, so only a write fails.
            while stream.try_write(b"\r\n").is_ok_and(|count| count > 0) {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    held.fetch_sub(1, Ordering::Relaxed);
}

/// The response to a GET on a new connection from this address.
async fn get(from: [u8; 4], address: SocketAddr, path: &str) -> std::io::Result<String> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let mut stream = socket.connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    match timeout(TIMEOUT, stream.read_to_string(&mut response)).await {
        Ok(read) => read.map(|_| response),
        Err(_) => Err(ErrorKind::TimedOut.into()),
    }
}

/// Whether those who hold connections open another one when it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Never,
    Always,
}

/// Holds hundreds of connections.
fn hold_all(address: SocketAddr, path: &'static str, holder: Holder, again: Again) -> Held {
    let held = Arc::new(AtomicUsize::new(0));
    let mut holders = JoinSet::new();
    for _ in 0..HOLDERS {
        let held = Arc::clone(&held);
        holders.spawn(async move {
            hold(address, path, holder, &held).await;
            if again == Again::Always {
                loop {
                    sleep(Duration::from_millis(200)).await;
                    hold(address, path, holder, &held).await;
                }
            }
        });
    }
    Held { held, holders }
}

struct Held {
    held: Arc<AtomicUsize>,
    holders: JoinSet<()>,
}

/// Probes a server in several rounds while hundreds of connections are held in each way: from the address
/// of those who hold them, and from another one while they always open new connections.
async fn probes_are_answered(address: SocketAddr, path: &'static str, expected: &str) {
    let ways = [Holder::Idle, Holder::Trickling, Holder::HalfReading];
    let again = [
        ([127, 0, 0, 1], Again::Never),
        ([127, 0, 0, 2], Again::Always),
    ];
    for (holder, (from, again)) in ways.into_iter().flat_map(|way| again.map(|it| (way, it))) {
        let mut all = hold_all(address, path, holder, again);
        let mut shortest = TIMEOUT;
        for round in 0..ROUNDS {
            while round == 0 && all.held.load(Ordering::Relaxed) < HELD_AT_LEAST {
                sleep(Duration::from_millis(10)).await;
            }
            let case = format!("{path}, {holder:?}, {again:?}, {round}");
            let started = Instant::now();
            let response = get(from, address, path).await;
            shortest = shortest.min(started.elapsed());
            let response = response.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(
                response.starts_with("HTTP/1.1 200 "),
                "{case}: {response:.100}"
            );
            assert!(response.ends_with(expected), "{case}");
        }
        // One of several, since a machine may be busy.
        assert!(
            shortest < Duration::from_secs(1),
            "{holder:?}: {shortest:?}"
        );
        all.holders.shutdown().await;
    }
}

fn bind() -> (BoundSockets, SocketAddr) {
    let bound = admin::bind(&"127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let addresses = bound.addresses();
    let [Address::Tcp(address)] = &addresses[..] else {
        panic!("{addresses:?}");
    };
    (bound, *address)
}

/// Handles of a process that is ready, with metrics that fill all buffers of a connection.
fn handles() -> Handles {
    let (_layer, handle) = reload::Layer::<_, Registry>::new(EnvFilter::new("info"));
    let log = LogControl::new(handle, "info".to_owned());
    Handles {
        metrics: Box::new(|format, _| {
            let text = "a_metric 1\n".repeat(1 << 19) + "# EOF\n";
            (format.content_type(), text)
        }),
        ..Handles::of_process(log)
    }
}

type Start = fn(Sockets, Handles) -> std::io::Result<Server>;

fn test(start: Start, path: &'static str, expected: &str) {
    let ((readiness, probes), (metrics, scrapes)) = (bind(), bind());
    let sockets = Sockets {
        readiness,
        metrics,
        ..Sockets::default()
    };
    let _server = start(sockets, handles()).expect("it starts");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        probes_are_answered(probes, path, expected).await;
        probes_are_answered(scrapes, "/metrics", "# EOF\n").await;
    });
}

#[test]
fn probes_of_a_proxy_are_answered_while_others_hold_connections() {
    let start: Start = |sockets, handles| admin::start(sockets, handles, Vec::new());
    test(start, "/healthz/ready", "ready\n");
}

#[test]
fn probes_of_another_process_are_answered_while_others_hold_connections() {
    test(admin::start_for_process, "/readyz", "ok\n");
}

/// More than a server keeps open.
const HOLDERS: usize = 300;
/// As many as a server keeps open, without those that it has just closed.
const HELD_AT_LEAST: usize = 100;
const ROUNDS: usize = 5;
/// For anything that is not supposed to take long.
const TIMEOUT: Duration = Duration::from_secs(20);
