//! The loader for fixed rates and echoes: one thread over epoll, every byte verified.
//!
//! A timer descriptor wakes it: epoll's own timeout carries the thread's timer slack (50 µs),
//! which would be measured as the proxy's latency.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::client::{FeedResult, LoadRequest, Reading};
use super::latency::{Collector, LatencyBasis};
use super::pacing::Pacer;
use super::target::LoadTarget;
use super::turn::{Load, LoadResult, ResponseCount};
use crate::probe::upgrade;

/// The connections, and the one thread's way to wait for them.
pub(super) struct Paced {
    address: SocketAddr,
    rate: Option<u32>,
    /// Whether a connection may break: configuration changes.
    may_break: bool,
    exchange: LoadRequest,
    poll: OwnedFd,
    timer: OwnedFd,
    events: Vec<Event>,
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    in_flight: usize,
    requests: u64,
    lost: u64,
    buffer: Vec<u8>,
}

impl Load for Paced {
    /// Runs in the calling thread. The schedule restarts with each turn.
    fn turn(&mut self, duration: Duration) -> Result<LoadResult> {
        let (requests, lost) = (self.requests, self.lost);
        let basis = self
            .rate
            .map_or(LatencyBasis::ClosedLoop, |_| LatencyBasis::Corrected);
        let mut latency = Collector::new(basis);
        // Connections that the proxy closed since the last turn are reopened before the first
        // request is due.
        self.wait(Instant::now(), &mut latency)?;
        let start = Instant::now();
        self.follow(Pacer::new(start, duration, self.rate), &mut latency)?;
        ensure!(self.requests > requests, "no request was answered");
        Ok(LoadResult {
            seconds: start.elapsed().as_secs_f64(),
            latency: Some(latency),
            lost: self.lost - lost,
            ..LoadResult::default()
        })
    }

    fn end(&mut self) -> Result<ResponseCount> {
        Ok(ResponseCount {
            requests: self.requests,
            unanswered: self.lost,
        })
    }
}

struct Connection {
    stream: TcpStream,
    /// When the request in flight was due; none while idle.
    due: Option<Instant>,
    /// How much of it is sent.
    sent: usize,
    reading: Reading,
}

impl Paced {
    pub(super) fn connect(target: LoadTarget<'_>) -> Result<Self> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        epoll::add(&poll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let exchange = LoadRequest::of(target.case);
        let mut connections = Vec::new();
        for token in 0..target.case.load.connections {
            let stream = open(target.address, &exchange)?;
            let token = EventData::new_u64(token as u64);
            epoll::add(&poll, &stream, token, EventFlags::IN)?;
            connections.push(Connection {
                stream,
                due: None,
                sent: 0,
                reading: Reading::default(),
            });
        }
        Ok(Self {
            address: target.address,
            rate: target.case.load.rate,
            may_break: target.case.churn_ms.is_some(),
            exchange,
            poll,
            timer,
            events: Vec::with_capacity(256),
            idle: (0..connections.len()).collect(),
            connections,
            in_flight: 0,
            requests: 0,
            lost: 0,
            buffer: vec![0; 64 * 1024],
        })
    }

    /// Sends the due requests until all are answered.
    fn follow(&mut self, mut pacer: Pacer, latency: &mut Collector) -> Result<()> {
        let give_up = pacer.end() + DRAIN;
        loop {
            let now = Instant::now();
            self.send_due(&mut pacer, now)?;
            let next = pacer.due(now);
            if next.is_none() && self.in_flight == 0 {
                return Ok(());
            }
            ensure!(
                now < give_up,
                "it cannot keep the rate: {}",
                self.backlog(next, now)
            );
            // Before the end there is either a connection or a point in time to wait for.
            let moment = next.filter(|_| !self.idle.is_empty());
            self.wait(moment.unwrap_or(give_up), latency)?;
        }
    }

    fn send_due(&mut self, pacer: &mut Pacer, now: Instant) -> Result<()> {
        while let Some(&index) = self.idle.front() {
            let Some(due) = pacer.take(now) else {
                return Ok(());
            };
            self.idle.pop_front();
            if let Some(connection) = self.connections.get_mut(index) {
                connection.due = Some(due);
                connection.sent = 0;
            }
            self.in_flight += 1;
            self.write(index)?;
        }
        Ok(())
    }

