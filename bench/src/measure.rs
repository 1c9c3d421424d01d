//! One run of one peer: set up, warmed up, measured in slices, verified. `turns` has it wait while
//! others have theirs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::cpu::Meter;
use crate::load::latency::Collector;
use crate::load::{self, Account, Load, Turn};
use crate::noise::Window;
use crate::origin::{Kind, Origin};
use crate::peers::Peer;
use crate::probe;
use crate::procfs::{Usage, ticks_to_us};
use crate::record::Measured;
use crate::scenario::{Case, Loader};
use crate::slice::{Settling, Slice, Sum, divide};
use crate::stats::count64;
use crate::subject::Subject;
use crate::syscalls::Counter;

/// How runs are made.
#[derive(Debug, Clone)]
pub(crate) struct Method {
    /// Measured time of a run.
    pub(crate) duration: Duration,
    /// How long a slice of it is, where a scenario does not say.
    pub(crate) slice: Duration,
    /// Load before it.
    pub(crate) warm_up: Duration,
    /// How long to wait for a quiet machine.
    pub(crate) patience: Duration,
    /// Cores of the proxy, one per worker.
    pub(crate) proxy_cores: Vec<usize>,
    /// Cores of load and origin.
    pub(crate) load_cores: Vec<usize>,
    /// The origin.
    pub(crate) origin: Kind,
    /// Whether system calls are counted.
    pub(crate) count_syscalls: bool,
}

impl Method {
    /// The cores of the proxy in `case`.
    fn cores_of(&self, case: &Case) -> Result<Vec<usize>> {
        let workers = self.proxy_cores.get(..case.workers);
        let workers = workers
            .with_context(|| format!("{} workers need as many --proxy-cores", case.workers))?;
        let mut cores = workers.to_vec();
        if case.apart {
            // Workers that are told to bind themselves take the first cores there are.
            let others = self
                .load_cores
                .iter()
                .filter(|core| !workers.contains(core));
            cores.extend(others);
            ensure!(
                cores.is_sorted(),
                "{} needs --proxy-cores below --load-cores",
                case.name()
            );
        }
        Ok(cores)
    }

    /// How many slices a run of `case` has, and how long each is.
    pub(crate) fn slices_of(&self, case: &Case) -> (u32, Duration) {
        match case.load.with {
            // It takes the time that its connections take.
            Loader::Idle => (1, self.duration),
            _ => divide(self.duration, case.slice().unwrap_or(self.slice)),
        }
    }
}

/// A run: a proxy between a load and an origin, and what has been measured of it so far.
pub(crate) struct Bench<'a> {
    case: &'a Case,
    method: &'a Method,
    subject: Subject<'a>,
    origin: Origin,
    load: Box<dyn Load>,
    proxy_cpu: Meter,
    origin_cpu: Meter,
    /// The origin's count before the load began.
    counted_before: u64,
    /// The proxy's use and the origin's count before the first slice.
    before_slices: (Usage, u64),
    sum: Sum,
}

impl<'a> Bench<'a> {
    /// Starts origin, proxy and load, which waits. All they write goes below `folder`.
    pub(crate) fn set_up(
        peer: &'a dyn Peer,
        case: &'a Case,
        method: &'a Method,
        folder: &Path,
    ) -> Result<Self> {
        let origin = Origin::start(method.origin, case, &method.load_cores, folder)?;
        let cores = method.cores_of(case)?;
        let subject = Subject::start(peer, case, origin.address(), &cores, folder)?;
        let counted_before = origin.counted()?;
        let load = load::start(subject.aim())?;
        Ok(Self {
            case,
            method,
            proxy_cpu: Meter::start(subject.running.pid())?,
            origin_cpu: Meter::start(origin.pid())?,
            subject,
            origin,
            load,
            counted_before,
            before_slices: (Usage::default(), counted_before),
            sum: Sum::default(),
        })
    }

    /// The load's first turn, which is not measured.
    pub(crate) fn warm_up(&mut self) -> Result<()> {
        if !self.is_idle() {
            self.turn(self.method.warm_up).context("while warming up")?;
        }
        let usage = Usage::of_tree(self.subject.running.pid())?;
        self.before_slices = (usage, self.settle()?);
        Ok(())
    }

    /// A slice of the run. One that was disturbed is measured anew, a few times.
    pub(crate) fn slice(&mut self, duration: Duration, ours: &mut Meter) -> Result<()> {
        let mut slice = self.measured(duration, ours)?;
        for _ in 0..REPEATS {
            if slice.noise.is_none() {
                break;
            }
            slice = self.measured(duration, ours)?;
        }
        self.sum.add(slice);
        Ok(())
    }

    /// After the last slice: what it all came to, once that is verified.
    pub(crate) fn finish(&mut self) -> Result<Measured> {
        let mut measured = self.summed_up()?;
        self.subject
            .running
            .check_alive()
            .context("it fell under the load")?;
        self.origin.check_alive()?;
        self.proxy_cpu.verify().context("its CPU time")?;
        self.origin_cpu.verify().context("the origin's CPU time")?;
        if self.method.count_syscalls && !self.is_idle() {
            measured.syscalls = Some(self.syscalls_per_request()?);
        }
        // A load may send some more before it ends.
        let account = self.load.end()?;
        let answered = self.settle()?.saturating_sub(self.counted_before);
        verify_count(answered, account)?;
        probe::ask_once(self.subject.aim()).context("after the load")?;
        Ok(measured)
    }

