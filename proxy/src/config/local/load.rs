//! From the files to the model, with all there is to say of them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use translate::admit::{self, Configuration, UnknownFields};
use translate::{Options, Place};
use xds::model::{BindKey, Change, Model};

use super::report::Report;
use crate::config::files::Files;
use crate::config::origin;
use crate::limits::CLOCK_LOOK;

/// The objects in force, and the model they come to.
pub(super) struct Loader {
    files: Files,
    configuration: Configuration,
    options: Options,
    model: Model,
    report: Report,
    /// Whether a file of the last look could not be read, or has something in it that cannot be told.
    unrecognised: bool,
    /// From when on the same objects come to something else.
    changes_after: Option<Timestamp>,
    /// When to look whether that is now.
    look_at: Option<Instant>,
}

/// What a look at the files brought.
#[derive(Debug)]
pub(super) enum Loaded {
    /// Changes of the model.
    Changed(Vec<Change>),
    /// Nothing new.
    Same,
    /// No file could be read.
    Nothing,
}

impl Loader {
    pub(super) fn new(
        paths: Vec<PathBuf>,
        unknown_fields: UnknownFields,
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
            configuration: Configuration::new(unknown_fields),
            options,
            model: Model::default(),
            report: Report::default(),
            unrecognised: true,
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
        self.unrecognised = reload.unrecognised;
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
        let changes = self.model.changes_to(&translation.model);
        self.model = translation.model;
        if changes.is_empty() {
            return Loaded::Same;
        }
        Loaded::Changed(changes)
    }

    /// When to read again although nobody touches a file.
    pub(super) fn look_again(&self) -> Option<Instant> {
        let times = [self.files.look_again(), self.look_at];
        times.into_iter().flatten().min()
    }

    /// Whether every document of the last look could be told.
    pub(super) fn is_recognised(&self) -> bool {
        !self.unrecognised
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
