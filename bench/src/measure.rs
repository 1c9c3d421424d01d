//! One peer between a load and an origin: set up, warmed up, measured in slices, verified. `turns`
//! has it wait while others have their turns, and sums up.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cpu::Meter;
use crate::load;
use crate::load::turn::{Load, LoadResult, ResponseCount};
use crate::noise::Window;
use crate::origin::{Kind, Origin};
use crate::peers::Peer;
use crate::probe;
use crate::process;
use crate::procfs::Usage;
use crate::scenario::{AdminLoad, Case, Loader};
use crate::slice::{SettlingDetector, Slice, divide};
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
    pub(crate) warm_up: Duration,
    /// How long to wait for a quiet machine.
    pub(crate) quiet_timeout: Duration,
    /// Cores of the proxy, one per worker.
    pub(crate) proxy_cores: Vec<usize>,
    /// Cores of load and origin.
    pub(crate) load_cores: Vec<usize>,
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
            // Workers that bind themselves to cores take the first ones.
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

/// A proxy between a load and an origin, ready to be measured. Cases that differ only in the
/// operator's requests (`inside`) share one, so that these are the only difference: two processes
/// of the same program differ by more, depending on where memory and connections are placed.
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
        let load = load::start(subject.load_target())?;
        Ok(Self {
            case,
            method,
            proxy_cpu: Meter::start(subject.running.pid())?,
            origin_cpu: Meter::start(origin.pid())?,
            subject,
            origin,
            load,
            counted_before,
        })
    }

    /// The first turn of a run, which is not measured.
    pub(crate) fn warm_up(&mut self, inside: Option<AdminLoad>) -> Result<()> {
        if self.case.apart {
            // They share their cores with the admin server, unlike in production: its cost to them
            // is not the proxy's.
            let sooner = match self.case.load.rate {
                // At a fixed rate they leave the admin server time enough.
                Some(_) => process::set_realtime_priority,
                None => process::shorten_slices,
            };
            sooner(self.origin.pid())?;
            sooner(std::process::id())?;
        }
        if !self.is_idle() {
            let warm_up = self.turn(inside, self.method.warm_up);
            warm_up.context("while warming up")?;
        }
        self.settle()?;
        Ok(())
    }

    /// A slice of a run. A disturbed one is measured again, a few times. But the cost of idle
    /// connections shows only once, since a proxy keeps memory for the next ones.
    pub(crate) fn slice(
        &mut self,
        inside: Option<AdminLoad>,
        duration: Duration,
        ours: &mut Meter,
    ) -> Result<Slice> {
        let mut slice = self.measured(inside, duration, ours)?;
        let repeats = if self.is_idle() { 0 } else { REPEATS };
        for _ in 0..repeats {
            if slice.noise.is_none() {
                break;
            }
            slice = self.measured(inside, duration, ours)?;
        }
        Ok(slice)
    }

    /// System calls per request, if they can be counted: in an extra turn, since counting slows the
    /// proxy down.
    pub(crate) fn syscalls(&mut self, inside: Option<AdminLoad>) -> Result<Option<f64>> {
        if !self.method.count_syscalls || self.is_idle() {
            return Ok(None);
        }
        let counted = self.origin.counted()?;
        let counter = Counter::start(self.subject.running.pid())?;
        self.turn(inside, self.method.warm_up)?;
        let requests = self.settle()?.saturating_sub(counted);
        Ok(Some(count64(counter.stop()?) / count64(requests)))
    }

    /// After the last turn: whether all that was measured here holds.
    pub(crate) fn verify(&mut self) -> Result<()> {
        self.subject
            .running
            .check_alive()
            .context("the load stopped")?;
        self.origin.check_alive()?;
        self.proxy_cpu.verify().context("its CPU time")?;
        self.origin_cpu.verify().context("the origin's CPU time")?;
        // A load may send some more before it ends.
        let account = self.load.end()?;
        let answered = self.settle()?.saturating_sub(self.counted_before);
        verify_count(answered, account)?;
        self.subject.wait_until_changed()?;
        probe::request_once(self.subject.load_target()).context("after the load")?;
        Ok(())
    }

    pub(crate) fn process(&self) -> u32 {
        self.subject.running.pid()
    }

    /// `error`, with the last output of the proxy.
    pub(crate) fn explain(&self, error: &anyhow::Error) -> String {
        match self.subject.running.last_lines() {
            words if words.is_empty() => format!("{error:#}"),
            words => format!("{error:#} (its last words: {words})"),
        }
    }

    fn is_idle(&self) -> bool {
        self.case.load.with == Loader::Idle
    }

    fn turn(&mut self, inside: Option<AdminLoad>, duration: Duration) -> Result<LoadResult> {
        self.subject.turn(self.load.as_mut(), inside, duration)
    }

    /// `ours` meters this process and its children: the remaining load is foreign.
    fn measured(
        &mut self,
        inside: Option<AdminLoad>,
        duration: Duration,
        ours: &mut Meter,
    ) -> Result<Slice> {
        let usage = Usage::of_tree(self.subject.running.pid())?;
        let window = Window::open(ours.read()?)?;
        let counted = self.origin.counted()?;
        let (cpu, origin_cpu) = (self.proxy_cpu.read()?, self.origin_cpu.read()?);
        let turn = self.turn(inside, duration)?;
        let noise = window.close(ours.read()?)?;
        let requests = self.settle()?.saturating_sub(counted);
        Ok(Slice {
            requests,
            cpu: self.proxy_cpu.read()? - cpu,
            origin_cpu: self.origin_cpu.read()? - origin_cpu,
            usage: Usage::of_tree(self.subject.running.pid())?.since(&usage),
            turn,
            noise,
        })
    }

    /// Waits until the requests in flight at the end of the load are complete, so that they are
    /// charged to this run and not to the next turn; returns the origin's count then.
    fn settle(&mut self) -> Result<u64> {
        let mut settling = SettlingDetector::default();
        let deadline = Instant::now() + SETTLE;
        let (mut sampled_at, mut cpu) = (Instant::now(), self.proxy_cpu.read()?);
        loop {
            std::thread::sleep(POLL_INTERVAL);
            let counted = self.origin.counted()?;
            let now = self.proxy_cpu.read()?;
            let used = Duration::from_nanos(now - cpu);
            if settling.is_over(counted, used, sampled_at.elapsed()) {
                return Ok(counted);
            }
            ensure!(
                Instant::now() < deadline,
                "it uses CPU without load: {counted} requests, {used:?} of CPU time in {POLL_INTERVAL:?}"
            );
            (sampled_at, cpu) = (Instant::now(), now);
        }
    }
}

/// The origin must have answered what the clients received: a response from elsewhere is not the
/// work to measure, and neither is a request sent twice.
fn verify_count(answered: u64, account: ResponseCount) -> Result<()> {
    let ResponseCount {
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

/// How often a disturbed slice is measured again before it counts as it is. On a machine that is
/// never quiet, a run takes that many times longer.
const REPEATS: usize = 2;
/// Timeout for requests in flight to complete: a configuration with 5 000 routes, a profile.
const SETTLE: Duration = Duration::from_secs(5);
/// Polling interval for that: responses take far less.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unforwarded_and_repeated_requests_fail_the_run() {
        let account = ResponseCount {
            requests: 100,
            unanswered: 4,
        };
        assert!(verify_count(100, account).is_ok());
        assert!(verify_count(104, account).is_ok());
        assert!(
            verify_count(99, account).is_err(),
            "the proxy generated a response"
        );
        assert!(
            verify_count(105, account).is_err(),
            "the proxy repeated a request"
        );
    }
}
