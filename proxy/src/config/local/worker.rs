//! What the configuration thread does: loads, applies, and follows changes of files and names.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tracing::{debug, error, info};
use xds::model::Hostname;

use super::binds::Binds;
use super::load::{Loaded, Loader};
use super::{Binder, LocalConfig, StartError};
use crate::config::Published;
use crate::config::compile::{CompileOptions, Compiler};
use crate::config::dns::{Answer, LookupError, Names, Resolver};
use crate::config::in_force::{InForce, Told};
use crate::config::jwks::Fetcher;
use crate::config::publish::Publisher;
use crate::config::watch::Watch;
use crate::limits::{DNS_CHANGE_WAIT, DNS_FIRST_WAIT, SNAPSHOT_SWEEP};

type Lookup = (Hostname, Result<Answer, LookupError>);

/// All that the configuration thread has.
pub(super) struct Worker {
    watch: Watch,
    loader: Loader,
    names: Names,
    resolver: Resolver,
    lookups: JoinSet<Lookup>,
    keys: Fetcher,
    compiler: Compiler,
    options: CompileOptions,
    published: Published,
    publisher: Publisher,
    binds: Binds,
    in_force: InForce,
    swept: Instant,
}

impl Worker {
    pub(super) fn new(
        config: LocalConfig,
        published: Published,
        binder: Binder,
        resolver: Resolver,
    ) -> Self {
        let (keys, wake) = Fetcher::new();
        Self {
            // Before the first look at the files, so that no change falls between the two.
            watch: Watch::new(config.paths.clone()),
            loader: Loader::new(config.paths, config.port_offset, config.reserved_ports),
            in_force: config.in_force,
            names: Names::default(),
            resolver,
            lookups: JoinSet::new(),
            keys,
            compiler: Compiler::woken_by(wake),
            options: config.compile,
            publisher: Publisher::new(Published::clone(&published)),
            published,
            binds: Binds::new(binder),
            swept: Instant::now(),
        }
    }

    /// Loads the configuration for the first time.
    pub(super) async fn load_first(&mut self) -> Result<(), StartError> {
        let begun = Instant::now();
        if self.loader.load(&self.watch.written()) == Loaded::Nothing {
            return Err(StartError::NothingRead(self.loader.paths()));
        }
        self.resolve_new(DNS_FIRST_WAIT).await;
        self.apply(begun).await;
        if self.binds.up() == 0 {
            return Err(StartError::NoListener(self.binds.why_none()));
        }
        Ok(())
    }

    /// Follows changes for ever.
    pub(super) async fn run(&mut self) -> Infallible {
        loop {
            let wake = self.wake_at();
            tokio::select! {
                () = self.watch.changed() => self.reload().await,
                Some(lookup) = self.lookups.join_next() => self.take_answers(lookup).await,
                () = self.keys.changed() => {}
                () = sleep_until(wake), if wake.is_some() => self.on_time().await,
            }
        }
    }

    async fn reload(&mut self) {
        let begun = Instant::now();
        match self.loader.load(&self.watch.written()) {
            Loaded::Changed => {
                self.resolve_new(DNS_CHANGE_WAIT).await;
                self.apply(begun).await;
            }
            Loaded::Same => {
                debug!("files were touched, and say what they said");
                self.ask_for_binds();
            }
            Loaded::Nothing => error!(
                paths = self.loader.paths(),
                "no configuration can be read any more; what was read last stays in force"
            ),
        }
    }

    /// Compiles what is known, fetches the keys that are new in it, publishes it, and only then opens
    /// and closes binds: no connection
    /// meets a snapshot that does not know it.
    async fn apply(&mut self, begun: Instant) {
        let model = self.loader.model();
        let resolved = self.names.resolved();
        let snapshot = self.compiler.compile(model, resolved, &self.options);
        let remote = self.compiler.remote_keys();
        self.keys.want(remote, &snapshot, &self.resolver).await;
        self.publisher.publish(snapshot);
        let snapshot = self.published.load_full();
        self.in_force.tell(Told {
            model: Arc::clone(model),
            snapshot: Arc::clone(&snapshot),
            since: Some(Instant::now()),
            problems: self.loader.unhappy(),
        });
        self.binds.want(&snapshot, |bind| self.loader.origin(bind));
        self.note_binds();
        let endpoints = snapshot.clusters.iter();
        let endpoints: usize = endpoints.map(|cluster| cluster.endpoints.len()).sum();
        info!(
            version = snapshot.version,
            listeners = model.listeners.len(),
            binds = self.binds.up(),
            rules = model.routes.len(),
            backends = snapshot.clusters.len(),
            endpoints,
            problems = self.loader.unhappy(),
            milliseconds = begun.elapsed().as_millis(),
            "configuration applied"
        );
        self.sweep();
    }

    /// Asks for the names that are new, and waits for their answers, but for so long at most. What
    /// comes later is a change of its own; until then a backend of that name answers 503.
    async fn resolve_new(&mut self, patience: Duration) {
        self.names.want(self.loader.model(), Instant::now());
        self.look_up();
        let deadline = tokio::time::Instant::now() + patience;
        while !self.names.settled() {
            let Ok(Some(lookup)) =
                tokio::time::timeout_at(deadline, self.lookups.join_next()).await
            else {
                break;
            };
            self.take_answer(lookup);
        }
    }

    fn look_up(&mut self) {
        let due = self.names.take_due(Instant::now());
        if !due.is_empty() {
            self.resolver.refresh();
        }
        for name in due {
            let resolver = self.resolver.clone();
            self.lookups.spawn(async move {
                let answer = resolver.lookup(&name).await;
                (name, answer)
            });
        }
    }

    /// Takes an answer and those that came with it, and applies them if they change anything.
    async fn take_answers(&mut self, first: Result<Lookup, tokio::task::JoinError>) {
        let begun = Instant::now();
        let mut changed = self.take_answer(first);
        while let Some(lookup) = self.lookups.try_join_next() {
            changed |= self.take_answer(lookup);
        }
        if changed {
            self.apply(begun).await;
        }
    }

    fn take_answer(&mut self, lookup: Result<Lookup, tokio::task::JoinError>) -> bool {
        match lookup {
            Ok((name, answer)) => self.names.take(&name, answer, Instant::now()),
            Err(error) => {
                error!(%error, "a look-up ended badly; please report it");
                false
            }
        }
    }

    fn ask_for_binds(&mut self) {
        self.binds.ask(|bind| self.loader.origin(bind));
        self.note_binds();
    }

    fn note_binds(&self) {
        self.in_force.tried(self.binds.up(), self.binds.down());
    }

    fn sweep(&mut self) {
        self.swept = Instant::now();
        let oldest = self.publisher.sweep();
        self.compiler.release(oldest);
    }

    /// When there is something to do without being told.
    fn wake_at(&self) -> Option<Instant> {
        let sweep = self.publisher.waits().then(|| self.swept + SNAPSHOT_SWEEP);
        let times = [
            self.names.next_due(),
            self.keys.next_due(),
            self.binds.retry_at(),
            self.loader.look_again(),
            sweep,
        ];
        times.into_iter().flatten().min()
    }

    async fn on_time(&mut self) {
        self.look_up();
        self.keys.fetch_due(&self.published.load(), &self.resolver);
        let now = Instant::now();
        if self.loader.look_again().is_some_and(|at| at <= now) {
            self.reload().await;
        }
        if self.binds.retry_at().is_some_and(|at| at <= now) {
            self.ask_for_binds();
        }
        if self.publisher.waits() && self.swept + SNAPSHOT_SWEEP <= now {
            self.sweep();
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
