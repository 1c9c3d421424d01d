//! Passwords under a flood of wrong ones: what others notice of it.
//!
//! It measures, and so runs by name, with a release build, two minutes a driver: `GATEWAY_UNDER_TEST=target/release/gateway
//! cargo test --release -p proxy --all-features --test wire passwords_load -- --ignored --nocapture --test-threads 1`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use socket2::{Domain, Socket, Type};

use crate::support::{Gateway, TIMEOUT, gateway, on_both_drivers};

/// As `htpasswd -nbB -C 10 NAME right` prints it without the name.
const RIGHT: &str = "$2y$10$LpymErwTCcl0YVBv/d9N9OiTGovH1k7fc4M5md3z/PY1VoDF4dPUW";
/// Users who sign in during a flood, each for the first time.
const NEWCOMERS: usize = 20;
/// Wrong passwords a second.
const RATE: u32 = 1000;
/// How long each part takes.
const PART: Duration = Duration::from_secs(15);

fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from: SocketAddr = (from, 0).into();
    socket.bind(&from.into()).expect("an address of this host");
    socket.connect(&to.into()).expect("the listener accepts");
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).expect("a socket of ours");
    stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
    stream
}

fn request(path: &str, user: &str, password: &str) -> String {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nAuthorization: Basic {pair}\r\n\r\n")
}

/// Sends a request and returns the status of its response, which is short.
fn asks(stream: &mut TcpStream, request: &str) -> u16 {
    stream.write_all(request.as_bytes()).expect("it is open");
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut part).expect("a response");
        assert!(read > 0, "the connection is kept");
        all.extend_from_slice(&part[..read]);
        if let Some(status) = whole(&all) {
            return status;
        }
    }
}

/// The status of a response that has come as a whole.
fn whole(bytes: &[u8]) -> Option<u16> {
    let text = str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse().ok())?
    });
    let length: usize = length.unwrap_or(0);
    (body.len() >= length).then(|| head[9..12].parse().expect("a status"))
}

/// A connection of the flood, and whether it waits for a response.
struct Guesser {
    stream: TcpStream,
    waits: bool,
    received: Vec<u8>,
}

/// Sends wrong passwords, each another one, from these addresses in turn, until told to end; how many were sent, and how
/// many of them got 503.
fn floods(to: SocketAddr, addresses: &[Ipv4Addr], has_ended: &AtomicBool) -> (u64, u64) {
    let mut guessers: Vec<Guesser> = { addresses.iter() }
        .map(|from| {
            let stream = connect(*from, to);
            stream.set_nonblocking(true).expect("a socket of ours");
            Guesser {
                stream,
                waits: false,
                received: Vec::new(),
            }
        })
        .collect();
    let (began, number) = (Instant::now(), guessers.len());
    let (mut sent, mut refused, mut next) = (0_u64, 0, 0);
    while !has_ended.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
        for guesser in guessers.iter_mut().filter(|it| it.waits) {
            let mut part = [0; 1024];
            match guesser.stream.read(&mut part) {
                Ok(0) => panic!("the connection is kept"),
                Ok(read) => guesser.received.extend_from_slice(&part[..read]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            if let Some(status) = whole(&guesser.received) {
                assert!([401, 503].contains(&status), "{status}");
                refused += u64::from(status == 503);
                guesser.received.clear();
                guesser.waits = false;
            }
        }
        let due = began.elapsed().as_millis() * u128::from(RATE) / 1000;
        for _ in 0..number {
            if u128::from(sent) >= due {
                break;
            }
            next = (next + 1) % number;
            let guesser = &mut guessers[next];
            if !guesser.waits {
                let wrong = request("/staff", "alice", &format!("wrong-{sent}"));
                guesser.stream.write_all(wrong.as_bytes()).expect("short");
                guesser.waits = true;
                sent += 1;
            }
        }
    }
    (sent, refused)
}

/// Sends a request every two milliseconds for a while, and returns the median and the 99th percentile.
fn measures(to: SocketAddr, request: &str) -> (Duration, Duration) {
    let mut stream = connect(Ipv4Addr::new(127, 0, 0, 9), to);
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < PART {
        let sent = Instant::now();
        assert_eq!(asks(&mut stream, request), 200);
        times.push(sent.elapsed());
        thread::sleep(Duration::from_millis(2));
    }
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

/// How long each newcomer's first sign-in takes, and how often it was told to come again.
fn sign_in(to: SocketAddr, names: &[String]) -> Vec<(Duration, usize)> {
    let mut all = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let address = Ipv4Addr::new(127, 0, 2, u8::try_from(index + 1).expect("few"));
        let mut stream = connect(address, to);
        let (began, mut again) = (Instant::now(), 0);
        while asks(&mut stream, &request("/staff", name, "right")) != 200 {
            again += 1;
            if began.elapsed() > Duration::from_secs(10) {
                break;
            }
        }
        all.push((began.elapsed(), again));
    }
    all
}

fn starts(driver: crate::support::Driver) -> Gateway {
    let names = (0..3 * NEWCOMERS).map(|it| format!("new-{it}"));
    let lines: Vec<String> = { ["alice".to_owned(), "vera".to_owned()].into_iter() }
        .chain(names)
        .map(|name| format!("{name}:{RIGHT}"))
        .collect();
    let file = lines.join("\\n");
    gateway(driver)
        .shards(2)
        .rule("{name: staff, matches: [{path: {value: /staff}}], filters: []}")
        .rule("{matches: [{path: {value: /open}}], filters: []}")
        .document(&format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: users}}\nstringData: {{auth: \"{file}\"}}\n"
        ))
        .policy("respond: {status: 200, body: ok}")
        .policy_of("HTTPRoute/route-0/staff", "basicAuth: {secretRefs: [{name: users}]}")
        .start()
}

