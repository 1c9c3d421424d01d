//! The configuration thread's loop in local mode: follows changes of the files, and applies them.

use std::convert::Infallible;
use std::time::Instant;

use tracing::{debug, error};
use xds::model::Change;

use super::load::{LoadWork, Loaded, Loader};
use super::{LocalConfig, StartError};
use crate::config::Published;
use crate::config::apply::{Applier, Binder, Update, Wait, sleep_until};
use crate::config::dns::Resolver;
use crate::config::in_force::InForce;
use crate::config::watch::Watch;

/// The files, with the parts that apply them.
pub(super) struct Worker {
    watch: Watch,
    loader: Loader,
    applier: Applier,
    in_force: InForce,
}

impl Worker {
    pub(super) fn new(
        config: LocalConfig,
        published: Published,
        binder: Binder,
        resolver: Resolver,
    ) -> Self {
        let in_force = config.in_force.clone();
        Self {
            // Watch before the first read, so that no change is missed.
            watch: Watch::new(config.paths.clone()),
            loader: Loader::new(
                config.paths,
                config.unknown_fields,
                config.port_offset,
                config.reserved_ports,
            ),
            applier: Applier::new(
                (config.compile, config.session_keys),
                config.in_force,
                published,
                binder,
                resolver,
            ),
            in_force,
        }
    }

    /// Loads the configuration for the first time.
    pub(super) async fn load_first(&mut self) -> Result<(), StartError> {
        let begun = Instant::now();
        let loaded = self.loader.load(&self.watch.written());
        if matches!(loaded, Loaded::Nothing) {
            return Err(StartError::NothingRead(self.loader.paths()));
        }
        self.record_recognised();
        self.show_problems();
        if !self.in_force.was_recognised() {
            error!(
                "a document or file named above cannot be recognised, and it may be a policy that \
                 restricts access: the gateway is not ready until it is corrected or removed"
            );
        }
        let changes = match loaded {
            Loaded::Changed(changes) => changes,
            Loaded::Same | Loaded::Nothing => Vec::new(),
        };
        self.apply(changes, begun, Wait::First).await;
        self.examine();
        if self.applier.up() == 0 {
            return Err(StartError::NoListener(self.applier.failure_summary()));
        }
        Ok(())
    }

    pub(super) async fn run(&mut self) -> Infallible {
        loop {
            let next_scan = self.loader.next_scan();
            tokio::select! {
                () = self.watch.changed() => self.reload().await,
                () = sleep_until(next_scan) => self.reload().await,
                event = self.applier.event() => {
                    let locate = |bind: &_| self.loader.origin(bind);
                    self.applier.handle(event, &locate).await;
                }
            }
        }
    }

    async fn reload(&mut self) {
        let begun = Instant::now();
        let loaded = self.loader.load(&self.watch.written());
        let LoadWork { documents, units } = self.loader.last_work();
        debug!(documents, units, "checked the files for changes");
        self.record_recognised();
        self.show_problems();
        self.in_force.set_problems(self.loader.problems());
        match loaded {
            Loaded::Changed(changes) => self.apply(changes, begun, Wait::Change).await,
            Loaded::Same => {
                debug!("files were written without a change of what is served");
                let locate = |bind: &_| self.loader.origin(bind);
                self.applier.request_binds(&locate);
            }
            Loaded::Nothing => error!(
                paths = self.loader.paths(),
                "cannot read any configuration; the last one stays in force"
            ),
        }
        self.examine();
    }

    /// Looks for what does not work although it is valid.
    fn examine(&mut self) {
        if self.loader.examine() {
            self.show_problems();
            self.in_force.set_problems(self.loader.problems());
        }
    }

    async fn apply(&mut self, changes: Vec<Change>, begun: Instant, wait: Wait) {
        let update = Update {
            changes,
            problems: self.loader.problems(),
            begun,
        };
        let locate = |bind: &_| self.loader.origin(bind);
        self.applier.update(update, wait, &locate).await;
    }

    /// Shows the admin server what is wrong.
    fn show_problems(&self) {
        let previous_versions = self.loader.previous_versions();
        self.in_force.set_previous_versions(previous_versions);
        self.in_force.set_file_problems(self.loader.all_problems());
    }

    fn record_recognised(&self) {
        if self.loader.is_recognised() {
            self.in_force.recognise();
        }
    }
}