    /// Sends what the socket takes, and waits for room only if it does not take all.
    fn write(&mut self, index: usize) -> Result<()> {
        let Some(connection) = self.connections.get_mut(index) else {
            return Ok(());
        };
        let rest = self
            .exchange
            .request
            .get(connection.sent..)
            .unwrap_or_default();
        match connection.stream.write(rest) {
            Ok(written) => connection.sent += written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return self.broken(index),
        }
        if connection.sent < self.exchange.request.len() {
            let both = EventFlags::IN | EventFlags::OUT;
            epoll::modify(
                &self.poll,
                &connection.stream,
                EventData::new_u64(index as u64),
                both,
            )?;
        }
        Ok(())
    }

    fn wait(&mut self, until: Instant, collector: &mut Collector) -> Result<()> {
        self.arm(until.saturating_duration_since(Instant::now()))?;
        self.events.clear();
        match epoll::wait(
            &self.poll,
            rustix::buffer::spare_capacity(&mut self.events),
            None,
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = std::mem::take(&mut self.events);
        for event in &events {
            // The timer is level-triggered, and armed again before the next wait.
            let Ok(index) = usize::try_from(event.data.u64()) else {
                continue;
            };
            if index >= self.connections.len() {
                continue;
            }
            let flags = event.flags;
            if flags.contains(EventFlags::OUT) {
                self.resume_write(index)?;
            }
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                self.read(index, collector)?;
            }
        }
        self.events = events;
        Ok(())
    }

    fn arm(&self, wait: Duration) -> Result<()> {
        // Zero would disarm it.
        let wait = wait.max(Duration::from_nanos(1));
        let it_value = Timespec::try_from(wait).context("too far ahead")?;
        let it_interval = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec {
                it_interval,
                it_value,
            },
        )?;
        Ok(())
    }

    fn resume_write(&mut self, index: usize) -> Result<()> {
        if let Some(connection) = self.connections.get(index) {
            let token = EventData::new_u64(index as u64);
            epoll::modify(&self.poll, &connection.stream, token, EventFlags::IN)?;
            if connection.due.is_some() && connection.sent < self.exchange.request.len() {
                return self.write(index);
            }
        }
        Ok(())
    }

    fn read(&mut self, index: usize, collector: &mut Collector) -> Result<()> {
        let Some(connection) = self.connections.get_mut(index) else {
            return Ok(());
        };
        let read = match connection.stream.read(&mut self.buffer) {
            Ok(0) => return self.broken(index),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => return self.broken(index),
        };
        let Some(due) = connection.due else {
            bail!("received bytes that were not requested")
        };
        let bytes = self.buffer.get(..read).unwrap_or_default();
        let fed = connection.reading.feed(bytes, &self.exchange)?;
        if fed == FeedResult::More {
            return Ok(());
        }
        collector.record(due.elapsed());
        connection.due = None;
        self.requests += 1;
        self.in_flight -= 1;
        self.idle.push_back(index);
        if fed == FeedResult::DoneAndClose {
            self.reopen(index)
        } else {
            Ok(())
        }
    }

    /// The proxy closed a connection: its right while idle, a lost request otherwise.
    fn broken(&mut self, index: usize) -> Result<()> {
        let Some(connection) = self.connections.get_mut(index) else {
            return Ok(());
        };
        if connection.due.take().is_some() {
            let part = if connection.reading.untouched() {
                "before"
            } else {
                "within"
            };
            ensure!(self.may_break, "a connection was closed {part} a response");
            self.lost += 1;
            self.in_flight -= 1;
            self.idle.push_back(index);
        }
        self.reopen(index)
    }

    fn reopen(&mut self, index: usize) -> Result<()> {
        let stream = open(self.address, &self.exchange)?;
        epoll::add(
            &self.poll,
            &stream,
            EventData::new_u64(index as u64),
            EventFlags::IN,
        )?;
        if let Some(slot) = self.connections.get_mut(index) {
            // Closing the old one takes it off the epoll.
            slot.stream = stream;
            slot.reading = Reading::default();
        }
        Ok(())
    }

    fn backlog(&self, next: Option<Instant>, now: Instant) -> String {
        let behind = next.map_or(Duration::ZERO, |next| now.saturating_duration_since(next));
        format!(
            "{behind:?} behind, {} in flight, {} answered",
            self.in_flight, self.requests
        )
    }
}