    /// `error`, with what the proxy said last.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        match self.subject.running.last_words() {
            words if words.is_empty() => error,
            words => anyhow!("{error:#} (its last words: {words})"),
        }
    }

    fn is_idle(&self) -> bool {
        self.case.load.with == Loader::Idle
    }

    fn turn(&mut self, duration: Duration) -> Result<Turn> {
        self.subject.turn(self.load.as_mut(), duration)
    }

    /// `ours` meters this process and all it has started: what else ran was not us.
    fn measured(&mut self, duration: Duration, ours: &mut Meter) -> Result<Slice> {
        let window = Window::open(ours.read()?)?;
        let counted = self.origin.counted()?;
        let (cpu, origin_cpu) = (self.proxy_cpu.read()?, self.origin_cpu.read()?);
        let turn = self.turn(duration)?;
        let noise = window.close(ours.read()?)?;
        let requests = self.settle()?.saturating_sub(counted);
        Ok(Slice {
            requests,
            cpu: self.proxy_cpu.read()? - cpu,
            origin_cpu: self.origin_cpu.read()? - origin_cpu,
            turn,
            noise,
        })
    }

    /// Waits until what was under way when the load stopped has come to its end, so that it is
    /// charged to this run and not to the next turn; the origin's count then.
    fn settle(&mut self) -> Result<u64> {
        let mut settling = Settling::default();
        let deadline = Instant::now() + SETTLE;
        let (mut looked, mut cpu) = (Instant::now(), self.proxy_cpu.read()?);
        loop {
            std::thread::sleep(LOOK);
            let counted = self.origin.counted()?;
            let now = self.proxy_cpu.read()?;
            let used = Duration::from_nanos(now - cpu);
            if settling.is_over(counted, used, looked.elapsed()) {
                return Ok(counted);
            }
            ensure!(
                Instant::now() < deadline,
                "it works on without a load: {counted} requests, {used:?} of CPU time in {LOOK:?}"
            );
            (looked, cpu) = (Instant::now(), now);
        }
    }

    fn summed_up(&mut self) -> Result<Measured> {
        let usage = Usage::of_tree(self.subject.running.pid())?;
        let (before, counted) = self.before_slices;
        let all = count64(self.origin.counted()?.saturating_sub(counted)).max(1.0);
        let ticks = |now: u64, then: u64| ticks_to_us(now.saturating_sub(then));
        let user = ticks(usage.user_ticks, before.user_ticks);
        let system = ticks(usage.system_ticks, before.system_ticks);
        let voluntary = usage.voluntary.saturating_sub(before.voluntary);
        let sum = &self.sum;
        ensure!(sum.requests > 0, "not one request was answered");
        let each_us = |nanoseconds: u64| count64(nanoseconds) / 1e3 / count64(sum.requests);
        Ok(Measured {
            requests: sum.requests,
            seconds: sum.seconds,
            cpu_us: each_us(sum.cpu),
            user_share: user / (user + system).max(f64::MIN_POSITIVE),
            origin_cpu_us: each_us(sum.origin_cpu),
            latency: sum.latency.as_ref().and_then(Collector::latency),
            rss: usage.rss,
            voluntary: count64(voluntary) / all,
            syscalls: None,
            lost: sum.lost,
            noise: sum.noise(),
            extra: sum.extra.clone(),
        })
    }

    /// In one more turn: to be counted costs the proxy something.
    fn syscalls_per_request(&mut self) -> Result<f64> {
        let counted = self.origin.counted()?;
        let counter = Counter::start(self.subject.running.pid())?;
        self.turn(self.method.warm_up)?;
        let requests = self.settle()?.saturating_sub(counted);
        Ok(count64(counter.stop()?) / count64(requests))
    }
}

/// The origin must have answered what the clients received: an answer from elsewhere is not the
/// work that is measured, and neither is a request sent twice.
fn verify_count(answered: u64, account: Account) -> Result<()> {
    let Account {
        requests,
        unanswered,
    } = account;
    ensure!(
        (requests..=requests + unanswered).contains(&answered),
        "clients received {requests} answers (and up to {unanswered} were on their way), the \
         origin gave {answered}",
    );
    Ok(())
}

/// How often a disturbed slice is measured anew before it counts as it is. On a machine that is
/// never quiet a run takes so many times longer.
const REPEATS: usize = 2;
/// How long what is under way may take to end: a configuration with 5 000 routes, a profile.
const SETTLE: Duration = Duration::from_secs(5);
/// How long whoever waits for that waits between two looks: answers take far less.
const LOOK: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_from_elsewhere_and_repeated_requests_fail_the_run() {
        let account = Account {
            requests: 100,
            unanswered: 4,
        };
        assert!(verify_count(100, account).is_ok());
        assert!(verify_count(104, account).is_ok());
        assert!(
            verify_count(99, account).is_err(),
            "the proxy made an answer up"
        );
        assert!(verify_count(105, account).is_err(), "the proxy asked twice");
    }
}
