//! The effect of a flood on another client of the same shard: its 99th percentile latency, compared
//! with that of quiet periods in between. It measures, so it runs only on request, on a quiet
//! machine with two or more cores and with a release build:
//! `GATEWAY_UNDER_TEST=target/release/gateway cargo test -p proxy --all-features --test wire
//! h2_neighbours -- --ignored --nocapture`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use proxy::machine::cpu::Cpus;
use rustix::io::Errno;
use rustix::process::{Pid, nice};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::h2_floods::{FLOODS, Flood};
use crate::support::frames::Peer;
use crate::support::{Client, Driver, Gateway, gateway, on_both_drivers, origin};

on_both_drivers! {
    #[ignore = "measures"]
    fn a_flood_at_most_doubles_the_latency_of_neighbours(driver) {
        let cores = Cpus::of_this_process().set;
        let mut above = Vec::new();
        for flood in FLOODS {
            let [quiet, flooded] = measure(driver, &cores, flood);
            let times = flooded.as_secs_f64() / quiet.as_secs_f64();
            eprintln!("{driver:?}, {}: p99 {quiet:.0?} quiet, {flooded:.0?} flooded, {times:.2} times", flood.name);
            if times > 2.0 {
                above.push(flood.name);
            }
        }
        assert!(above.is_empty(), "more than twice: {above:?}");
    }
}

/// The 99th percentiles in quiet times and under a flood, alternating, so that other load of the
/// machine affects both.
fn measure(driver: Driver, cores: &[usize], flood: &Flood) -> [Duration; 2] {
    let origin = origin();
    let gateway = gateway(driver).routes_to(&origin).start();
    let _apart = CpuIsolation::new(&gateway, cores);
    let mut neighbour = gateway.client();
    let (flooding, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let bytes = flood.bytes();
    let mut times = [Vec::new(), Vec::new()];
    std::thread::scope(|scope| {
        let flooder = scope.spawn(|| {
            nice(19).expect("anyone may be nicer");
            while !over.load(Ordering::Acquire) {
                if flooding.load(Ordering::Acquire) {
                    send(gateway.address(), &bytes);
                } else {
                    std::thread::park();
                }
            }
        });
        let _ends = StopOnDrop {
            over: &over,
            flooder: flooder.thread(),
        };
        for _ in 0..TURNS {
            for (flooded, times) in [false, true].into_iter().zip(&mut times) {
                flooding.store(flooded, Ordering::Release);
                flooder.thread().unpark();
                times.extend((0..REQUESTS).map(|_| time(&mut neighbour)));
            }
        }
    });
    times.map(percentile)
}

/// While it exists, the gateway has a core of its own. The neighbour and its origin share the
/// others with the flooder, which has the lowest priority: it takes only the gateway's time from
/// them.
struct CpuIsolation<'a>(&'a [usize]);

impl<'a> CpuIsolation<'a> {
    fn new(gateway: &Gateway, cores: &'a [usize]) -> Self {
        let (own, others) = cores.split_first().expect("a core");
        bind(gateway.pid(), &[*own]);
        bind(std::process::id(), others);
        Self(cores)
    }
}

impl Drop for CpuIsolation<'_> {
    fn drop(&mut self) {
        bind(std::process::id(), self.0);
    }
}

fn bind(process: u32, cores: &[usize]) {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    for thread in threads(process) {
        // Some are at their end: those of the last flood's origin.
        let bound = sched_setaffinity(Some(thread), &set);
        assert!(matches!(bound, Ok(()) | Err(Errno::SRCH)), "{bound:?}");
    }
}

fn threads(process: u32) -> impl Iterator<Item = Pid> {
    let folder = std::fs::read_dir(format!("/proc/{process}/task")).expect("a process of ours");
    folder.map(|entry| {
        let name = entry.expect("a thread").file_name();
        let id = name.to_str().and_then(|name| name.parse().ok());
        Pid::from_raw(id.expect("a number")).expect("not 0")
    })
}

/// Ends the flooder, also if a request of the neighbour fails: the scope waits for it before it
/// propagates a panic.
struct StopOnDrop<'a> {
    over: &'a AtomicBool,
    flooder: &'a Thread,
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.flooder.unpark();
    }
}

/// A connection of a flood, to its end.
fn send(address: SocketAddr, bytes: &[u8]) {
    let mut peer = Peer::client(address);
    peer.sends(bytes);
    while peer.next().is_some() {}
}

fn time(neighbour: &mut Client) -> Duration {
    let started = Instant::now();
    neighbour.gets("/").expects(200);
    started.elapsed()
}

fn percentile(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

const TURNS: usize = 5;

const REQUESTS: usize = 200;