/// Connects, and upgrades where the exchange begins with that.
fn open(address: SocketAddr, exchange: &LoadRequest) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).context("it does not accept connections")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DRAIN))?;
    if !exchange.opening.is_empty() {
        upgrade(&mut stream, exchange)?;
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

const TIMER: u64 = u64::MAX;
/// How long the last requests may take once the time is up.
const DRAIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::Path;
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::origin::http1::{Conversation, ResponseTable};
    use crate::scenario::{Case, parse};

    fn case(load: &str) -> Case {
        let text = format!("id='T'\ntitle='t'\nwhy='w'\nfront='http1'\nload={{{load}}}");
        parse(&text).expect("case").remove(0)
    }

    /// Answers one connection; before answer number `stall_at` it waits until it is resumed.
    fn origin(stall_at: u64, resumed: mpsc::Receiver<()>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            let (answers, mut talk) = (ResponseTable::default(), Conversation::default());
            let (mut input, mut chunk) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                input.extend_from_slice(&chunk[..read]);
                while let Some(answer) = talk.next(&input, &answers) {
                    if answers.counted() == stall_at {
                        resumed.recv().expect("the test resumes it");
                    }
                    stream.write_all(answer.reply.as_slice()).expect("write");
                    input.drain(..answer.consumed);
                }
            }
        });
        address
    }

    fn paced(case: &Case, address: SocketAddr) -> Paced {
        let folder = Path::new(".");
        let target = LoadTarget {
            address,
            proxy: 0,
            case,
            certificate: None,
            folder,
            answer_size: 0,
        };
        Paced::connect(target).expect("connects")
    }

    #[test]
    fn every_scheduled_request_is_answered_in_each_turn() {
        let (_resume, resumed) = mpsc::channel();
        let address = origin(u64::MAX, resumed);
        let case = case("with='paced', connections=1, bytes=100, rate=500");
        let mut paced = paced(&case, address);
        for turns in 1..=2 {
            let turn = paced.turn(Duration::from_millis(200)).expect("runs");
            assert!(turn.seconds >= 0.19 && turn.latency.is_some());
            assert_eq!(paced.requests, turns * 100);
        }
        let account = paced.end().expect("ends");
        assert_eq!((account.requests, account.unanswered), (200, 0));
    }

    #[test]
    fn echoes_are_verified_at_full_load() {
        let (_resume, resumed) = mpsc::channel();
        let address = origin(u64::MAX, resumed);
        let case = case("with='paced', connections=1, bytes=100000, echo=true");
        let mut paced = paced(&case, address);
        paced.turn(Duration::from_millis(50)).expect("runs");
        assert!(paced.requests > 0);
    }

    /// The server stalls until 150 ms of the run have passed, which shows in the requests due in
    /// that time.
    #[test]
    fn a_stalled_server_shows_in_the_median_of_a_paced_run() {
        let (resume, resumed) = mpsc::channel();
        let address = origin(10, resumed);
        let case = case("with='paced', connections=1, bytes=10, rate=1000");
        let (stop, stopped) = mpsc::channel::<()>();
        let timer = thread::spawn(move || {
            // The time-out is the script of the slow server, not a wait for an event.
            let _ = stopped.recv_timeout(Duration::from_millis(150));
            resume.send(()).expect("origin listens");
        });
        let mut paced = paced(&case, address);
        let turn = paced.turn(Duration::from_millis(160)).expect("runs");
        drop(stop);
        timer.join().expect("no panic");
        assert_eq!(paced.requests, 160);
        let latency = turn.latency.expect("some").latency().expect("some");
        let median = latency.at(0.5).expect("kept");
        assert!(median > 20_000.0, "median {median} µs hides the stall");
    }

    #[test]
    fn a_wrong_answer_fails_the_run() {
        let (_resume, resumed) = mpsc::channel();
        let address = origin(u64::MAX, resumed);
        let case = case("with='paced', connections=1, bytes=10, rate=1000");
        let mut paced = paced(&case, address);
        paced.exchange.request = b"GET /nothing HTTP/1.1\r\n\r\n".to_vec();
        let error = paced
            .turn(Duration::from_millis(100))
            .expect_err("wrong")
            .to_string();
        assert!(error.contains("404"), "{error}");
    }
}
