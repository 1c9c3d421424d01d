//! One run of one peer: start, probe, warm up, measure, verify, stop.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::load::{self, Aim, Outcome};
use crate::noise::{self, Window};
use crate::origin::{Kind, Origin};
use crate::peers::{Peer, Wiring};
use crate::process::Running;
use crate::procfs::{self, Usage};
use crate::record::Measured;
use crate::scenario::{Case, Loader};
use crate::stats::count64;
use crate::syscalls::Counter;
use crate::tls::Certificate;
use crate::{inside, net, probe};

/// How runs are made.
#[derive(Debug, Clone)]
pub(crate) struct Method {
    /// Measured time of a run.
    pub(crate) duration: Duration,
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
}

/// Measures `peer` in `case`. Everything it writes goes below `folder`.
pub(crate) fn measure(
    peer: &dyn Peer,
    case: &Case,
    method: &Method,
    folder: &Path,
) -> Result<Measured> {
    let mut bench = Bench::set_up(peer, case, method, folder)?;
    bench.run(method).map_err(|error| {
        let words = bench.proxy.last_words();
        if words.is_empty() {
            error
        } else {
            anyhow!("{error:#} (its last words: {words})")
        }
    })
}

/// A proxy between clients and origin.
struct Bench<'a> {
    peer: &'a dyn Peer,
    case: &'a Case,
    wiring: Wiring,
    origin: Origin,
    proxy: Running,
}

impl<'a> Bench<'a> {
    fn set_up(peer: &'a dyn Peer, case: &'a Case, method: &Method, folder: &Path) -> Result<Self> {
        let origin = Origin::start(method.origin, case, &method.load_cores, folder)?;
        let certificate = case
            .encrypted()
            .then(|| Certificate::generate(folder))
            .transpose()?;
        let wiring = Wiring {
            listen: net::free_address()?,
            origin: origin.address(),
            workers: case.workers,
            front: case.front,
            upstream: case.upstream,
            routes: case.routes,
            heap_sampling: case.heap_sampling,
            apart: case.apart,
            certificate,
            folder: folder.to_owned(),
            generation: 0,
        };
        let command = peer.prepare(&wiring)?;
        let proxy = Running::start(command, &method.cores_of(case)?, folder, peer.name())?;
        let mut bench = Self {
            peer,
            case,
            wiring,
            origin,
            proxy,
        };
        bench.wait_until_right()?;
        bench.check_driver()?;
        Ok(bench)
    }

