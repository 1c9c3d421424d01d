//! Tells the user what is wrong with his files, once, with file, line, object and field.

use std::collections::BTreeSet;

use tracing::field::display;
use tracing::{error, info, warn};
use translate::Statuses;
use translate::admit::{Configuration, Finding, Severity};

/// What was said of conditions and still holds.
#[derive(Debug, Default)]
pub(super) struct Report {
    said: BTreeSet<String>,
}

impl Report {
    /// Logs a finding of admission.
    pub(super) fn finding(finding: &Finding) {
        let Finding {
            severity,
            file,
            line,
            object,
            field,
            reason,
            text,
        } = finding;
        let object = object.as_ref().map(display);
        match severity {
            Severity::Info => info!(file, line, object, field, %reason, "{text}"),
            Severity::Warning => warn!(file, line, object, field, %reason, "{text}"),
            Severity::Error => error!(file, line, object, field, %reason, "{text}"),
        }
    }

    /// Logs the conditions that are not as they should be, and were not so before.
    pub(super) fn conditions(&mut self, statuses: &Statuses, configuration: &Configuration) {
        let mut said = BTreeSet::new();
        for unhappy in statuses.unhappy() {
            let whole = unhappy.to_string();
            if !self.said.contains(&whole) {
                let place = configuration.locate(&unhappy.object, unhappy.field);
                let (file, line) = place.unzip();
                warn!(
                    file,
                    line,
                    object = %unhappy.object,
                    part = unhappy.part,
                    field = unhappy.field,
                    condition = %unhappy.condition,
                    reason = %unhappy.reason,
                    "{}",
                    unhappy.message
                );
            }
            said.insert(whole);
        }
        self.said = said;
    }

    /// Conditions that are not as they should be.
    pub(super) fn unhappy(&self) -> usize {
        self.said.len()
    }
}