on_both_drivers! {
    #[ignore = "measures, for two minutes"]
    fn others_hardly_notice_a_flood_of_wrong_passwords(driver) {
        let gateway = starts(driver);
        let to = gateway.address();
        let vera = request("/staff", "vera", "right");
        let open = "GET /open HTTP/1.1\r\nHost: a.test\r\n\r\n";
        assert_eq!(asks(&mut connect(Ipv4Addr::LOCALHOST, to), &vera), 200);
        let names: Vec<String> = (0..3 * NEWCOMERS).map(|it| format!("new-{it}")).collect();
        let one = vec![Ipv4Addr::new(127, 0, 1, 1); 150];
        let thousand: Vec<Ipv4Addr> = (0..1000_u32)
            .map(|it| Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + it))
            .collect();
        let mut slow: Vec<(Duration, usize)> = Vec::new();
        for (what, addresses) in [("no flood", vec![]), ("one address", one), ("a thousand", thousand)] {
            let has_ended = AtomicBool::new(false);
            let part = match what {
                "no flood" => &names[..NEWCOMERS],
                "one address" => &names[NEWCOMERS..2 * NEWCOMERS],
                _ => &names[2 * NEWCOMERS..],
            };
            thread::scope(|scope| {
                let flood = (!addresses.is_empty())
                    .then(|| scope.spawn(|| floods(to, &addresses, &has_ended)));
                let (of_open, of_vera) = (measures(to, open), measures(to, &vera));
                let mut new = sign_in(to, part);
                has_ended.store(true, Ordering::Relaxed);
                let (sent, refused) = flood.map_or((0, 0), |it| it.join().expect("the flood"));
                new.sort_unstable();
                let again: usize = new.iter().map(|(_, again)| again).sum();
                eprintln!(
                    "{driver:?}, {what}: {sent} wrong, {refused} of them 503; without a password p50 {:?} p99 {:?}; \
                     known p50 {:?} p99 {:?}; first sign-ins median {:?} longest {:?}, {again} times 503",
                    of_open.0, of_open.1, of_vera.0, of_vera.1, new[new.len() / 2].0, new[new.len() - 1].0,
                );
                if what != "a thousand" {
                    slow.extend(new.iter().filter(|(took, again)| *took > Duration::from_secs(1) || *again > 0));
                }
            });
        }
        // After all parts were printed: on a busy machine, threads of low priority are slow.
        assert!(slow.is_empty(), "first sign-ins took too long: {slow:?}");
    }
}
