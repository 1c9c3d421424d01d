//! From the files to the model, with all there is to say of them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use translate::admit::{self, Configuration};
use translate::{Options, Place};
use xds::model::{BindKey, Model};

use super::report::Report;
use crate::config::files::Files;
use crate::config::origin;
use crate::limits::CLOCK_LOOK;

/// The objects in force, and the model they come to.
pub(super) struct Loader {
    files: Files,
    configuration: Configuration,
    options: Options,
    model: Arc<Model>,
    report: Report,
    /// From when on the same objects come to something else.
    changes_after: Option<Timestamp>,
    /// When to look whether that is now.
    look_at: Option<Instant>,
}

/// What a look at the files brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loaded {
    /// Another model.
    Changed,
    /// Nothing new.
    Same,
    /// No file could be read.
    Nothing,
}

impl Loader {
    pub(super) fn new(
        paths: Vec<PathBuf>,
        port_offset: u16,
        reserved_ports: BTreeSet<u16>,
    ) -> Self {
        let options = Options {
            port_offset,
            reserved_ports,
            ..Options::machine()
        };
        Self {
            files: Files::new(paths),
            configuration: Configuration::default(),
            options,
            model: Arc::default(),
            report: Report::default(),
            changes_after: None,
            look_at: None,
        }
    }

    /// Reads all files again, but for those that are being `written`.
    pub(super) fn load(&mut self, written: &BTreeSet<PathBuf>) -> Loaded {
        let loaded = self.read(written);
        let left = self.changes_after.map(|at| until(at, Timestamp::now()));
        self.look_at = left.map(|left| Instant::now() + left.min(CLOCK_LOOK));
        loaded
    }

    fn read(&mut self, written: &BTreeSet<PathBuf>) -> Loaded {
        let sources = self.files.read(written);
        let reload = self.configuration.reload(&sources);
        reload.findings.iter().for_each(Report::finding);
        let unreadable = reload.findings.iter().chain(&reload.repeated);
        let unreadable = unreadable.filter(|it| it.reason == admit::Reason::Unreadable);
        if unreadable.count() == sources.len() {
            return Loaded::Nothing;
        }
        let now = Timestamp::now();
        let is_over = self.changes_after.is_some_and(|at| at < now);
        if !reload.changed && !is_over {
            return Loaded::Same;
        }
        self.options.now = Some(now);
        let store = self.configuration.store();
        if let Place::Machine { addresses } = &mut self.options.place {
            *addresses = origin::local_addresses(store);
        }
        let translation = translate::translate(store, &self.options);
        self.changes_after = translation.changes_after;
        self.report
            .conditions(&translation.statuses, &self.configuration);
        if translation.model == *self.model {
            return Loaded::Same;
        }
        self.model = Arc::new(translation.model);
        Loaded::Changed
    }

    /// When to read again although nobody touches a file.
    pub(super) fn look_again(&self) -> Option<Instant> {
        let times = [self.files.look_again(), self.look_at];
        times.into_iter().flatten().min()
    }

    /// What the proxy is told.
    pub(super) fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// What the user named, for messages.
    pub(super) fn paths(&self) -> String {
        let paths = self.files.paths().iter();
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        paths.join(", ")
    }

    /// Where a bind stands in the files.
    pub(super) fn origin(&self, bind: &BindKey) -> String {
        origin::of_bind(bind, &self.model, &self.configuration)
    }

    /// Conditions that are not as they should be.
    pub(super) fn unhappy(&self) -> usize {
        self.report.unhappy()
    }
}

/// What is left until the second after `at`.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    let left = at.duration_since(now);
    Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1)
}