    fn aim(&self) -> Aim<'_> {
        Aim {
            address: self.wiring.listen,
            proxy: self.proxy.pid(),
            case: self.case,
            certificate: self.wiring.certificate.as_ref(),
            folder: &self.wiring.folder,
        }
    }

    fn run(&mut self, method: &Method) -> Result<Measured> {
        let noise = noise::wait_for_quiet(method.patience)?;
        let idle = self.case.load.with == Loader::Idle;
        if !idle {
            self.load(method.warm_up).context("while warming up")?;
        }
        let mut measured = self.measured(method.duration)?;
        measured.noise = noise.or(measured.noise);
        probe::ask_once(self.aim()).context("after the load")?;
        if method.count_syscalls && !idle {
            let counter = Counter::start(self.proxy.pid())?;
            let requests = self.load(method.warm_up)?.requests;
            measured.syscalls = Some(count64(counter.stop()?) / count64(requests));
        }
        Ok(measured)
    }

    /// Until it gives the right answer; listening alone is not readiness.
    fn wait_until_right(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        while let Err(error) = probe::ask_once(self.aim()) {
            self.proxy.check_alive().context("it does not start")?;
            if Instant::now() > deadline {
                let words = self.proxy.last_words();
                return Err(error.context(format!("no right answer came in {START:?} ({words})")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn check_driver(&self) -> Result<()> {
        match (self.peer.ring(), procfs::holds_ring(self.proxy.pid())?) {
            (Some(true), false) => bail!("it runs without io_uring: this machine refuses it?"),
            (Some(false), true) => bail!("it runs with io_uring, which it was told not to"),
            _ => Ok(()),
        }
    }

    /// Loads it, with whatever the case has going on meanwhile.
    fn load(&self, duration: Duration) -> Result<Outcome> {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let meanwhile = scope.spawn(|| self.meanwhile(&done));
            let outcome = load::run(self.aim(), duration);
            done.store(true, Ordering::Release);
            let happened = meanwhile
                .join()
                .map_err(|_| anyhow!("what went on meanwhile panicked"))??;
            let mut outcome = outcome?;
            let happened = happened.map(|(what, times)| (what.to_owned(), count64(times)));
            outcome.extra.extend(happened);
            Ok(outcome)
        })
    }

    /// What goes on until it is `done`, and how often it happened.
    fn meanwhile(&self, done: &AtomicBool) -> Result<Option<(&'static str, u64)>> {
        if let Some(every) = self.case.churn() {
            return Ok(Some((CHANGES, self.churn(every, done)?)));
        }
        let Some(inside) = self.case.inside else {
            return Ok(None);
        };
        let looks = inside::look(inside, &self.wiring.folder, done);
        let looks = looks.with_context(|| format!("cannot look inside ({inside:?})"))?;
        Ok(Some((LOOKS, looks)))
    }

    fn churn(&self, every: Duration, done: &AtomicBool) -> Result<u64> {
        let mut wiring = self.wiring.clone();
        while !done.load(Ordering::Acquire) {
            wiring.generation += 1;
            self.peer
                .reload(&wiring, &self.proxy)
                .context("cannot change its configuration")?;
            std::thread::sleep(every);
        }
        Ok(wiring.generation)
    }

    /// Ticks of the whole bench: proxy, origin, and this process with the load it has reaped.
    fn ours(&self) -> Result<u64> {
        let proxy = Usage::of_tree(self.proxy.pid())?.ticks();
        Ok(proxy + self.origin.usage()?.ticks() + procfs::own_ticks()?)
    }

    /// The origin's count once it stands still: requests that the warm-up cut off are still on
    /// their way when it ends. Its own questions are the only ones then.
    fn settled_count(&self) -> Result<u64> {
        let deadline = Instant::now() + SETTLE;
        let mut last = self.origin.counted()?;
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.origin.counted()?;
            if now.saturating_sub(last) == self.origin.counts_questions() {
                return Ok(now);
            }
            ensure!(
                Instant::now() < deadline,
                "requests keep coming without a load"
            );
            last = now;
        }
    }

    fn measured(&mut self, duration: Duration) -> Result<Measured> {
        let counted = self.settled_count()?;
        let window = Window::open(self.ours()?)?;
        let (proxy, origin) = (Usage::of_tree(self.proxy.pid())?, self.origin.usage()?);
        let outcome = self.load(duration)?;
        let (proxy_after, origin_after) = (Usage::of_tree(self.proxy.pid())?, self.origin.usage()?);
        let noise = window.close(self.ours()?)?;
        self.proxy.check_alive().context("it fell under the load")?;
        self.origin.check_alive()?;
        let answered = self.origin.counted()?.saturating_sub(counted);
        verify_count(
            answered.saturating_sub(self.origin.counts_questions()),
            &outcome,
        )?;
        let requests = count64(outcome.requests);
        let cpu = proxy_after.cpu_us_since(&proxy);
        let user = procfs::ticks_to_us(proxy_after.user_ticks.saturating_sub(proxy.user_ticks));
        Ok(Measured {
            requests: outcome.requests,
            seconds: outcome.seconds,
            cpu_us: cpu / requests,
            user_share: if cpu > 0.0 { user / cpu } else { 0.0 },
            origin_cpu_us: origin_after.cpu_us_since(&origin) / requests,
            latency: outcome.latency,
            rss: proxy_after.rss,
            voluntary: count64(proxy_after.voluntary.saturating_sub(proxy.voluntary)) / requests,
            syscalls: None,
            lost: outcome.lost,
            noise,
            extra: outcome.extra,
        })
    }
}

/// The origin must have answered what the clients received: an answer from elsewhere is not the
/// work that is measured, and neither is a request sent twice.
fn verify_count(answered: u64, outcome: &Outcome) -> Result<()> {
    let most = outcome.requests + outcome.in_flight + outcome.lost;
    ensure!(
        (outcome.requests..=most).contains(&answered),
        "clients received {} answers (and up to {} were on their way), the origin gave {answered}",
        outcome.requests,
        outcome.in_flight + outcome.lost,
    );
    Ok(())
}

/// Key in [`Outcome::extra`]: how often the configuration changed.
pub(crate) const CHANGES: &str = "configuration_changes";
/// Key in [`Outcome::extra`]: how often an operator's question was answered, or was under way.
const LOOKS: &str = "looks_inside";
/// 5 000 routes take a while to parse.
const START: Duration = Duration::from_secs(20);
/// How long requests may trickle in after a load.
const SETTLE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_from_elsewhere_and_repeated_requests_fail_the_run() {
        let outcome = Outcome {
            requests: 100,
            in_flight: 4,
            ..Outcome::default()
        };
        assert!(verify_count(100, &outcome).is_ok());
        assert!(verify_count(104, &outcome).is_ok());
        assert!(
            verify_count(99, &outcome).is_err(),
            "the proxy made an answer up"
        );
        assert!(
            verify_count(105, &outcome).is_err(),
            "the proxy asked twice"
        );
    }
}
