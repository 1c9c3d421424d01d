//! The measured proxy: started, verified, and observed beside requests.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::load::target::LoadTarget;
use crate::load::turn::{Load, LoadResult};
use crate::peers::{Peer, Topology};
use crate::process::{self, ChildProcess};
use crate::procfs;
use crate::scenario::{AdminLoad, Case, RouteKey};
use crate::stats::count64;
use crate::tls::Certificate;
use crate::{inside, net, probe};

/// A running proxy in front of an origin.
pub(crate) struct Subject<'a> {
    peer: &'a dyn Peer,
    case: &'a Case,
    topology: Topology,
    pub(crate) running: ChildProcess,
    /// Size of a correct response, measured by the probe.
    answer_size: usize,
}

impl<'a> Subject<'a> {
    /// Starts `peer` on `cores` and waits until it responds correctly.
    pub(crate) fn start(
        peer: &'a dyn Peer,
        case: &'a Case,
        origin: std::net::SocketAddr,
        cores: &[usize],
        folder: &Path,
    ) -> Result<Self> {
        let certificate = case
            .encrypted()
            .then(|| Certificate::generate(folder))
            .transpose()?;
        let topology = Topology {
            listen: net::free_address()?,
            origin,
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
        let command = peer.prepare(&topology)?;
        let running = ChildProcess::start(command, cores, folder, peer.name())?;
        let mut subject = Self {
            peer,
            case,
            topology,
            running,
            answer_size: 0,
        };
        subject.answer_size = subject.wait_for_correct_response()?;
        subject.check_driver()?;
        Ok(subject)
    }

    pub(crate) fn load_target(&self) -> LoadTarget<'_> {
        LoadTarget {
            address: self.topology.listen,
            proxy: self.running.pid(),
            case: self.case,
            certificate: self.topology.certificate.as_ref(),
            folder: &self.topology.folder,
            answer_size: self.answer_size,
        }
    }

    /// Runs `load` for one turn, while an operator looks `inside` and the configuration changes, if
    /// so configured. All of it has ended when this returns.
    pub(crate) fn turn(
        &mut self,
        load: &mut dyn Load,
        inside: Option<AdminLoad>,
        duration: Duration,
    ) -> Result<LoadResult> {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let meanwhile = std::thread::Builder::new().name("operator".to_owned());
            let meanwhile =
                meanwhile.spawn_scoped(scope, || self.run_concurrently(inside, &done))?;
            let turn = load.turn(duration);
            done.store(true, Ordering::Release);
            let happened = meanwhile
                .join()
                .map_err(|_| anyhow!("a concurrent task panicked"))??;
            let mut turn = turn?;
            let happened = happened.map(|(what, times)| (what.to_owned(), count64(times)));
            turn.extra.extend(happened);
            Ok(turn)
        })
    }

    /// Runs concurrently until it is `done`, and counts repetitions.
    fn run_concurrently(
        &mut self,
        inside: Option<AdminLoad>,
        done: &AtomicBool,
    ) -> Result<Option<(&'static str, u64)>> {
        if let Some(every) = self.case.churn() {
            return Ok(Some((CHANGES, self.churn(every, done)?)));
        }
        let Some(inside) = inside else {
            return Ok(None);
        };
        // An operator would use another machine: run only in the time that load and origin leave.
        process::set_idle_policy().context("cannot set the idle scheduling policy")?;
        let looks = inside::generate_load(inside, &self.topology.folder, done);
        let looks = looks.with_context(|| format!("cannot read its admin server ({inside:?})"))?;
        Ok(Some((INSPECTIONS, looks)))
    }

    fn churn(&mut self, every: Duration, done: &AtomicBool) -> Result<u64> {
        let before = self.topology.generation;
        while !done.load(Ordering::Acquire) {
            self.topology.generation += 1;
            self.peer
                .reload(&self.topology, &self.running)
                .context("cannot change its configuration")?;
            inside::wait(every, done);
        }
        Ok(self.topology.generation - before)
    }

    /// After a configuration change, waits until the newly added route is served: a rejected change
    /// does not count.
    pub(crate) fn wait_until_changed(&mut self) -> Result<()> {
        if self.topology.generation == 0 {
            return Ok(());
        }
        let keys = self.topology.keys();
        let (host, path) = match (self.topology.routes.by, keys.last()) {
            (RouteKey::Hosts, Some(host)) => (host.clone(), self.case.path()),
            (RouteKey::Prefixes, Some(prefix)) => {
                let host = self.case.routes.host();
                (host, format!("{prefix}{}", self.case.path()))
            }
            _ => bail!("{} changes no routes", self.case.name()),
        };
        self.poll("its changed configuration did not take effect", |subject| {
            probe::serves(subject.topology.listen, &host, &path)
        })
    }

    /// Waits for a correct response and returns its size; listening alone is not readiness.
    fn wait_for_correct_response(&mut self) -> Result<usize> {
        self.poll("no correct response", |subject| {
            probe::request_once(subject.load_target())
        })
    }

    /// Retries until it responds or exits.
    fn poll<T>(&mut self, what_is_wrong: &str, ask: impl Fn(&Self) -> Result<T>) -> Result<T> {
        let deadline = Instant::now() + START;
        loop {
            let error = match ask(self) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            self.running.check_alive().context("it does not run")?;
            if Instant::now() > deadline {
                let lines = self.running.last_lines();
                return Err(error.context(format!("{what_is_wrong} in {START:?} ({lines})")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn check_driver(&self) -> Result<()> {
        match (self.peer.ring(), procfs::holds_ring(self.running.pid())?) {
            (Some(true), false) => {
                bail!("it runs without io_uring: is io_uring disabled on this machine?")
            }
            (Some(false), true) => bail!("it runs with io_uring although epoll was requested"),
            _ => Ok(()),
        }
    }
}

/// Key in [`LoadResult::extra`]: how often the configuration changed.
pub(crate) const CHANGES: &str = "configuration_changes";
/// Key in [`LoadResult::extra`]: operator requests answered or in progress.
const INSPECTIONS: &str = "looks_inside";
/// Parsing 5 000 routes takes a while.
const START: Duration = Duration::from_secs(20);
