//! Loads files into changes of the model, and reports their findings.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use translate::check::{addresses_of, refused};
use translate::diagnosis::{Hints, Others, diagnose};
use translate::files::{Configuration, UnknownFields};
use translate::{Batch, Event, Options, Translator};
use xds::model::{BindKey, Change, Kind, Model};

use super::report::Report;
use crate::config::files::Files;
use crate::config::in_force::FileProblem;
use crate::config::origin;
use crate::limits::CLOCK_CHECK_INTERVAL;

/// The current objects and their translation.
pub(super) struct Loader {
    files: Files,
    configuration: Configuration,
    translator: Translator,
    options: Options,
    /// Changes that the translator has not seen yet.
    pending: Batch,
    /// The listeners of the model, for messages about binds.
    listeners: Model,
    report: Report,
    /// Whether the report has what does not work of the objects as they are.
    is_examined: bool,
    last_work: LoadWork,
    /// Whether a file of the last load was unreadable, or has a document that was not recognised.
    unrecognised: bool,
    /// When the same objects translate differently, as a certificate expires.
    changes_after: Option<Timestamp>,
    /// When to check that again.
    look_at: Option<Instant>,
}

/// The result of reading changed files.
#[derive(Debug)]
pub(super) enum Loaded {
    /// Changes of the model.
    Changed(Vec<Change>),
    Same,
    /// No file could be read.
    Nothing,
}

/// The amount of work that a read took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LoadWork {
    /// Documents that were parsed.
    pub(super) documents: usize,
    /// Translation units that ran.
    pub(super) units: usize,
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
            translator: Translator::new(options.clone()),
            options,
            pending: Batch::new(),
            listeners: Model::default(),
            report: Report::default(),
            is_examined: true,
            last_work: LoadWork::default(),
            unrecognised: true,
            changes_after: None,
            look_at: None,
        }
    }

    /// Reads the files that changed, except those in `written`.
    pub(super) fn load(&mut self, written: &BTreeSet<PathBuf>) -> Loaded {
        let loaded = self.read(written);
        let left = self.changes_after.map(|at| until(at, Timestamp::now()));
        self.look_at = left.map(|left| Instant::now() + left.min(CLOCK_CHECK_INTERVAL));
        loaded
    }

    fn read(&mut self, written: &BTreeSet<PathBuf>) -> Loaded {
        let reload = self.configuration.update(self.files.scan(written));
        reload.findings.iter().for_each(Report::finding);
        self.report.kept(&self.configuration);
        self.unrecognised = reload.unrecognised;
        self.last_work = LoadWork {
            documents: reload.parsed,
            units: 0,
        };
        self.pending.extend(reload.events);
        if !self.configuration.is_readable() {
            return Loaded::Nothing;
        }
        let now = Timestamp::now();
        let is_over = self.changes_after.is_some_and(|at| at < now);
        if self.pending.is_empty() && !is_over {
            return Loaded::Same;
        }
        self.translate(now)
    }

    fn translate(&mut self, now: Timestamp) -> Loaded {
        let requested = self.configuration.gateways().flat_map(addresses_of);
        let addresses = origin::local_addresses(requested);
        let mut batch = std::mem::take(&mut self.pending);
        batch.extend([Event::MachineAddresses(addresses), Event::Start]);
        let delta = self.translator.apply(batch, now);
        for defect in self.translator.take_defects() {
            tracing::error!(
                "a defect: translating an object panicked. What was in effect of it stays, or else it is closed. \
                 Please report it: {defect}"
            );
        }
        self.last_work.units = self.translator.units_run();
        self.changes_after = delta.wake_at;
        let store = self.translator.store();
        let invalid = refused(&self.configuration.findings(), store);
        let hints = Hints::new(store, Others::Named).besides(invalid);
        self.report
            .statuses(delta.statuses, &self.configuration, &hints);
        self.is_examined = false;
        let changes = delta.resources;
        let listeners = changes.iter().filter(|(key, _)| key.kind == Kind::Listener);
        self.listeners.apply(listeners.cloned());
        if changes.is_empty() {
            return Loaded::Same;
        }
        Loaded::Changed(changes)
    }

    /// Reports what does not work although it is valid. Returns whether anything may have changed since the last
    /// time. It looks at all objects, so a change is applied first.
    pub(super) fn examine(&mut self) -> bool {
        let is_due = !std::mem::replace(&mut self.is_examined, true);
        if is_due {
            let found = diagnose(self.translator.store(), &self.options, Others::Named);
            self.report.diagnoses(found, &self.configuration);
        }
        is_due
    }

    /// The work of the last load.
    pub(super) fn last_work(&self) -> LoadWork {
        self.last_work
    }

    /// When to read again without an event.
    pub(super) fn next_scan(&self) -> Option<Instant> {
        let times = [self.files.next_scan(), self.look_at];
        times.into_iter().flatten().min()
    }

    /// Whether every document of the last load was recognised.
    pub(super) fn is_recognised(&self) -> bool {
        !self.unrecognised
    }

    /// The named files and folders, for messages.
    pub(super) fn paths(&self) -> String {
        let paths = self.files.paths().iter();
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        paths.join(", ")
    }

    /// The position of a bind in the files.
    pub(super) fn origin(&self, bind: &BindKey) -> String {
        origin::of_bind(bind, &self.listeners, &self.configuration)
    }

    /// Errors in files, and conditions with a problem.
    pub(super) fn problems(&self) -> usize {
        let errors = self.configuration.errors();
        self.report.problems().saturating_add(errors)
    }

    /// What is wrong with the objects, the worst first.
    pub(super) fn all_problems(&self) -> Vec<FileProblem> {
        self.report.all(&self.configuration)
    }

    /// The objects whose previous version stays in effect.
    pub(super) fn previous_versions(&self) -> Vec<String> {
        let kept = self.configuration.kept().iter();
        kept.map(ToString::to_string).collect()
    }
}

/// Time from `now` until the second after `at`.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    let left = at.duration_since(now);
    Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1)
}

#[cfg(test)]
mod tests;
